#include "cli/workspace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sandbox_id.h"
#include "cli/lookup.h"
#include "cli/output.h"

#define LIST_PAGE 1000
#define NAMED_MAX 5

void json_release(json_t **value)
{
    json_decref(*value);
}

const char *json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

long long json_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---- asking ---- */

static enum err_code code_of(long long status)
{
    switch (status) {
    case 400:
    case 413:
        return ERR_INVALID_ARGUMENT;
    case 401:
        return ERR_UNAUTHENTICATED;
    case 403:
        return ERR_PERMISSION_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
    case 422:
        return ERR_FAILED_PRECONDITION;
    case 429:
        return ERR_RESOURCE_EXHAUSTED;
    case 503:
        return ERR_UNAVAILABLE;
    default:
        return ERR_INTERNAL;
    }
}

/* "sandbox sb_0123456789abcdef is stopped, and not active": its id, and what it is. */
static const char *remedy_of_state(const char *error, char ret[UUID_TEXT_MAX])
{
    const char *at = strstr(error, "sandbox ");
    autofree char *word = at ? xdupn(at + 8, strcspn(at + 8, " ")) : NULL;
    char id[SANDBOX_ID_MAX];

    if (!word || sandbox_id_parse(word, id) < 0)
        return NULL;
    sandbox_id_to_uuid(id, ret);
    if (strstr(error, " is stopped"))
        return "start";
    if (strstr(error, " is rejected") || strstr(error, " is approved") || strstr(error, " is deleted"))
        return "restore";
    return NULL;
}

/* What to do, in the words of these verbs. */
static void add_remedy(struct buf *out, const char *reason, const char *error)
{
    static const char *const remedies[][2] = {
        { "SCOPE_CONFLICT",
          "approve, reject or remove that one ('agentfense ps -w' lists them), reserve something else (--reserve), or "
          "nothing (--no-lock)" },
        { "PROCESS_UNKNOWN", "'agentfense processes WORKSPACE' lists them" },
        { "IDEMPOTENCY_KEY_REUSED", "a new request wants a new --key" },
        { "VERSION_MISMATCH", "it was changed meanwhile: look at it again ('agentfense inspect')" },
        { "DRIVER_UNKNOWN", "there are fence, overlayfs and copy" },
        { "ROOT_NOT_ALLOWED", "'agentfense token create --root DIR' makes a token that allows it" },
        { "NO_APPROVAL", "'agentfense events WORKSPACE' tells of those there were" },
        { "SANDBOX_NOT_FOUND", "'agentfense ps -w' lists them" },
    };
    char id[UUID_TEXT_MAX];
    const char *verb = strcmp(reason, "INVALID_STATE") == 0 ? remedy_of_state(error, id) : NULL;

    if (verb)
        buf_addf(out, "; 'agentfense %s %.8s' %s", verb, id, *verb == 's' ? "starts it" : "brings it back");
    for (size_t i = 0; i < ARRAY_LEN(remedies); i++)
        if (strcmp(remedies[i][0], reason) == 0)
            buf_addf(out, "; %s", remedies[i][1]);
}

/* The hints that name routes or keys are for programs. */
int workspace_refuse(int status, const json_t *told, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *error = json_text(told, "error"), *hint = json_text(told, "hint");
    const char *reason = json_text(json_object_get(told, "details"), "reason");

    if (!*error)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there is no server of ours (HTTP status %d)", status);
    buf_add_escaped(&text, error, strlen(error));
    add_remedy(&text, status == 404 && !*reason ? "SANDBOX_NOT_FOUND" : reason, error);
    if (*hint && (!*reason || strcmp(reason, "DRIVER_FAILED") == 0) && !strstr(hint, "/api/v1") && !strstr(hint, "docs/")) {
        buf_add_str(&text, "; ");
        buf_add_escaped(&text, hint, strlen(hint));
    }
    return err_set_reason(err, err_set(err, code_of(status), -EREMOTEIO, "%s", text.data), client_keep_reason(reason));
}

