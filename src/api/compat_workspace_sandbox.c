/* The life cycle of a sandbox. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "policy/level.h"
#include "policy/rule.h"
#include "service/known_keys.h"
#include "service/sandbox_care.h"
#include "service/sandboxes.h"

#define LIST_DEFAULT 100
#define LIST_MAX 10000
#define TAGS_MAX 100

/* ---- create ---- */

static int create_read_rule(const json_t *given, size_t number, struct rule_list *rules, struct err *err)
{
    static const char *const keys[] = { "pattern", "type", "permission", "priority", NULL };
    const char *pattern = NULL, *type_name = "", *level_name = NULL;
    enum rule_type type = RULE_UNSPECIFIED;
    int64_t priority = 0;
    enum level level;
    int r = json_is_object(given) ? 0 : err_invalid(err, "rules[%zu] must be an object", number);

    if (r == 0)
        r = known_keys_check(given, keys, "a rule", err);
    if (r == 0)
        r = compat_read(given, err, { "pattern", .text = &pattern }, { "type", .text = &type_name },
                        { "permission", .text = &level_name },
                        { "priority", .number = &priority, .least = INT32_MIN, .most = INT32_MAX });
    if (r < 0)
        return err_wrap(err, r, "rules[%zu]", number);
    if (!pattern || !level_name || !level_parse(level_name, &level))
        return err_invalid(err, "rules[%zu] needs a pattern and a permission: none, view, read or write", number);
    if (*type_name && !rule_type_parse(type_name, &type))
        return err_invalid(err, "rules[%zu]: '%s' is no type of a rule", number, type_name);
    return rule_list_add(rules, pattern, strlen(pattern), type, level, (int32_t) priority, err);
}

static int create_read_rules(const json_t *body, struct rule_list *rules, struct err *err)
{
    const json_t *list = NULL;
    int r = compat_get_array(body, "rules", RULES_MAX, &list, err);

    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = create_read_rule(json_array_get(list, i), i, rules, err);
    return r;
}

static int create_read_tags(const json_t *body, const json_t **ret, struct err *err)
{
    autofree const char **texts = NULL;
    size_t count = 0;
    int r = compat_get_texts(body, "tags", TAGS_MAX, &texts, &count, err);

    if (r == 0 && texts)
        *ret = json_object_get(body, "tags");
    return r;
}

/* The request to the service. It borrows from the body, except for the owned parts. */
struct create_wanted {
    struct sandbox_request request;
    struct rule_list rules;
    const char **reserved; /* owned array */
    json_t *behavior;      /* owned */
    bool host_mount;
};

static void create_wanted_done(struct create_wanted *wanted)
{
    rule_list_done(&wanted->rules);
    free(wanted->reserved);
    json_decref(wanted->behavior);
}

static int create_read_texts(const json_t *body, struct sandbox_request *request, struct err *err)
{
    const struct {
        const char *key;
        const char **ret;
    } texts[] = {
        { "projectRoot", &request->project_root },       { "scopePath", &request->scope_path }, { "owner", &request->creator },
        { "ownerType", &request->creator_type },         { "driver", &request->driver },        { "preset", &request->preset },
        { "idempotencyKey", &request->idempotency_key }, { "profile", &request->profile }
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(texts); i++) {
        *texts[i].ret = "";
        r = compat_get_text(body, texts[i].key, 0, texts[i].ret, err);
    }
    return r;
}

/* `reservedPaths`, else `reservedPath`, else neither. */
static int create_read_reserved(const json_t *body, struct create_wanted *wanted, struct err *err)
{
    const char *one = "";
    size_t count = 0;
    int r = compat_get_texts(body, "reservedPaths", 0, &wanted->reserved, &count, err);

    if (r == 0)
        r = compat_get_text(body, "reservedPath", 0, &one, err);
    if (r == 0 && count == 0 && *one) {
        free(wanted->reserved);
        wanted->reserved = xalloc(2 * sizeof(*wanted->reserved));
        wanted->reserved[0] = one;
    }
    wanted->request.reserved_paths = wanted->reserved;
    return r;
}

/* noLock may be in the body or in `behavior`. */
static int create_read_no_lock(const json_t *body, const json_t *behavior, struct sandbox_request *request, struct err *err)
{
    const json_t *beside = json_object_get(body, "noLock");
    bool is_given = false, in_behavior = false;
    int r = compat_get_bool(body, "noLock", &request->no_lock, err);

    if (r == 0)
        r = behavior_no_lock(behavior, &is_given, &in_behavior, err);
    if (r < 0 || !is_given)
        return r;
    if (beside && !json_is_null(beside) && request->no_lock != in_behavior)
        return err_invalid(err, "noLock and behavior.noLock contradict each other");
    request->no_lock = in_behavior;
    return 0;
}

