#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "api/gate.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/known_keys.h"
#include "service/sandboxes.h"

#define HINT_MAX 512

void compat_hint(struct ws *ws, const char *fmt, ...)
{
    char text[HINT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    free(ws->hint);
    ws->hint = xdup(text);
}

void compat_detail(struct ws *ws, const char *key, json_t *value)
{
    if (!ws->details)
        ws->details = json_object();
    json_object_set_new(ws->details, key, value);
}

int compat_answer(struct ws *ws, int status, json_t *value)
{
    web_answer_json(ws->web, status, value);
    return 0;
}

int compat_answer_empty(struct ws *ws, int status)
{
    ws->web->response.status = status;
    return 0;
}

int compat_status_of(enum err_code code)
{
    switch (code) {
    case ERR_FAILED_PRECONDITION:
    case ERR_ALREADY_EXISTS:
    case ERR_ABORTED:
        return 409;
    case ERR_RESOURCE_EXHAUSTED:
        return 429;
    default:
        return err_code_http_status(code);
    }
}

static const char *compat_hint_of(int status, const char *reason)
{
    if (reason && strcmp(reason, "PROCESS_UNKNOWN") == 0)
        return "GET /api/v1/sandboxes/{id}/processes lists those of a sandbox";
    if (reason && strcmp(reason, "PROFILE_UNKNOWN") == 0)
        return "GET /api/v1/config/profiles lists those that there are";
    if (reason && strcmp(reason, "DRIVER_UNKNOWN") == 0)
        return "GET /api/v1/driver/options lists those that there are";
    switch (status) {
    case 400:
        return "see docs/workspace.md for what this request takes";
    case 401:
        return "send 'Authorization: Bearer TOKEN'; 'agentfense token create' makes one";
    case 403:
        return "ask for a token that allows this";
    case 404:
        return "GET /api/v1/sandboxes lists those that there are";
    case 409:
        return "look at the sandbox again: GET /api/v1/sandboxes/{id} tells its status and version";
    case 413:
        return "send less at once";
    case 429:
        return "delete what is not needed any more, or ask for a higher limit";
    default:
        return NULL;
    }
}

static void compat_answer_error(struct ws *ws, int r, struct err *err)
{
    struct web_response *response = &ws->web->response;

    if (err->code == ERR_OK)
        err_errno(err, r, "the request failed");
    int status = ws->status ? ws->status : compat_status_of(err->code);
    bool is_retryable = ws->is_retryable || err->code == ERR_ABORTED || err->code == ERR_UNAVAILABLE;

    if (ws->web->has_begun) {
        ws->web->is_broken = true;
        return;
    }
    response->status = status;
    response->content_type = "application/json";
    response->size_bytes = -1;
    buf_clear(&response->body);
    /* A missing sandbox is a 404 without a reason: that is how clients tell it from something missing in a sandbox. */
    if (err->reason && strcmp(err->reason, "SANDBOX_NOT_FOUND") == 0)
        err_set(err, err->code, r, "there is no sandbox '%s'", ws->shown);
    else if (err->reason && !json_object_get(ws->details, "reason"))
        compat_detail(ws, "reason", json_string(err->reason));
    if (status == 401)
        web_add_header(ws->web, "WWW-Authenticate", "Bearer");
    web_add_error(&response->body, status, err->text, ws->hint ? ws->hint : compat_hint_of(status, err->reason), is_retryable,
                  ws->details);
}

/* Some clients repeat the path's id in the body. A different id may mean that the client addresses the wrong sandbox. */
static int compat_check_sandbox_id(struct ws *ws, struct err *err)
{
    const json_t *given = json_object_get(ws->body, "sandboxId");
    char id[SANDBOX_ID_MAX];

    if (!given || json_is_null(given))
        return 0;
    if (!json_is_string(given) || sandbox_id_parse(json_string_value(given), id) < 0 || strcmp(id, ws->id) != 0)
        return err_invalid(err, "sandboxId is not the id in the path, %s", ws->shown);
    return 0;
}

static int compat_read_body(struct ws *ws, struct err *err)
{
    const struct web *web = ws->web;
    json_error_t wrong;

    if (!ws->route->keys)
        return 0;
    size_t blank = 0;
    while (blank < web->body_len && strchr(" \t\r\n", web->body[blank]) && web->body[blank])
        blank++;
    if (blank == web->body_len)
        return ws->route->flags & COMPAT_NEEDS_BODY ? err_invalid(err, "the request needs a body") : 0;
    ws->body = json_loadb(web->body, web->body_len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &wrong);
    if (!ws->body) {
        compat_hint(ws, "the body is one JSON object, with each key once");
        return err_invalid(err, "the body is malformed at line %d, column %d: %s", wrong.line, wrong.column, wrong.text);
    }
    if (!json_is_object(ws->body))
        return err_invalid(err, "the body is no JSON object");
    int r = known_keys_check(ws->body, ws->route->keys, "this request", err);
    return r < 0 ? r : compat_check_sandbox_id(ws, err);
}

/* Takes a complete id or UUID without looking it up. Anything else is a name or the beginning of an id. */
static int compat_read_id(struct ws *ws, struct err *err)
{
    const char *given = web_capture(ws->web, "id");
    int r = 0;

    if (!strstr(ws->route->path, "/sandboxes/{id}"))
        return 0;
    if (sandbox_id_parse(given, ws->id) < 0)
        r = sandboxes_find(ws->service, &ws->caller, given, ws->id, err);
    if (r == -ENOENT) {
        compat_hint(ws, "ids look like 83300d2c-bd63-41e4-853b-58b605352f6b");
        return err_reject(err, -EINVAL, given, "is no id of a sandbox");
    }
    if (sandbox_id_is_valid(given))
        snprintf(ws->shown, sizeof(ws->shown), "%s", given);
    else
        sandbox_id_to_uuid(ws->id, ws->shown);
    return r;
}

static int compat_admit(struct ws *ws, const struct api *api, struct err *err)
{
    struct call *call = ws->web->call;
    int r = ws->route->flags & COMPAT_PUBLIC ? 0 : gate_pass(api, call, err);

    if (r < 0)
        return r;
    ws->caller = (struct caller){ .owner = call->owner ? call->owner : "",
                                  .is_admin = call->is_admin,
                                  .cancel_fd = call_cancel_fd(call),
                                  .allowed_roots = (const char *const *) call->allowed_roots };
    ws->caller.has_uid = peer_uid(call->peer, &ws->caller.uid) == 0;
    return 0;
}

void compat_run(struct web *web, void *cookie)
{
    const struct api *api = cookie;
    struct ws ws = { .web = web, .api = api, .service = api->service, .route = web->route->detail };
    struct err err = ERR_NONE;
    int r = compat_admit(&ws, api, &err);

    if (r == 0)
        r = compat_read_id(&ws, &err);
    if (r == 0)
        r = compat_read_body(&ws, &err);
    if (r == 0)
        r = ws.route->fn(&ws, &err);
    if (r < 0)
        compat_answer_error(&ws, r, &err);
    free(ws.hint);
    json_decref(ws.body);
    json_decref(ws.details);
}

/* ---- parts of requests ---- */

/* NULL: the key is missing. */
static const json_t *compat_find_value(const json_t *object, const char *key)
{
    const json_t *value = object ? json_object_get(object, key) : NULL;

    return json_is_null(value) ? NULL : value;
}

int compat_get_text(const json_t *object, const char *key, size_t max, const char **ret, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    if (!value)
        return 0;
    if (!json_is_string(value))
        return err_invalid(err, "%s must be a text", key);
    if (json_string_length(value) > (max ? max : COMPAT_TEXT_MAX))
        return err_invalid(err, "%s is longer than %zu bytes", key, max ? max : COMPAT_TEXT_MAX);
    *ret = json_string_value(value);
    return 0;
}

int compat_get_bool(const json_t *object, const char *key, bool *ret, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return err_invalid(err, "%s must be true or false", key);
    *ret = json_is_true(value);
    return 0;
}

int compat_get_int(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    if (!value)
        return 0;
    if (!json_is_integer(value))
        return err_invalid(err, "%s must be a whole number", key);
    if (json_integer_value(value) < least || json_integer_value(value) > most)
        return err_invalid(err, "%s must be from %lld to %lld", key, (long long) least, (long long) most);
    *ret = json_integer_value(value);
    return 0;
}

static int compat_parse_duration(const char *name, const char *text, int64_t *ret_ns, struct err *err)
{
    int r = clock_parse_duration(text, ret_ns, err);

    return r < 0 ? err_wrap(err, r, "%s", name) : 0;
}

int compat_get_duration(const json_t *object, const char *key, int64_t *ret_ns, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    const char *text = json_string_value(value);

    if (text)
        return compat_parse_duration(key, text, ret_ns, err);
    if (value && !json_is_integer(value))
        return err_invalid(err, "%s must be a number of nanoseconds or a text such as \"24h\"", key);
    if (value && json_integer_value(value) < 0)
        return err_invalid(err, "%s must not be negative", key);
    if (value)
        *ret_ns = json_integer_value(value);
    return 0;
}

int compat_get_object(const json_t *object, const char *key, const json_t **ret, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    if (value && !json_is_object(value))
        return err_invalid(err, "%s must be an object", key);
    if (value)
        *ret = value;
    return 0;
}

int compat_get_array(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err)
{
    const json_t *value = compat_find_value(object, key);

    if (value && !json_is_array(value))
        return err_invalid(err, "%s must be a list", key);
    if (value && json_array_size(value) > max)
        return err_invalid(err, "%s has more than %zu entries", key, max);
    if (value)
        *ret = value;
    return 0;
}

int compat_get_texts(const json_t *object, const char *key, size_t max, const char ***ret, size_t *ret_count, struct err *err)
{
    const json_t *list = NULL;
    int r = compat_get_array(object, key, max ? max : COMPAT_TEXTS_MAX, &list, err);

    if (r < 0 || !list)
        return r;
    autofree const char **texts = xalloc((json_array_size(list) + 1) * sizeof(*texts));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > COMPAT_TEXT_MAX)
            return err_invalid(err, "%s[%zu] must be a text of at most %d bytes", key, i, COMPAT_TEXT_MAX);
        texts[i] = json_string_value(value);
    }
    *ret_count = json_array_size(list);
    *ret = steal_ptr(&texts);
    return 0;
}

