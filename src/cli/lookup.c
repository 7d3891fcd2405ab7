#include "cli/lookup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "cli/workspace.h"
#include "sandbox/state_dir.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

#define NAMED_MAX 8 /* of those that an ambiguous text may mean */

struct lookup {
    struct client *client;
    const char *what, *plural, *prefix, *text;
    const char *others_are; /* which verbs list them */
    const char *owner;      /* only what is this one's; NULL: anybody's */
    bool is_sandbox;
    char *found; /* owned: the first that it may mean */
    char *named; /* owned: the first whose name it is, which goes before beginnings of ids */
    size_t count, named_count;
    struct buf others;
};

static bool begins(const struct lookup *l, const char *id)
{
    size_t skip = strlen(l->prefix), len = strlen(l->text);

    return strncmp(id, l->text, len) == 0 || (strncmp(id, l->prefix, skip) == 0 && strncmp(id + skip, l->text, len) == 0);
}

static void consider(struct lookup *l, const char *id, const char *name, const char *owner)
{
    bool is_named = name && strcmp(name, l->text) == 0;

    if (l->owner && *l->owner && strcmp(l->owner, owner) != 0)
        return;
    if (!begins(l, id) && !is_named)
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

static int on_sandbox(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Sandbox *sandbox = (const void *) item;
    const char *name = NULL;

    (void) err;
    /* Those over directories are found by workspace_find(), by another spelling of the same id. */
    if (!*sandbox->codebase_id)
        return 0;
    for (size_t i = 0; i < sandbox->n_labels; i++) {
        if (strcmp(sandbox->labels[i]->key, "name") == 0)
            name = sandbox->labels[i]->value;
    }
    consider(cookie, sandbox->id, name, sandbox->owner_id);
    return 0;
}

static int on_codebase(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Codebase *codebase = (const void *) item;

    (void) err;
    consider(cookie, codebase->id, codebase->name, codebase->owner_id);
    return 0;
}

static int on_session(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    (void) err;
    consider(cookie, ((const Sandbox__V1__Session *) (const void *) item)->id, NULL, "");
    return 0;
}

static int each_session_of(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    struct lookup *l = cookie;
    Sandbox__V1__ListSessionsRequest request = SANDBOX__V1__LIST_SESSIONS_REQUEST__INIT;

    request.sandbox_id = ((const Sandbox__V1__Sandbox *) (const void *) item)->id;
    return client_list(l->client, "ListSessions", &request.base, on_session, l, err);
}

/* Whether it names a sandbox of 'agentfense run', which this verb does not take. */
static bool refuse_local(const char *text, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    autoptr(sandbox_spec) spec = NULL;
    char id[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    if (state_dir_open(false, &state_dir, &ignored) < 0 || state_dir_find(&state_dir, text, id, &dir_fd, &ignored) < 0)
        return false;
    sandbox_spec_load(dir_fd, &spec, &ignored);
    state_dir_show_name(&state_dir, id, spec, name);
    err_set(err, ERR_NOT_FOUND, -ENOENT,
            "'%s' is a sandbox of 'agentfense run': 'agentfense run --in %s -- COMMAND' runs a command in it, and 'diff', "
            "'approve', 'discard', 'undo', 'stop' and 'rm' take its name",
            name, name);
    return true;
}

static int judge(struct lookup *l, char **ret, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    int r = 0;

    buf_add_excerpt(&shown, l->text, strlen(l->text));
    if (l->named_count == 1)
        *ret = steal_ptr(&l->named);
    else if (l->count == 0 && l->is_sandbox && refuse_local(l->text, err))
        r = -ENOENT;
    else if (l->count == 0)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no %s '%s'; %s", l->what, shown.data, l->others_are);
    else if (l->count > 1)
        r = err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "'%s' may be any of %zu %s: %s", shown.data, l->count, l->plural,
                    l->others.data);
    else
        *ret = steal_ptr(&l->found);
    return r;
}

static void done(struct lookup *l)
{
    free(l->found);
    free(l->named);
    buf_done(&l->others);
}

static int look(struct lookup *l, const char *method, ProtobufCMessage *request, client_item_fn fn, char **ret, struct err *err)
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
        r = judge(l, ret, err);
    done(l);
    return r;
}