static int create_read_host_mount(const json_t *body, struct create_wanted *wanted, struct err *err)
{
    const json_t *given = json_object_get(body, "hostMount");

    if (given && !json_is_null(given))
        wanted->request.host_mount = &wanted->host_mount;
    return compat_get_bool(body, "hostMount", &wanted->host_mount, err);
}

static int create_read_request(const json_t *body, struct create_wanted *wanted, struct err *err)
{
    struct sandbox_request *request = &wanted->request;
    const json_t *behavior = NULL;
    int r = create_read_texts(body, request, err);

    if (r == 0)
        r = create_read_reserved(body, wanted, err);
    if (r == 0)
        r = create_read_host_mount(body, wanted, err);
    if (r == 0)
        r = create_read_tags(body, &request->tags, err);
    if (r == 0)
        r = compat_read(body, err, { "metadata", .object = &request->metadata }, { "behavior", .object = &behavior });
    if (r == 0)
        r = create_read_no_lock(body, behavior, request, err);
    if (r == 0)
        r = behavior_normalise(behavior, &wanted->behavior, err);
    request->behavior = wanted->behavior;
    request->rules = &wanted->rules;
    return r < 0 ? r : create_read_rules(body, &wanted->rules, err);
}

int compat_create(struct ws *ws, struct err *err)
{
    static const struct pair_list none;
    autodone(create_wanted) struct create_wanted wanted = { .request = { .codebase_id = "",
                                                                         .name = "",
                                                                         .labels = &none,
                                                                         .env = &none,
                                                                         .image = "",
                                                                         .network = "",
                                                                         .restarts = true,
                                                                         .starts = true,
                                                                         .key_lasts = true,
                                                                         .shows_unfinished = true } };
    autodone(sandbox_creation) struct sandbox_creation made = { 0 };
    int r = create_read_request(ws->body, &wanted, err);

    wanted.request.runtime = sandboxes_plain_runtime(ws->service);
    if (r == 0)
        r = sandboxes_create(ws->service, &ws->caller, &wanted.request, &made, err);
    return r < 0 ? compat_explain(ws, r, err, &made.conflicts) : compat_answer_object(ws, 201, &made.row);
}

/* ---- get and list ---- */

int compat_get(struct ws *ws, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err ignored = ERR_NONE;
    int r = service_find_sandbox(ws->service, &ws->caller, ws->id, &row, err);

    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    if (sandbox_row_state(&row) == SANDBOX_STATE_ACTIVE)
        sandboxes_measure(ws->service, &row, &ignored);
    return compat_answer_object(ws, 200, &row);
}

static int list_read_statuses(struct ws *ws, unsigned *ret, struct err *err)
{
    for (size_t i = 0; i < ws->web->query_count; i++) {
        const struct web_pair *pair = &ws->web->queries[i];
        enum sandbox_state state;

        if (strcmp(pair->name, "status") != 0 || !*pair->value)
            continue;
        if (!sandbox_state_parse(pair->value, &state)) {
            compat_hint(ws, "there are creating, active, stopped, approved, rejected, deleted, error");
            return err_reject(err, -EINVAL, pair->value, "is no status");
        }
        *ret |= SANDBOX_STATE_BIT(state);
    }
    return 0;
}

static const char *query_or_null(const struct ws *ws, const char *name)
{
    const char *value = web_query(ws->web, name);

    return value && *value ? value : NULL;
}

int compat_list(struct ws *ws, struct err *err)
{
    autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
    struct sandbox_filter filter = { .creator = query_or_null(ws, "owner"),
                                     .project_root = query_or_null(ws, "projectRoot"),
                                     .scope_path = query_or_null(ws, "scopePath") };
    int64_t limit = LIST_DEFAULT, offset = 0, total = 0;
    int r = list_read_statuses(ws, &filter.states, err);

    if (r == 0)
        r = compat_read_query(ws, err, { "limit", .number = &limit, .least = 0, .most = INT64_MAX },
                              { "offset", .number = &offset, .least = 0, .most = INT32_MAX });
    limit = limit == 0 ? LIST_DEFAULT : limit > LIST_MAX ? LIST_MAX : limit;
    if (r == 0)
        r = sandboxes_list_rows(ws->service, &ws->caller, &filter, (size_t) limit, (size_t) offset, &rows, &total, err);
    if (r < 0)
        return r;
    json_t *list = json_array();
    for (size_t i = 0; i < rows.count; i++) {
        struct sandbox_health health;
        bool is_active = sandbox_row_state(&rows.rows[i]) == SANDBOX_STATE_ACTIVE;

        if (is_active) {
            sandboxes_check(ws->service, &rows.rows[i], &health);
            sandboxes_remeasure(ws->service, &rows.rows[i], &health);
        }
        json_array_append_new(list, compat_object(ws, &rows.rows[i], is_active ? &health : NULL));
    }
    return compat_answer(ws, 200,
                         json_pack("{s:o, s:I, s:I, s:I}", "sandboxes", list, "totalCount", (json_int_t) total, "limit",
                                   (json_int_t) limit, "offset", (json_int_t) offset));
}