static int ask(struct api_call *call, const char *verb, json_t *body, json_t **ret, int *ret_status, struct err *err,
               const char *path)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct client_web request = { .verb = verb, .path = path, .body = body };
    int r = client_web(call->client, &request, ret_status, &text, err);

    json_decref(body);
    if (r < 0)
        return r;
    json_decref(*ret);
    *ret = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    if (*ret_status >= 400)
        return workspace_refuse(*ret_status, *ret, err);
    if (!*ret && *ret_status != 204)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there is no server of ours");
    return 0;
}

__attribute__((format(printf, 1, 0))) static char *format(const char *fmt, va_list ap)
{
    char *text;

    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    return text;
}

int workspace_ask(struct api_call *call, const char *verb, json_t *body, json_t **ret, struct err *err, const char *fmt, ...)
{
    autofree char *path = NULL;
    va_list ap;
    int status = 0;

    va_start(ap, fmt);
    path = format(fmt, ap);
    va_end(ap);
    return ask(call, verb, body, ret, &status, err, path);
}

int workspace_decide(struct api_call *call, json_t *body, json_t **ret, struct err *err, const char *fmt, ...)
{
    autofree char *path = NULL;
    va_list ap;
    int status = 0, r;

    va_start(ap, fmt);
    path = format(fmt, ap);
    va_end(ap);
    r = ask(call, "POST", body, ret, &status, err, path);
    if (r == 0 || (status != 409 && status != 422))
        return r;
    if (call->options.is_json)
        output_json(json_incref(*ret));
    output_error(call->verb->name, err);
    if (!call->options.is_json && strcmp(json_text(json_object_get(*ret, "details"), "reason"), "WOULD_STOP") == 0)
        fputs("to have it stopped and started again, say --stop\n", stderr);
    return EXIT_REFUSED;
}

void workspace_add_query(struct buf *path, const char *name, const char *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

    if (!value)
        return;
    buf_addf(path, "%c%s=", path->data && strchr(path->data, '?') ? '&' : '?', name);
    for (; *value; value++) {
        if (strchr(plain, *value))
            buf_add_char(path, *value);
        else
            buf_addf(path, "%%%02X", (unsigned char) *value);
    }
}

void workspace_add_statuses(struct buf *path, const char *status)
{
    static const char *const live[] = { "creating", "active", "stopped", "approved", "rejected", "error" };

    if (status)
        workspace_add_query(path, "status", status);
    for (size_t i = 0; !status && i < ARRAY_LEN(live); i++)
        workspace_add_query(path, "status", live[i]);
}

char *workspace_absolute(const char *path)
{
    autofree char *real = realpath(path, NULL), *here = NULL;

    if (real)
        return steal_ptr(&real);
    here = *path == '/' ? NULL : getcwd(NULL, 0);
    return here ? xprintf("%s/%s", here, path) : xdup(path);
}

/* ---- finding ---- */

struct found {
    char first[UUID_TEXT_MAX];
    size_t count;
    struct buf named;
};

bool workspace_may_be_name(const char *text)
{
    return *text && strncmp(text, "sb_", 3) != 0;
}

const char *workspace_name_of(const json_t *item)
{
    return json_text(json_object_get(item, "metadata"), WORKSPACE_NAME_KEY);
}

static bool is_meant(const json_t *item, const char *text)
{
    if (uuid_may_begin(text) && strncasecmp(json_text(item, "id"), text, strlen(text)) == 0)
        return true;
    return *text && strcmp(workspace_name_of(item), text) == 0;
}

static void consider(struct found *found, const char *id)
{
    if (++found->count == 1)
        snprintf(found->first, sizeof(found->first), "%s", id);
    if (found->count <= NAMED_MAX)
        buf_addf(&found->named, "%s%s", found->count > 1 ? ", " : "", id);
    else if (found->count == NAMED_MAX + 1)
        buf_add_str(&found->named, ", ...");
}