int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err)
{
    struct lookup l = { .client = client,
                        .what = "sandbox",
                        .plural = "sandboxes",
                        .prefix = "sb_",
                        .text = text,
                        .is_sandbox = true,
                        .others_are = "'agentfense ps' and 'agentfense ps -w' list them" };
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;

    return look(&l, "ListSandboxes", &request.base, on_sandbox, ret, err);
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

    return look(&l, "ListCodebases", &request.base, on_codebase, ret, err);
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

    return look(&l, "ListSandboxes", &request.base, each_session_of, ret, err);
}

int lookup_over_codebase(struct client *client, const char *text, const char *hint, char **ret, struct err *err)
{
    char workspace[UUID_TEXT_MAX];
    struct err ignored = ERR_NONE;
    bool is_uuid = uuid_parse(text, workspace) == 0;
    int r = is_uuid ? -ENOENT : lookup_sandbox(client, text, ret, err);

    if (r != -ENOENT || (!is_uuid && workspace_find(client, text, workspace, &ignored) < 0))
        return r;
    return err_invalid(err, "'%s' is a workspace, %s", text, hint);
}

/* ---- the last ---- */

struct newest {
    char *id; /* owned */
    int64_t created_ns;
};

static int on_newest(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Sandbox *sandbox = (const void *) item;
    struct newest *newest = cookie;
    int64_t created_ns = sandbox->created_at ? sandbox->created_at->seconds * CLOCK_NS_PER_SEC + sandbox->created_at->nanos : 0;

    (void) err;
    if (newest->id && created_ns <= newest->created_ns)
        return 0;
    free(newest->id);
    *newest = (struct newest){ xdup(sandbox->id), created_ns };
    return 0;
}

int lookup_last(struct client *client, bool only_workspaces, char **ret, struct err *err)
{
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    struct newest newest = { .id = NULL };
    char workspace[UUID_TEXT_MAX];
    int64_t workspace_ns = 0;
    int r = only_workspaces ? 0 : client_list(client, "ListSandboxes", &request.base, on_newest, &newest, err);

    if (r == 0)
        r = workspace_find_last(client, workspace, &workspace_ns, err);
    if (r == 0 && (!newest.id || workspace_ns > newest.created_ns)) {
        free(newest.id);
        newest.id = xdup(workspace);
    }
    if (r == -ENOENT && newest.id) {
        *err = ERR_NONE;
        r = 0;
    }
    if (r == 0)
        *ret = steal_ptr(&newest.id);
    free(newest.id);
    return r;
}

/* ---- names that are taken ---- */

static int look_for_name(struct lookup *l, const char *method, ProtobufCMessage *request, client_item_fn fn, char **ret,
                         struct err *err)
{
    int r = client_list(l->client, method, request, fn, l, err);

    if (r == 0)
        *ret = steal_ptr(&l->named);
    done(l);
    return r;
}

int lookup_codebase_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err)
{
    struct lookup l = { .client = client, .prefix = "cb_", .text = name, .owner = owner };
    Sandbox__V1__ListCodebasesRequest request = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;

    return look_for_name(&l, "ListCodebases", &request.base, on_codebase, ret, err);
}

int lookup_sandbox_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err)
{
    struct lookup l = { .client = client, .prefix = "sb_", .text = name, .owner = owner };
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;

    return look_for_name(&l, "ListSandboxes", &request.base, on_sandbox, ret, err);
}

/* ---- what does not run ---- */

int lookup_tell_stopped(const char *text, int r, struct err *err)
{
    static const char *const told[] = { "sandbox is not running", "sandbox is not active" };

    for (size_t i = 0; r < 0 && i < ARRAY_LEN(told); i++) {
        if (strncmp(err->text, told[i], strlen(told[i])) == 0)
            return err_set(err, err->code, r, "sandbox '%s' is not running; 'agentfense start %s' starts it", text, text);
    }
    return r;
}
