#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/output.h"
#include "cli/sandbox_text.h"
#include "cli/workspace.h"
#include <sandbox/v1/codebase.pb-c.h>

static const char help[] = "usage: agentfense status [options]\n\n"
                           "Tells whom the verbs talk to, whether it is well, and what there is. -q: nothing, the exit code "
                           "says it.\n\n" API_OPTIONS_HELP;

static const struct option options[] = { API_LONG_OPTIONS };

#define STATUSES 5

struct tally {
    long long sandboxes[STATUSES], codebases;
};

static int count_sandbox(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    size_t status = (size_t) ((const Sandbox__V1__Sandbox *) (const void *) item)->status;

    (void) err;
    ((struct tally *) cookie)->sandboxes[status < STATUSES ? status : 0]++;
    return 0;
}

static int count_codebase(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    (void) item;
    (void) err;
    ((struct tally *) cookie)->codebases++;
    return 0;
}

static json_t *make_counts(const struct tally *tally)
{
    json_t *counts = json_object();

    for (int i = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING; i < STATUSES; i++)
        json_object_set_new(counts, sandbox_status_text((Sandbox__V1__SandboxStatus) i), json_integer(tally->sandboxes[i]));
    return counts;
}

static void print_workspaces(const json_t *counts)
{
    const char *name;
    json_t *value;
    size_t i = 0;

    fputs("workspaces:", stdout);
    json_object_foreach((json_t *) (uintptr_t) counts, name, value)
        printf("%s %lld %s", i++ > 0 ? "," : "", (long long) json_integer_value(value), name);
    putchar('\n');
}

static int count_workspaces(struct api_call *call, json_t **ret, struct err *err)
{
    static const char *const names[][2] = { { "active", "activeCount" },
                                            { "stopped", "stoppedCount" },
                                            { "error", "errorCount" },
                                            { "approved", "approvedCount" },
                                            { "rejected", "rejectedCount" } };
    autojson answer = NULL;
    int r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/stats");

    if (r < 0)
        return r;
    *ret = json_object();
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        json_object_set_new(*ret, names[i][0], json_integer(json_number(json_object_get(answer, "stats"), names[i][1])));
    return 0;
}

static void print_text(const struct api_call *call, json_t *health, const struct tally *tally)
{
    const char *version = json_string_value(json_object_get(health, "version"));

    printf("server: %s%s\n", client_where(call->client),
           client_is_remote(call->client) ? "" : " (it ends a few seconds after the last command)");
    printf("status: ");
    output_escaped(stdout, json_string_value(json_object_get(health, "status")));
    printf("\nversion: ");
    output_escaped(stdout, version ? version : "?");
    printf("\ncodebases: %lld\nsandboxes:", tally->codebases);
    for (int i = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING; i < STATUSES; i++)
        printf("%s %lld %s", i > 1 ? "," : "", tally->sandboxes[i], sandbox_status_text((Sandbox__V1__SandboxStatus) i));
    putchar('\n');
}

static int run(struct api_call *call, struct err *err)
{
    Sandbox__V1__ListSandboxesRequest sandboxes = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    Sandbox__V1__ListCodebasesRequest codebases = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct tally tally = { 0 };
    autojson workspaces = NULL;
    json_t *health;
    int r = client_health(call->client, &text, err);

    if (r == 0)
        r = client_list(call->client, "ListSandboxes", &sandboxes.base, count_sandbox, &tally, err);
    if (r == 0)
        r = client_list(call->client, "ListCodebases", &codebases.base, count_codebase, &tally, err);
    if (r == 0)
        r = count_workspaces(call, &workspaces, err);
    if (r < 0)
        return r;
    health = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    if (!json_is_string(json_object_get(health, "status"))) {
        json_decref(health);
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there is no server of ours");
    }
    if (call->options.is_json)
        output_json(json_pack("{s:s, s:b, s:O, s:I, s:o, s:O}", "server", client_where(call->client), "remote",
                              client_is_remote(call->client), "health", health, "codebases", (json_int_t) tally.codebases,
                              "sandboxes", make_counts(&tally), "workspaces", workspaces));
    else if (!call->options.is_quiet) {
        print_text(call, health, &tally);
        print_workspaces(workspaces);
    }
    json_decref(health);
    return 0;
}

int cmd_status(int argc, char **argv)
{
    static const struct api_verb verb = { .name = "status", .help = help, .options = options, .run = run };

    return api_verb_run(&verb, argc, argv);
}