int compat_get_pairs(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err)
{
    const json_t *pairs = NULL;
    const char *name;
    json_t *value;
    int r = compat_get_object(object, key, &pairs, err);

    if (r < 0 || !pairs)
        return r;
    if (json_object_size(pairs) > max)
        return err_invalid(err, "%s has more than %zu entries", key, max);
    json_object_foreach((json_t *) (uintptr_t) pairs, name, value)
    {
        if (!json_is_string(value))
            return err_invalid(err, "%s must hold texts only", key);
    }
    *ret = pairs;
    return 0;
}

int compat_get_fields(const json_t *object, const struct compat_field *fields, struct err *err)
{
    int r = 0;

    for (const struct compat_field *field = fields; r == 0 && field->key; field++) {
        if (field->text)
            r = compat_get_text(object, field->key, field->text_max, field->text, err);
        else if (field->flag)
            r = compat_get_bool(object, field->key, field->flag, err);
        else if (field->number)
            r = compat_get_int(object, field->key, field->least, field->most, field->number, err);
        else if (field->duration_ns)
            r = compat_get_duration(object, field->key, field->duration_ns, err);
        else
            r = compat_get_object(object, field->key, field->object, err);
    }
    return r;
}

/* ---- the query ---- */

static int compat_parse_int(const char *name, const char *text, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    size_t len = strlen(text);
    int64_t value;

    if (len == 0 || len > 18 || strspn(text, "0123456789") != len) {
        autodone(buf) struct buf shown = BUF_EMPTY;

        buf_add_excerpt(&shown, text, len);
        return err_invalid(err, "%s must be a whole number, not '%s'", name, shown.data ? shown.data : "");
    }
    value = strtoll(text, NULL, 10);
    if (value < least || value > most)
        return err_invalid(err, "%s must be from %lld to %lld", name, (long long) least, (long long) most);
    *ret = value;
    return 0;
}

