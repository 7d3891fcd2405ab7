#include "service/sandbox_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/delta.h"
#include "policy/explain.h"
#include "policy/lint.h"
#include "policy/preset.h"
#include "service/life.h"
#include "service/row_info.h"
#include "service/sandbox_care.h"
#include "service/sandbox_scope.h"
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

/* Compiles rules as a sandbox over this directory reads them: a leading /workspace/ of a pattern may mean a directory of that name. */
static int compile(int base_fd, const struct rule_list *rules, struct ruleset **ret, struct err *err)
{
    struct ruleset_options options = { 0 };
    struct stat st;

    options.workspace_is_real = fstatat(base_fd, "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return ruleset_new(rules, &options, ret, err);
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

int sandbox_rules_join(int base_fd, const char *preset, const struct rule_list *own, struct rule_list *ret,
                       struct rule_warnings *ret_warnings, struct err *err)
{
    autoptr(ruleset) compiled = NULL;
    int r = *preset ? preset_add(preset, ret, err) : 0;

    if (r == 0)
        r = rule_list_add_all(ret, own, err);
    if (r == 0)
        r = compile(base_fd, ret, &compiled, err);
    if (r == 0 && own->count > 0)
        look_at(compiled, ret_warnings);
    return r;
}

/* ---- existing sandboxes ---- */

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

/* The supervisor writes them to the sandbox's spec as well. */
static int tell_supervisor(struct sandbox_conn *conn, const struct sandbox_spec *spec, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_SET_RULES, .tag = 1 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    autofd int rules_fd = open_rules_fd(spec);
    autofd int fd = -1;
    struct ctl_reply reply;
    int r;

    if (rules_fd < 0 || !payload)
        return err_errno(err, rules_fd < 0 ? rules_fd : -ENOMEM, "writing rules");
    r = sandbox_conn_take_fd(conn, &fd, err);
    if (r == 0)
        r = ctl_client_call(fd, &request, rules_fd, &reply, payload, ANSWER_MS, err);
    if (r == 0)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
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

/* The fence comes last: once it has the rules, they are stored, so a kill cannot lose them. */
static int replace(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, const struct rule_list *rules,
                   struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int lock = -1;
    int r = row->status == SANDBOX_STATUS_RUNNING ? 0 : life_lock_dir(service, row->id, &lock, err);

    if (r == 0)
        r = keep_in_spec(service, row->id, rules, &spec, err);
    if (r < 0)
        return r;
    buf_clear(&row->rules);
    rules_encode(rules, &row->rules);
    row->updated_ns = clock_wall_ns();
    r = sandbox_row_update(service->store, row, err);
    if (r == 0 && row->status == SANDBOX_STATUS_RUNNING)
        r = tell_supervisor(conn, spec, err);
    return r;
}

/* Marks the preset's rules among the stored ones: they are not the user's own, so they cause no warnings. */
static int decode_kept(const struct buf *bytes, struct rule_list *ret, struct err *err)
{
    const char *preset;
    size_t count;
    int r = rules_decode(bytes, ret, err);

    preset = r == 0 ? preset_find(ret, &count) : NULL;
    for (size_t i = 0; preset && i < count; i++)
        ret->items[i].preset = preset;
    return r;
}

static bool is_named(const struct rule_edit *edit, const char *pattern)
{
    for (size_t i = 0; i < edit->pattern_count; i++)
        if (strcmp(edit->patterns[i], pattern) == 0)
            return true;
    return false;
}

static int check_patterns(const struct rule_edit *edit, const struct rule_list *now, struct err *err)
{
    for (size_t i = 0; i < edit->pattern_count; i++) {
        size_t at = 0;

        while (at < now->count && strcmp(now->items[at].pattern, edit->patterns[i]) != 0)
            at++;
        if (at < now->count)
            continue;
        err_reject(err, -ENOENT, edit->patterns[i], "has no rule");
        if (err)
            err->code = ERR_NOT_FOUND;
        return err_set_reason(err, -ENOENT, "RULE_UNKNOWN");
    }
    return 0;
}

int rule_edit_apply(const struct rule_edit *edit, const struct rule_list *now, struct rule_list *ret, struct err *err)
{
    int r = edit->replaces ? 0 : check_patterns(edit, now, err);

    if (edit->replaces && *edit->preset)
        r = preset_add(edit->preset, ret, err);
    for (size_t i = 0; r == 0 && !edit->replaces && i < now->count; i++) {
        const struct rule *rule = &now->items[i];

        if (is_named(edit, rule->pattern))
            continue;
        r = rule_list_add(ret, rule->pattern, strlen(rule->pattern), rule->type, rule->level, rule->priority, err);
        if (r == 0)
            ret->items[ret->count - 1].preset = rule->preset;
    }
    return r < 0 ? r : rule_list_add_all(ret, edit->rules, err);
}

/* Finds an existing sandbox of this host. */
static int find_own(struct service *service, const struct caller *caller, const char *id, struct sandbox_row *ret,
                    struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_own_sandbox(service, caller, id, &row, err);

    if (r == 0 && row.status == SANDBOX_STATUS_DELETED)
        r = refuse_sandbox(err);
    if (r < 0)
        return r;
    *ret = row;
    row = (struct sandbox_row){ 0 };
    return 0;
}

/* ---- the base ---- */

void rule_base_done(struct rule_base *base)
{
    rule_list_done(&base->rules);
    ruleset_unref(base->compiled);
    codebase_close(base->codebase);
    if (base->owns_fd)
        cleanup_fd(&base->fd);
}

static int open_codebase(struct service *service, const char *id, struct rule_base *ret, struct err *err)
{
    int r = codebase_open(service->codebases, id, &ret->codebase, err);

    if (r == 0)
        ret->fd = codebase_files_fd(ret->codebase);
    return r;
}

/* Opens the directory that it was made over, whatever is at its path now. A sandbox that never ran has no delta with that information. */
static int open_directory(struct service *service, const struct sandbox_row *row, struct rule_base *ret, struct err *err)
{
    autofree char *delta_path = state_dir_path(&service->state_dir, row->id, "delta");
    struct delta_info info = DELTA_INFO_NONE;
    struct err ignored = ERR_NONE;

    ret->owns_fd = true;
    if (delta_info_open(delta_path, &info, &ignored) < 0) {
        ret->fd = path_open_real(row->scope_path, O_PATH | O_DIRECTORY);
        return ret->fd < 0 ? err_errno(err, ret->fd, "opening '%s'", row->scope_path) : 0;
    }
    ret->fd = delta_info_open_base(&info, O_PATH, err);
    delta_info_done(&info);
    return ret->fd < 0 ? ret->fd : 0;
}

static int open_base(struct service *service, const struct sandbox_row *row, struct rule_base *ret, struct err *err)
{
    int r = decode_kept(&row->rules, &ret->rules, err);

    if (r == 0)
        r = sandbox_row_is_over_directory(row) ? open_directory(service, row, ret, err)
                                               : open_codebase(service, row->codebase_id, ret, err);
    return r < 0 ? r : rule_base_compile(ret, &ret->rules, &ret->compiled, err);
}

int rule_base_open(struct service *service, const struct caller *caller, const char *id, struct rule_base *ret, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = find_own(service, caller, id, &row, err);

    return r < 0 ? r : open_base(service, &row, ret, err);
}

int rule_base_open_codebase(struct service *service, const struct caller *caller, const char *codebase_id,
                            struct rule_base *ret, struct err *err)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    int r = service_get_codebase(service, caller, codebase_id, &row, err);

    if (r == 0)
        r = service_check_host(service, &row, err);
    return r < 0 ? r : open_codebase(service, row.id, ret, err);
}

int rule_base_compile(const struct rule_base *base, const struct rule_list *rules, struct ruleset **ret, struct err *err)
{
    return compile(base->fd, rules, ret, err);
}

/* ---- edits ---- */

/* Only the fence checks rules. */
static int check_driver(const struct sandbox_row *row, const struct rule_list *rules, struct err *err)
{
    if (!*row->driver || strcmp(row->driver, SANDBOX_DRIVER) == 0 || rule_list_forbids_nothing(rules))
        return 0;
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                  "the driver '%s' of sandbox %s checks no rules: it takes only those that forbid nothing",
                                  row->driver, row->id),
                          "DRIVER_CANNOT");
}

