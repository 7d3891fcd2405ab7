#include "cli/lookup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/sandbox_id.h"
#include "cli/api_verb.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

#define NAMED_MAX 8 /* of the candidates that an error names */

struct lookup {
    struct client *client;
    const char *what, *plural, *prefix, *text;
    const char *others_are; /* the verbs that list such objects */
    const char *owner;      /* search only objects of this owner; NULL: of all */
    char *found;            /* owned: the first id that matches */
    char *named;            /* owned: the first id whose name matches; names take precedence over prefixes of ids */
    size_t count, named_count;
    struct buf others;
};

static bool lookup_begins(const struct lookup *l, const char *id)
{
    size_t skip = strlen(l->prefix), len = strlen(l->text);

    return strncmp(id, l->text, len) == 0 || (strncmp(id, l->prefix, skip) == 0 && strncmp(id + skip, l->text, len) == 0);
}

static void lookup_consider(struct lookup *l, const char *id, const char *name, const char *owner)
{
    bool is_named = name && strcmp(name, l->text) == 0;

    if (l->owner && *l->owner && strcmp(l->owner, owner) != 0)
        return;
    if (!lookup_begins(l, id) && !is_named)
        return;
    if (is_named && ++l->named_count == 1)
        l->named = xdup(id);
    l->count++;
    if (l->count == 1)
        l->found = xdup(id);
    if (l->count <= NAMED_MAX)
        buf_addf(&l->others, "%s%s", l->count > 1 ? ", " : "", id);
    else if (l->count == NAMED_MAX + 1)
        buf_add_str(&l->others, ", ...");
}

static int lookup_on_codebase(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Codebase *codebase = (const void *) item;

    (void) err;
    lookup_consider(cookie, codebase->id, codebase->name, codebase->owner_id);
    return 0;
}

static int lookup_on_session(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    (void) err;
    lookup_consider(cookie, ((const Sandbox__V1__Session *) (const void *) item)->id, NULL, "");
    return 0;
}

static int lookup_on_sandbox_of_sessions(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    struct lookup *l = cookie;
    Sandbox__V1__ListSessionsRequest request = SANDBOX__V1__LIST_SESSIONS_REQUEST__INIT;

    request.sandbox_id = ((const Sandbox__V1__Sandbox *) (const void *) item)->id;
    return client_list(l->client, "ListSessions", &request.base, lookup_on_session, l, err);
}

static int lookup_choose(struct lookup *l, char **ret, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    int r = 0;

    buf_add_excerpt(&shown, l->text, strlen(l->text));
    if (l->named_count == 1)
        *ret = steal_ptr(&l->named);
    else if (l->count == 0)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no %s '%s'; %s", l->what, shown.data, l->others_are);
    else if (l->count > 1)
        r = err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "'%s' may be any of %zu %s: %s", shown.data, l->count, l->plural,
                    l->others.data);
    else
        *ret = steal_ptr(&l->found);
    return r;
}

static void lookup_done(struct lookup *l)
{
    free(l->found);
    free(l->named);
    buf_done(&l->others);
}

static int lookup_in_list(struct lookup *l, const char *method, ProtobufCMessage *request, client_item_fn fn, char **ret,
                          struct err *err)
{
    int r;

    if (!*l->text)
        return err_invalid(err, "the name of a %s is empty", l->what);
    if (id_is_valid(l->prefix, l->text)) {
        *ret = xdup(l->text);
        return 0;
    }
    r = client_list(l->client, method, request, fn, l, err);
    if (r == 0)
        r = lookup_choose(l, ret, err);
    lookup_done(l);
    return r;
}

/* ---- sandboxes ---- */

int lookup_get_sandbox(struct client *client, const char *text, ProtobufCMessage **ret, struct err *err)
{
    Sandbox__V1__GetSandboxRequest request = SANDBOX__V1__GET_SANDBOX_REQUEST__INIT;
    autodone(buf) struct buf shown = BUF_EMPTY;
    int r;

    if (!*text)
        return err_invalid(err, "the name of a sandbox is empty");
    request.sandbox_id = (char *) text;
    r = client_ask(client, "GetSandbox", &request.base, ret, err);
    if (r == 0 || err->code != ERR_NOT_FOUND)
        return r;
    buf_add_excerpt(&shown, text, strlen(text));
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", shown.data);
}

int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err)
{
    automessage sandbox = NULL;
    int r = id_is_valid(SANDBOX_ID_PREFIX, text) ? 0 : lookup_get_sandbox(client, text, &sandbox, err);

    if (r == 0)
        *ret = xdup(sandbox ? ((const Sandbox__V1__Sandbox *) (void *) sandbox)->id : text);
    return r;
}

int lookup_codebase(struct client *client, const char *text, char **ret, struct err *err)
{
    struct lookup l = { .client = client,
                        .what = "codebase",
                        .plural = "codebases",
                        .prefix = "cb_",
                        .text = text,
                        .others_are = "'agentfense codebase ls' lists them" };
    Sandbox__V1__ListCodebasesRequest request = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;

    return lookup_in_list(&l, "ListCodebases", &request.base, lookup_on_codebase, ret, err);
}

int lookup_session(struct client *client, const char *text, char **ret, struct err *err)
{
    struct lookup l = { .client = client,
                        .what = "session",
                        .plural = "sessions",
                        .prefix = "sess_",
                        .text = text,
                        .others_are = "'agentfense session ls SANDBOX' lists them" };
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;

    return lookup_in_list(&l, "ListSandboxes", &request.base, lookup_on_sandbox_of_sessions, ret, err);
}

/* ---- the newest ---- */

struct newest {
    char *id; /* owned */
    int64_t created_ns;
    bool only_directories;
};

static int lookup_on_newest(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Sandbox *sandbox = (const void *) item;
    struct newest *newest = cookie;
    int64_t created_ns = sandbox->created_at ? sandbox->created_at->seconds * CLOCK_NS_PER_SEC + sandbox->created_at->nanos : 0;

    (void) err;
    if ((newest->id && created_ns <= newest->created_ns) || (newest->only_directories && *sandbox->codebase_id))
        return 0;
    free(newest->id);
    newest->id = xdup(sandbox->id);
    newest->created_ns = created_ns;
    return 0;
}

int lookup_last(struct client *client, bool only_directories, char **ret, struct err *err)
{
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    struct newest newest = { .only_directories = only_directories };
    int r = client_list(client, "ListSandboxes", &request.base, lookup_on_newest, &newest, err);

    if (r == 0 && !newest.id)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox; 'agentfense create' makes one");
    if (r == 0)
        *ret = steal_ptr(&newest.id);
    free(newest.id);
    return r;
}

int lookup_codebase_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err)
{
    struct lookup l = { .client = client, .prefix = "cb_", .text = name, .owner = owner };
    Sandbox__V1__ListCodebasesRequest request = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;
    int r = client_list(client, "ListCodebases", &request.base, lookup_on_codebase, &l, err);

    if (r == 0)
        *ret = steal_ptr(&l.named);
    lookup_done(&l);
    return r;
}

/* ---- refusals ---- */

int lookup_explain_stopped(const char *text, int r, struct err *err)
{
    static const char *const told[] = { "sandbox is not running", "sandbox is not active", " is stopped, and not active" };

    for (size_t i = 0; r < 0 && i < ARRAY_LEN(told); i++) {
        if (strstr(err->text, told[i]))
            return err_set(err, err->code, r, "sandbox '%s' is not running; 'agentfense start %s' starts it", text, text);
    }
    return r;
}