int compat_query_int(const struct ws *ws, const char *name, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    const char *text = web_query(ws->web, name);

    return text && *text ? compat_parse_int(name, text, least, most, ret, err) : 0;
}

int compat_query_bool(const struct ws *ws, const char *name, bool *ret, struct err *err)
{
    const char *text = web_query(ws->web, name);

    if (!text || !*text)
        return 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
        *ret = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *ret = false;
    else
        return err_invalid(err, "%s must be true or false", name);
    return 0;
}

int compat_query_duration(const struct ws *ws, const char *name, int64_t *ret_ns, struct err *err)
{
    const char *text = web_query(ws->web, name);

    return text && *text ? compat_parse_duration(name, text, ret_ns, err) : 0;
}

int compat_query_fields(const struct ws *ws, const struct compat_field *fields, struct err *err)
{
    int r = 0;

    for (const struct compat_field *field = fields; r == 0 && field->key; field++) {
        if (field->flag)
            r = compat_query_bool(ws, field->key, field->flag, err);
        else if (field->number)
            r = compat_query_int(ws, field->key, field->least, field->most, field->number, err);
        else
            r = compat_query_duration(ws, field->key, field->duration_ns, err);
    }
    return r;
}

int compat_get_version(const struct ws *ws, int64_t *ret, struct err *err)
{
    const char *match = web_header(ws->web, "if-match");
    int r;

    if (match && strcmp(match, "*") != 0) {
        size_t len = strlen(match);
        bool is_quoted = len >= 2 && match[0] == '"' && match[len - 1] == '"';
        autofree char *number = is_quoted ? xdupn(match + 1, len - 2) : xdup(match);

        return compat_parse_int("If-Match", number, 1, INT64_MAX, ret, err);
    }
    r = compat_get_int(ws->body, "version", 1, INT64_MAX, ret, err);
    return r < 0 ? r : compat_query_int(ws, "version", 1, INT64_MAX, ret, err);
}

/* ---- answers ---- */

void compat_set_time(json_t *object, const char *key, int64_t wall_ns)
{
    char text[CLOCK_TEXT_MAX];

    if (wall_ns != 0 && clock_format(clock_timespec_of_ns(wall_ns), 9, text) == 0)
        json_object_set_new(object, key, json_string(text));
}

json_t *compat_text(const char *bytes, size_t len)
{
    autofree char *text = make_text(bytes, len);

    return json_string(text);
}

void compat_set_text(json_t *object, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(object, key, compat_text(text, strlen(text)));
}

json_t *compat_uuid(const char *sandbox_id)
{
    char uuid[UUID_TEXT_MAX];

    sandbox_id_to_uuid(sandbox_id, uuid);
    return json_string(*uuid ? uuid : sandbox_id);
}

size_t compat_text_whole(const char *bytes, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char) bytes[len - back];

        if (c < 0x80)
            return len;
        if (c >= 0xc0)
            return back < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? len - back : len;
    }
    return len;
}
