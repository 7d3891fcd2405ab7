#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/size.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

static const char help[] =
    "usage: agentfense inspect [options] ID...\n\n"
    "Tells all there is to tell about sandboxes, workspaces, codebases and sessions.\n\n" API_LAST_HELP API_OPTIONS_HELP;

static const struct option options[] = { API_LONG_OPTIONS };

/* What can be looked at: the beginning of its ids says which it is. */
static const struct kind {
    const char *prefix, *method;
    int (*lookup)(struct client *client, const char *text, char **ret, struct err *err);
    const ProtobufCMessageDescriptor *request;
} kinds[] = {
    { "sb_", "GetSandbox", lookup_sandbox, &sandbox__v1__get_sandbox_request__descriptor },
    { "cb_", "GetCodebase", lookup_codebase, &sandbox__v1__get_codebase_request__descriptor },
    { "sess_", "GetSession", lookup_session, &sandbox__v1__get_session_request__descriptor },
};

_Static_assert(offsetof(Sandbox__V1__GetSandboxRequest, sandbox_id) == offsetof(Sandbox__V1__GetCodebaseRequest, codebase_id) &&
                   offsetof(Sandbox__V1__GetSandboxRequest, sandbox_id) ==
                       offsetof(Sandbox__V1__GetSessionRequest, session_id) &&
                   sizeof(Sandbox__V1__GetSandboxRequest) >= sizeof(Sandbox__V1__GetCodebaseRequest) &&
                   sizeof(Sandbox__V1__GetSandboxRequest) >= sizeof(Sandbox__V1__GetSessionRequest),
               "the id is where it is in the largest of the three");

/* Of what has no such beginning: a sandbox, or else a codebase. */
static int find(struct client *client, const char *text, const struct kind **ret_kind, char **ret_id, struct err *err)
{
    int r;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        *ret_kind = &kinds[i];
        if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return kinds[i].lookup(client, text, ret_id, err);
    }
    *ret_kind = &kinds[0];
    r = lookup_sandbox(client, text, ret_id, err);
    if (r != -ENOENT)
        return r;
    *ret_kind = &kinds[1];
    r = lookup_codebase(client, text, ret_id, err);
    return r == -ENOENT ? err_set(err, ERR_NOT_FOUND, r, "there is neither a sandbox nor a codebase '%s'", text) : r;
}

/* "limit of memory: 48.0 GB (default; not enforced: ...)". */
static void print_limit(const char *name, int64_t value, bool is_default, const char *not_enforced)
{
    char size[SIZE_TEXT_MAX];

    fputs("limit of ", stdout);
    output_escaped(stdout, name);
    if (strcmp(name, "memory") == 0 || strcmp(name, "disk") == 0) {
        size_format((uint64_t) value, size);
        printf(": %s", size);
    } else {
        printf(": %" PRId64, value);
    }
    if (is_default || *not_enforced) {
        fputs(is_default ? " (default" : " (asked for", stdout);
        fputs(*not_enforced ? "; not enforced: " : "", stdout);
        output_escaped(stdout, not_enforced);
        putchar(')');
    }
    putchar('\n');
}

static void print_workspace(json_t *answer)
{
    json_t *limits = json_incref(json_object_get(answer, "limits"));

    json_object_del(answer, "limits");
    workspace_print_fields(answer);
    for (size_t i = 0; i < json_array_size(limits); i++) {
        const json_t *limit = json_array_get(limits, i);

        print_limit(json_text(limit, "name"), json_number(limit, "value"), json_is_true(json_object_get(limit, "isDefault")),
                    json_text(limit, "notEnforced"));
    }
    json_decref(limits);
}

static void print_message(const struct kind *kind, ProtobufCMessage *answer)
{
    Sandbox__V1__Sandbox *sandbox = kind == &kinds[0] ? (void *) answer : NULL;
    size_t count = sandbox ? sandbox->n_limits : 0;

    /* Each is a line of its own, behind the fields. */
    if (sandbox)
        sandbox->n_limits = 0;
    api_print_fields(answer);
    if (sandbox)
        sandbox->n_limits = count;
    for (size_t i = 0; i < count; i++)
        print_limit(sandbox->limits[i]->name, sandbox->limits[i]->value, sandbox->limits[i]->is_default,
                    sandbox->limits[i]->not_enforced);
}

static int show_workspace(struct api_call *call, const char *id, struct err *err)
{
    autojson answer = NULL;
    int r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/sandboxes/%s", id);

    if (r < 0)
        return r;
    if (!call->options.is_json && !call->options.is_quiet)
        print_workspace(answer);
    else
        workspace_print(call, answer, id);
    return 0;
}

static int run(struct api_call *call, struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        const struct kind *kind;
        Sandbox__V1__GetSandboxRequest request;
        autofree char *id = NULL;
        automessage answer = NULL;
        char workspace[UUID_TEXT_MAX];
        struct err other = ERR_NONE;
        int r = find(call->client, call->words[i], &kind, &id, err);
        int w = r == -ENOENT ? workspace_find(call->client, call->words[i], workspace, &other) : -ENOENT;

        if (w != -ENOENT) {
            *err = other;
            r = w == 0 ? show_workspace(call, workspace, err) : w;
            if (r < 0)
                return r;
            continue;
        }
        if (r < 0)
            return r;
        protobuf_c_message_init(kind->request, &request);
        request.sandbox_id = id;
        r = client_ask(call->client, kind->method, &request.base, &answer, err);
        if (r < 0)
            return r;
        if (call->options.is_json)
            api_print_json(answer);
        else if (call->options.is_quiet)
            puts(id);
        else
            print_message(kind, answer);
    }
    return 0;
}

int cmd_inspect(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "inspect",
        .last = API_LAST_SANDBOX,
        .help = help,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .run = run,
    };

    return api_verb_run(&verb, argc, argv);
}
