#include "api/compat_workspace_call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gate.h"
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

static const char *hint_of(int status, const char *reason)
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

static void answer_error(struct ws *ws, int r, struct err *err)
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
    /* A sandbox that is not there is told by 404 without a reason: clients tell it by that from what is not in one. */
    if (err->reason && strcmp(err->reason, "SANDBOX_NOT_FOUND") == 0)
        err_set(err, err->code, r, "there is no sandbox '%s'", ws->shown);
    else if (err->reason && !json_object_get(ws->details, "reason"))
        compat_detail(ws, "reason", json_string(err->reason));
    if (status == 401)
        web_add_header(ws->web, "WWW-Authenticate", "Bearer");
    web_add_error(&response->body, status, err->text, ws->hint ? ws->hint : hint_of(status, err->reason), is_retryable,
                  ws->details);
}

/* Some clients repeat the path's id in the body. Another one may be a mistake about which sandbox this is for. */
static int check_sandbox_id(struct ws *ws, struct err *err)
{
    const json_t *given = json_object_get(ws->body, "sandboxId");
    char id[SANDBOX_ID_MAX];

    if (!given || json_is_null(given))
        return 0;
    if (!json_is_string(given) || sandbox_id_parse(json_string_value(given), id) < 0 || strcmp(id, ws->id) != 0)
        return err_invalid(err, "sandboxId is not the id in the path, %s", ws->shown);
    return 0;
}

static int take_body(struct ws *ws, struct err *err)
{
    const struct web *web = ws->web;
    json_error_t wrong;

    if (!(ws->route->flags & (COMPAT_BODY | COMPAT_NEEDS_BODY)))
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
    return r < 0 ? r : check_sandbox_id(ws, err);
}

/* An id or a UUID is taken as it is, whatever it leads to; else it is a name, or the beginning of an id. */
static int take_id(struct ws *ws, struct err *err)
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

static int admit(struct ws *ws, const struct api *api, struct err *err)
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
    int r = admit(&ws, api, &err);

    if (r == 0)
        r = take_id(&ws, &err);
    if (r == 0)
        r = take_body(&ws, &err);
    if (r == 0)
        r = ws.route->fn(&ws, &err);
    if (r < 0)
        answer_error(&ws, r, &err);
    free(ws.hint);
    json_decref(ws.body);
    json_decref(ws.details);
}
