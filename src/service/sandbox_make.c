/* Makes a sandbox, step by step. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/idempotency.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/sandbox_care.h"
#include "service/sandbox_draft.h"
#include "service/service_int.h"
#include "wire/runtime_type.h"

#define RULES_TOLD_MAX 50

void sandbox_creation_done(struct sandbox_creation *creation)
{
    sandbox_row_done(&creation->row);
    rule_warnings_done(&creation->warnings);
    sandbox_conflicts_done(&creation->conflicts);
}

int sandboxes_plain_runtime(const struct service *service)
{
    const struct runtime_type *runtime = runtime_type_of_number(service->options.runtime);

    return (runtime->needs_image ? runtime_type_default(false) : runtime)->api_number;
}

/* ---- creation ---- */

static void tell(struct service *service, const struct caller *caller, const struct sandbox_draft *draft)
{
    json_t *rules = json_array(), *details;

    for (size_t i = 0; i < draft->rules.count && i < RULES_TOLD_MAX; i++) {
        const struct rule *rule = &draft->rules.items[i];

        json_array_append_new(rules, json_pack("{s:s, s:s, s:i}", "pattern", rule->pattern, "permission",
                                               level_name(rule->level), "priority", (int) rule->priority));
    }
    details = json_pack("{s:s, s:s, s:o, s:s}", "runtime", runtime_type_of_number(draft->out->row.runtime)->name, "network",
                        draft->out->row.network, "permissions", rules, "driver", draft->driver);
    if (*draft->driver_reason)
        json_object_set_new(details, "driverReason", json_string(draft->driver_reason));
    sandbox_tell(service, caller, &draft->out->row, "sandbox_created", NULL, details);
}

static int build(struct service *service, struct sandbox_conn *conn, struct sandbox_draft *draft, int cancel_fd,
                 struct err *err)
{
    struct sandbox_row *row = &draft->out->row;
    enum sandbox_status to = draft->request->starts ? SANDBOX_STATUS_RUNNING : SANDBOX_STATUS_PENDING;
    autofd int dir_fd = -1;
    int r = state_dir_create(&service->state_dir, draft->spec, true, &dir_fd, err);

    fault("sandbox_dir_made");
    if (r == 0 && draft->request->starts)
        r = life_boot(service, conn, row, draft->is_over_directory ? draft->base_fd : -1, cancel_fd, err);
    fault("sandbox_booted");
    return r < 0 ? r : life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_CREATING), to, NULL, err);
}

/* Removes everything. If the sandbox was to be started, a row in ERROR stays as a record of the reason. */
static void take_back(struct service *service, struct sandbox_conn *conn, struct sandbox_draft *draft, int failure,
                      const char *why)
{
    /* Frees the key: a client that repeats the request wants a sandbox, not this failure. */
    const struct sandbox_move move = { .id = draft->id,
                                       .to = SANDBOX_STATUS_ERROR,
                                       .reason = why,
                                       .forgets_key = true,
                                       .forgets_name = true,
                                       .now_ns = clock_wall_ns() };
    struct err ignored = ERR_NONE;
    int r;

    bool is_told = draft->request->starts && failure != -EEXIST;

    if (draft->request->starts)
        life_end(service, conn); /* it may run if only its row could not be written */
    r = is_told ? sandbox_row_move(service->store, &move, NULL, &ignored)
                : sandbox_row_delete(service->store, draft->id, &ignored);
    ignored = ERR_NONE;
    /* A supervisor that is still ending may hold the lock. */
    if (fault_is("sandbox-held") ||
        (state_dir_remove(&service->state_dir, draft->id, &ignored) < 0 && ignored.code != ERR_NOT_FOUND) || r < 0)
        janitor_doubt(service);
}

/* Row first, directory second. So a CREATING row whose conn is not locked was left by a dead server, and adoption removes it. */
static int make(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err)
{
    struct sandbox_totals *totals = sandboxes_totals(service);
    struct sandbox_row *row = &draft->out->row;
    struct sandbox_admission room = {
        .max_per_owner = *row->owner_id ? (unsigned) service->options.max_per_user : 0,
        .max_over_directories = service->options.workspaces_max,
    };
    autoptr(sandbox_conn) conn = sandbox_conn_get(&service->conns, draft->id);
    int64_t began_ns = clock_now_ns();
    int r;

    pthread_mutex_lock(&conn->life);
    r = sandbox_row_insert(service->store, row, &room, err);
    draft->out->conflicts = room.conflicts;
    fault("sandbox_inserted");
    if (r == -ENOENT)
        refuse_codebase(err);
    if (r == 0) {
        r = build(service, conn, draft, caller->cancel_fd, err);
        if (r < 0 && r != -EINPROGRESS) {
            take_back(service, conn, draft, r, err->text);
            totals->errors++;
        }
        if (r == -EEXIST)
            err_set_reason(err, r, "NAME_TAKEN");
        else if (r < 0 && draft->request->starts) {
            err_wrap(err, r, "failed to make sandbox %s", draft->id);
            if (err->code != ERR_RESOURCE_EXHAUSTED && err->code != ERR_UNAVAILABLE)
                err->code = ERR_INTERNAL;
            err_set_reason(err, r, "DRIVER_FAILED");
        }
    }
    if (r == -EINPROGRESS)
        janitor_doubt(service); /* it is unknown whether the row exists */
    pthread_mutex_unlock(&conn->life);
    if (r < 0)
        return r;
    totals->created++;
    totals->create_ns += (uint64_t) (clock_now_ns() - began_ns);
    tell(service, caller, draft);
    return 0;
}

int sandboxes_create(struct service *service, const struct caller *caller, const struct sandbox_request *request,
                     struct sandbox_creation *ret, struct err *err)
{
    autodone(sandbox_draft) struct sandbox_draft draft;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct idempotency claim = { .owner = caller->owner,
                                 .key = request->idempotency_key,
                                 .method = *request->codebase_id ? "CreateSandbox" : "CreateWorkspace",
                                 .request = &text,
                                 .resource_id = draft.id,
                                 .lasts = request->key_lasts };
    struct err unseen = ERR_NONE;
    char known_id[SANDBOX_ID_MAX];
    int r;

    sandbox_draft_init(&draft, service, request, ret);
    sandbox_draft_describe(request, &text);
    r = idempotency_take(service, &claim, known_id, err);
    if (r == IDEMPOTENCY_ANSWERED)
        return service_find_sandbox(service, caller, known_id, &ret->row, err);
    if (r == -EALREADY && request->shows_unfinished &&
        service_find_sandbox(service, caller, known_id, &ret->row, &unseen) == 0) {
        *err = ERR_NONE;
        return 0;
    }
    if (r < 0)
        return r;
    r = sandbox_draft_prepare(service, caller, &draft, err);
    if (r == 0)
        r = make(service, caller, &draft, err);
    idempotency_end(service, &claim, r, draft.id);
    return r;
}