/* The caller holds `life`. */
static int edit_locked(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row,
                       const struct rule_edit *edit, struct rule_warnings *warnings, struct err *err)
{
    autodone(rule_list) struct rule_list joined = RULE_LIST_EMPTY;
    autodone(rule_base) struct rule_base base = RULE_BASE_NONE;
    autoptr(ruleset) compiled = NULL;
    int r = open_base(service, row, &base, err);

    if (r == 0)
        r = rule_edit_apply(edit, &base.rules, &joined, err);
    if (r == 0)
        r = check_driver(row, &joined, err);
    if (r == 0)
        r = rule_base_compile(&base, &joined, &compiled, err);
    if (r == 0 && edit->rules->count > 0)
        look_at(compiled, warnings);
    return r < 0 ? r : replace(service, conn, row, &joined, err);
}

int sandboxes_edit_rules(struct service *service, const struct caller *caller, const char *id, const struct rule_edit *edit,
                         struct sandbox_info *ret, struct err *err)
{
    struct sandbox_conn *conn = NULL;
    autodone(sandbox_info) struct sandbox_info info = { 0 };
    int r = life_hold(service, caller, id, &conn, &info.row, err);

    if (r < 0)
        return r;
    r = info.row.status == SANDBOX_STATUS_DELETED ? refuse_sandbox(err)
                                                  : edit_locked(service, conn, &info.row, edit, &info.warnings, err);
    life_release(conn);
    if (r < 0)
        return r;
    sandbox_tell(service, caller, &info.row, "permissions_updated", NULL, NULL);
    *ret = info;
    info = (struct sandbox_info){ 0 };
    return 0;
}

int sandboxes_set_rules(struct service *service, const struct caller *caller, const char *id, const char *preset,
                        const struct rule_list *rules, struct sandbox_info *ret, struct err *err)
{
    const struct rule_edit edit = { .replaces = true, .preset = preset, .rules = rules };

    return sandboxes_edit_rules(service, caller, id, &edit, ret, err);
}

int sandboxes_explain(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct ruleset **ret_rules, struct explanation **ret, struct err *err)
{
    autodone(rule_base) struct rule_base base = RULE_BASE_NONE;
    int r = rule_base_open(service, caller, id, &base, err);

    if (r < 0)
        return r;
    *ret_rules = ruleset_ref(base.compiled);
    return explain_path(*ret_rules, path, ret, err);
}