/* ---- steps ---- */

typedef int (*step_fn)(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                       struct sandbox_row *ret, struct err *err);

/* These routes do not start a decided sandbox: clients restore it first. */
static int sandbox_take_step(struct ws *ws, step_fn fn, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_step step = { .states = SANDBOX_STATE_BIT(SANDBOX_STATE_STOPPED), .may_be_so = true };
    int r = compat_get_version(ws, &step.version, err);

    if (r == 0)
        r = fn(ws->service, &ws->caller, ws->id, &step, &row, err);
    return r < 0 ? compat_explain(ws, r, err, NULL) : compat_answer_object(ws, 200, &row);
}

int compat_stop(struct ws *ws, struct err *err)
{
    return sandbox_take_step(ws, sandboxes_stop, err);
}

int compat_start(struct ws *ws, struct err *err)
{
    return sandbox_take_step(ws, sandboxes_start, err);
}

int compat_delete(struct ws *ws, struct err *err)
{
    const char *query = web_query(ws->web, "purge");
    struct sandbox_deletion deletion = { .may_be_so = true };
    int r = compat_get_version(ws, &deletion.version, err);

    if (r == 0 && query && strcmp(query, "true") != 0 && strcmp(query, "false") != 0)
        r = err_reject(err, -EINVAL, query, "is no value of purge; say true or false");
    else if (r == 0 && query)
        deletion.purges = strcmp(query, "true") == 0;
    else if (r == 0)
        r = compat_get_bool(ws->body, "purge", &deletion.purges, err);
    if (r == 0)
        r = sandboxes_delete(ws->service, &ws->caller, ws->id, &deletion, err);
    if (r == -ENOENT)
        r = 0; /* the sandbox is gone, as the caller wants */
    return r < 0 ? compat_explain(ws, r, err, NULL) : compat_answer_empty(ws, 204);
}

int compat_restore(struct ws *ws, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autodone(sandbox_conflicts) struct sandbox_conflicts conflicts = { 0 };
    const char *actor = "";
    int64_t version = 0;
    int r = compat_get_text(ws->body, "actor", 0, &actor, err);

    if (r == 0)
        r = compat_get_version(ws, &version, err);
    if (r == 0)
        r = sandboxes_restore(ws->service, &ws->caller, ws->id, actor, version, &row, &conflicts, err);
    return r < 0 ? compat_explain(ws, r, err, &conflicts) : compat_answer_object(ws, 200, &row);
}

int compat_workspace(struct ws *ws, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(ws->service, &ws->caller, ws->id, &row, err);

    if (r == 0 && sandbox_row_state(&row) != SANDBOX_STATE_ACTIVE)
        r = err_set_reason(err,
                           err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox %s is %s, and not mounted", row.id,
                                   sandbox_state_name(sandbox_row_state(&row))),
                           "INVALID_STATE");
    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    autofree char *path = sandboxes_host_path(ws->service, &row);
    /* With a wrong path, clients would write files that the sandbox never sees. */
    if (!path) {
        compat_hint(
            ws, "use .../exec and .../files; or create the sandbox with \"hostMount\": true, which takes a server that runs as "
                "root, or with the driver copy");
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "no directory of the host has the files of sandbox %s", row.id);
    }
    return compat_answer(ws, 200, json_pack("{s:o, s:s}", "path", compat_text(path, strlen(path)), "pathInside", "/workspace"));
}

int compat_validate_path(struct ws *ws, struct err *err)
{
    const char *path = query_or_null(ws, "path"), *root = query_or_null(ws, "projectRoot");
    struct sandbox_place place;

    if (!path)
        return err_invalid(err, "path is required");
    sandboxes_check_path(ws->service, &ws->caller, path, root ? root : "", &place);
    const char *shown_root = root ? root : sandboxes_project_root(ws->service);
    json_t *answer = json_pack("{s:o, s:b, s:b, s:b, s:b}", "path", compat_text(path, strlen(path)), "valid", place.is_valid,
                               "exists", place.exists, "isDirectory", place.is_directory, "withinProjectRoot", place.is_within);
    compat_set_text(answer, "projectRoot", shown_root);
    compat_set_text(answer, "error", place.error);
    return compat_answer(ws, 200, answer);
}