static int look(struct client *client, const char *text, struct found *found, struct err *err)
{
    size_t offset = 0, count;

    do {
        struct api_call call = { .client = client };
        autodone(buf) struct buf path = BUF_EMPTY;
        autojson page = NULL;
        json_t *item;
        size_t i;
        int r;

        buf_addf(&path, "/api/v1/sandboxes?limit=%d&offset=%zu", LIST_PAGE, offset);
        workspace_add_statuses(&path, NULL);
        r = workspace_ask(&call, "GET", NULL, &page, err, "%s", path.data);
        if (r < 0)
            return r;
        count = json_array_size(json_object_get(page, "sandboxes"));
        json_array_foreach(json_object_get(page, "sandboxes"), i, item)
        {
            if (is_meant(item, text))
                consider(found, json_text(item, "id"));
        }
        offset += count;
    } while (count == LIST_PAGE);
    return 0;
}

static int judge(const struct found *found, const char *text, char ret[UUID_TEXT_MAX], struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, text, strlen(text));
    if (found->count == 0 && uuid_may_begin(text))
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no workspace '%s'", shown.data);
    if (found->count == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT,
                       "there is no sandbox or workspace '%s'; 'agentfense ls' and 'agentfense ps -w' list them", shown.data);
    if (found->count > 1)
        return err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "'%s' may be any of %zu workspaces: %s", shown.data, found->count,
                       found->named.data);
    memcpy(ret, found->first, UUID_TEXT_MAX);
    return 0;
}

int workspace_find(struct client *client, const char *text, char ret[UUID_TEXT_MAX], struct err *err)
{
    struct found found = { .count = 0 };
    int r;

    if (uuid_parse(text, ret) == 0)
        return 0;
    r = look(client, text, &found, err);
    if (r == 0)
        r = judge(&found, text, ret, err);
    buf_done(&found.named);
    return r;
}

/* They are listed with the newest first. */
int workspace_find_last(struct client *client, char ret[UUID_TEXT_MAX], int64_t *ret_created_ns, struct err *err)
{
    struct api_call call = { .client = client };
    autodone(buf) struct buf path = BUF_EMPTY;
    autojson page = NULL;
    struct timespec created = { 0 };
    const json_t *item;
    int r;

    buf_add_str(&path, "/api/v1/sandboxes?limit=1");
    workspace_add_statuses(&path, NULL);
    r = workspace_ask(&call, "GET", NULL, &page, err, "%s", path.data);
    item = r == 0 ? json_array_get(json_object_get(page, "sandboxes"), 0) : NULL;
    if (r == 0 && !item)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox");
    if (r == 0)
        r = uuid_parse(json_text(item, "id"), ret);
    if (r == 0)
        r = clock_parse(json_text(item, "createdAt"), &created, err);
    *ret_created_ns = (int64_t) created.tv_sec * CLOCK_NS_PER_SEC + created.tv_nsec;
    return r;
}

/* Both are asked: what may mean two things is refused. */
int target_find(struct client *client, const char *text, struct target *ret, struct err *err)
{
    struct err other = ERR_NONE;
    int r, is_none;

    *ret = (struct target){ .id = NULL };
    if (uuid_parse(text, ret->workspace) == 0)
        return 0;
    r = lookup_sandbox(client, text, &ret->id, err);
    if ((r < 0 && r != -ENOENT) || !workspace_may_be_name(text))
        return r;
    is_none = workspace_find(client, text, ret->workspace, &other);
    if (r == 0 && is_none == -ENOENT)
        return 0;
    if (r == 0 && is_none == 0) {
        err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "'%s' may be sandbox %s or workspace %s", text, ret->id, ret->workspace);
        target_done(ret);
        return -EEXIST;
    }
    if (is_none != -ENOENT)
        *err = other;
    return is_none;
}

void target_done(struct target *target)
{
    free(target->id);
    target->id = NULL;
}

/* ---- printing ---- */

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) || (json_is_object(value) && json_object_size(value) == 0);
}

void workspace_print_fields(json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!is_empty(value))
            output_field(name, value);
    }
}

void workspace_print(const struct api_call *call, json_t *answer, const char *id)
{
    if (call->options.is_json && answer)
        output_json(json_incref(answer));
    else if (id)
        puts(id);
}
