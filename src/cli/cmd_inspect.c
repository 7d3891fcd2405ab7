#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/size.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

static const char help[] = "usage: agentfense inspect [options] ID...\n\n"
                           "Shows all that is known about sandboxes, codebases and sessions. A name means a sandbox, or else a "
                           "codebase.\n\n" API_LAST_HELP API_OPTIONS_HELP;

static const struct option options[] = { API_LONG_OPTIONS };

/* Prints "limit of memory: 48.0 GB (default; not enforced: ...)". */
static void inspect_print_limit(const Sandbox__V1__LimitInForce *limit)
{
    char size[SIZE_TEXT_MAX];

    fputs("limit of ", stdout);
    output_escaped(stdout, limit->name);
    if (strcmp(limit->name, "memory") == 0 || strcmp(limit->name, "disk") == 0) {
        size_format((uint64_t) limit->value, size);
        printf(": %s", size);
    } else {
        printf(": %" PRId64, limit->value);
    }
    if (limit->is_default || *limit->not_enforced) {
        fputs(limit->is_default ? " (default" : " (requested", stdout);
        fputs(*limit->not_enforced ? "; not enforced: " : "", stdout);
        output_escaped(stdout, limit->not_enforced);
        putchar(')');
    }
    putchar('\n');
}

static void inspect_print_sandbox(Sandbox__V1__Sandbox *sandbox)
{
    size_t count = sandbox->n_limits, rule_count = sandbox->n_permissions;

    /* Print each limit on its own line after the fields, and do not print the rules: a preset alone has a hundred. */
    sandbox->n_limits = 0;
    sandbox->n_permissions = 0;
    api_print_fields(&sandbox->base);
    sandbox->n_limits = count;
    sandbox->n_permissions = rule_count;
    printf("rules: %zu ('agentfense rules show %s' lists them)\n", rule_count, sandbox->id);
    for (size_t i = 0; i < count; i++)
        inspect_print_limit(sandbox->limits[i]);
}

static int inspect_ask_codebase(struct client *client, const char *text, ProtobufCMessage **ret, char **ret_id, struct err *err)
{
    Sandbox__V1__GetCodebaseRequest request = SANDBOX__V1__GET_CODEBASE_REQUEST__INIT;
    int r = lookup_codebase(client, text, ret_id, err);

    request.codebase_id = *ret_id;
    return r < 0 ? r : client_ask(client, "GetCodebase", &request.base, ret, err);
}

static int inspect_ask_session(struct client *client, const char *text, ProtobufCMessage **ret, char **ret_id, struct err *err)
{
    Sandbox__V1__GetSessionRequest request = SANDBOX__V1__GET_SESSION_REQUEST__INIT;
    int r = lookup_session(client, text, ret_id, err);

    request.session_id = *ret_id;
    return r < 0 ? r : client_ask(client, "GetSession", &request.base, ret, err);
}

static int inspect_ask(struct client *client, const char *text, ProtobufCMessage **ret, char **ret_id, struct err *err)
{
    int r;

    if (strncmp(text, "cb_", 3) == 0)
        return inspect_ask_codebase(client, text, ret, ret_id, err);
    if (strncmp(text, "sess_", 5) == 0)
        return inspect_ask_session(client, text, ret, ret_id, err);
    r = lookup_get_sandbox(client, text, ret, err);
    if (r == 0)
        *ret_id = xdup(((const Sandbox__V1__Sandbox *) (void *) *ret)->id);
    if (r != -ENOENT || strncmp(text, "sb_", 3) == 0)
        return r;
    r = inspect_ask_codebase(client, text, ret, ret_id, err);
    return r == -ENOENT ? err_set(err, ERR_NOT_FOUND, r, "there is neither a sandbox nor a codebase '%s'", text) : r;
}

static int inspect_run(struct api_call *call, struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        autofree char *id = NULL;
        automessage answer = NULL;
        int r = inspect_ask(call->client, call->words[i], &answer, &id, err);

        if (r < 0)
            return r;
        if (call->options.is_json)
            api_print_json(answer);
        else if (call->options.is_quiet)
            puts(id);
        else if (answer->descriptor == &sandbox__v1__sandbox__descriptor)
            inspect_print_sandbox((void *) answer);
        else
            api_print_fields(answer);
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
        .run = inspect_run,
    };

    return api_verb_run(&verb, argc, argv);
}
