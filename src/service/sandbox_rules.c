#include "service/sandbox_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/explain.h"
#include "policy/lint.h"
#include "policy/preset.h"
#include "service/events.h"
#include "service/row_info.h"
#include "service/sandboxes.h"
#include "service/service_int.h"
#include "wire/ctl_client.h"

#define WARNINGS_MAX 20
#define ANSWER_MS 30000

void rule_warnings_done(struct rule_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        free(warnings->items[i]);
    free(warnings->items);
    *warnings = (struct rule_warnings){ 0 };
}

void rule_warnings_move(struct rule_warnings *warnings, struct sandbox_info *info)
{
    info->warnings = warnings->items;
    info->warning_count = warnings->count;
    *warnings = (struct rule_warnings){ 0 };
}

/* Whether a leading /workspace/ of a pattern means a directory of that name. */
static int has_workspace(struct service *service, const char *codebase_id, bool *ret, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    struct stat st;
    int r = codebase_open(service->codebases, codebase_id, &codebase, err);

    if (r == 0)
        *ret = fstatat(codebase_files_fd(codebase), "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return r;
}

int sandbox_rules_compile(struct service *service, const char *codebase_id, const struct rule_list *rules, struct ruleset **ret,
                          struct err *err)
{
    struct ruleset_options options = { 0 };
    int r = has_workspace(service, codebase_id, &options.workspace_is_real, err);

    return r < 0 ? r : ruleset_new(rules, &options, ret, err);
}

static void look_at(struct ruleset *compiled, struct rule_warnings *ret)
{
    autoptr(lint) lint = lint_new(compiled);
    const struct lint_finding *findings;
    size_t count;

    lint_finish(lint);
    findings = lint_findings(lint, &count);
    count = count < WARNINGS_MAX ? count : WARNINGS_MAX;
    ret->items = count > 0 ? xalloc(count * sizeof(*ret->items)) : NULL;
    for (size_t i = 0; i < count; i++)
        ret->items[ret->count++] = xdup(findings[i].text);
}

int sandbox_rules_join(struct service *service, const char *codebase_id, const char *preset, const struct rule_list *own,
                       struct rule_list *ret, struct rule_warnings *ret_warnings, struct err *err)
{
    autoptr(ruleset) compiled = NULL;
    int r = *preset ? preset_add(preset, ret, err) : 0;

    if (r == 0)
        r = rule_list_add_all(ret, own, err);
    if (r == 0)
        r = sandbox_rules_compile(service, codebase_id, ret, &compiled, err);
    if (r == 0 && own->count > 0)
        look_at(compiled, ret_warnings);
    return r;
}

/* ---- of a sandbox that is there ---- */

static int open_rules_fd(const struct sandbox_spec *spec)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    autofd int fd = memfd_create("rules", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    sandbox_spec_rules_encode(spec, &bytes);
    r = fd_pwrite_full(fd, bytes.data, bytes.len, 0);
    return r < 0 ? r : steal_fd(&fd);
}

/* The supervisor keeps them in the sandbox's spec as well. */
static int tell_supervisor(struct ward *ward, const struct sandbox_spec *spec, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_SET_RULES, .tag = 1 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    autofd int rules_fd = open_rules_fd(spec);
    autofd int fd = -1;
    struct ctl_reply reply;
    int r;

    if (rules_fd < 0 || !payload)
        return err_errno(err, rules_fd < 0 ? rules_fd : -ENOMEM, "writing rules");
    r = ward_take_fd(ward, &fd, err);
    if (r == 0)
        r = ctl_client_call(fd, &request, rules_fd, &reply, payload, ANSWER_MS, err);
    if (r == 0)
        ward_give_fd(ward, steal_fd(&fd));
    return r;
}

static int keep_in_spec(struct service *service, const char *id, const struct rule_list *rules, struct sandbox_spec **ret,
                        struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autodone(buf) struct buf bytes = BUF_EMPTY;
    char name[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r = state_dir_find(&service->state_dir, id, name, &dir_fd, err);

    if (r == 0)
        r = sandbox_spec_load(dir_fd, &spec, err);
    if (r < 0)
        return r;
    rules_encode(rules, &bytes);
    r = sandbox_spec_rules_decode(spec, bytes.data, bytes.len, err);
    if (r == 0)
        r = sandbox_spec_store(dir_fd, spec, true, err);
    if (r == 0)
        *ret = steal_ptr(&spec);
    return r;
}

/* The fence last: when it has them, they are kept already, whatever is killed next. */
static int replace(struct service *service, struct ward *ward, struct sandbox_row *row, const struct rule_list *rules,
                   struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    int r = keep_in_spec(service, row->id, rules, &spec, err);

    if (r < 0)
        return r;
    buf_clear(&row->rules);
    rules_encode(rules, &row->rules);
    row->updated_ns = clock_wall_ns();
    r = sandbox_row_update(service->store, row, err);
    if (r == 0 && row->status == SANDBOX_STATUS_RUNNING)
        r = tell_supervisor(ward, spec, err);
    return r;
}

int sandboxes_set_rules(struct service *service, const struct caller *caller, const char *id, const char *preset,
                        const struct rule_list *rules, struct sandbox_info **ret, struct err *err)
{
    autoptr(ward) ward = NULL;
    struct rule_list joined = RULE_LIST_EMPTY;
    struct rule_warnings warnings = { 0 };
    struct sandbox_row row = { 0 };
    int r = service_get_own_sandbox(service, caller, id, &row, err);

    if (r < 0)
        return r;
    ward = ward_get(&service->wards, row.id);
    pthread_mutex_lock(&ward->life);
    sandbox_row_done(&row);
    r = service_get_sandbox(service, caller, ward->id, &row, err);
    if (r == 0)
        r = sandbox_rules_join(service, row.codebase_id, preset, rules, &joined, &warnings, err);
    if (r == 0)
        r = replace(service, ward, &row, &joined, err);
    pthread_mutex_unlock(&ward->life);
    if (r == 0)
        r = row_info_make(&row, ret, err);
    if (r == 0) {
        rule_warnings_move(&warnings, *ret);
        events_add(service, &(struct event){ .type = "permissions_updated",
                                             .sandbox_id = row.id,
                                             .codebase_id = row.codebase_id,
                                             .owner = row.owner_id,
                                             .payload = json_object() });
    }
    rule_warnings_done(&warnings);
    rule_list_done(&joined);
    sandbox_row_done(&row);
    return r;
}

int sandboxes_explain(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct ruleset **ret_rules, struct explanation **ret, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_get_sandbox(service, caller, id, &row, err);

    if (r == 0)
        r = rules_decode(&row.rules, &rules, err);
    if (r == 0)
        r = sandbox_rules_compile(service, row.codebase_id, &rules, ret_rules, err);
    return r < 0 ? r : explain_path(*ret_rules, path, ret, err);
}
