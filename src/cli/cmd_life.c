/* start, stop, rm: a step in the life of each sandbox that is named, over a codebase or over a directory. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/output.h"
#include "cli/start_watch.h"
#include "cli/verb.h"
#include "cli/workspace.h"
#include <sandbox/v1/sandbox.pb-c.h>

static const struct option options[] = { API_LONG_OPTIONS };

enum { OPT_PURGE = 1 };

static const struct option rm_options[] = {
    { "force", no_argument, NULL, 'f' },
    { "purge", no_argument, NULL, OPT_PURGE },
    API_LONG_OPTIONS,
};

struct rm_words {
    bool is_forced, purges;
};

/* All requests begin with an id. */
union request {
    Sandbox__V1__StartSandboxRequest start;
    Sandbox__V1__StopSandboxRequest stop;
    Sandbox__V1__DestroySandboxRequest destroy;
};
_Static_assert(offsetof(union request, start.sandbox_id) == offsetof(union request, destroy.sandbox_id) &&
                   offsetof(union request, start.sandbox_id) == offsetof(union request, stop.sandbox_id),
               "three messages that begin alike");

/* The verb is the route's last component, but for rm. */
static int step_workspace(struct api_call *call, const char *id, struct err *err)
{
    bool is_removal = strcmp(call->verb->name, "rm") == 0;
    autojson answer = NULL;
    bool purges = is_removal && ((const struct rm_words *) call->own)->purges;
    int r = is_removal
                ? workspace_ask(call, "DELETE", NULL, &answer, err, "/api/v1/sandboxes/%s%s", id, purges ? "?purge=true" : "")
                : workspace_ask(call, "POST", NULL, &answer, err, "/api/v1/sandboxes/%s/%s", id, call->verb->name);

    if (r < 0)
        return r;
    if (!answer)
        answer = json_pack("{s:s}", "id", id);
    workspace_print(call, answer, id);
    return 0;
}

static int step(struct api_call *call, const char *method, const union request *request, const char *text, struct err *err)
{
    union request message = *request;
    autodone(target) struct target target = { .id = NULL };
    automessage answer = NULL;
    int r = target_find(call->client, text, &target, err);
    char *id = target.id;

    if (r < 0)
        return r;
    if (!id)
        return step_workspace(call, target.workspace, err);
    message.start.sandbox_id = id;
    r = request->start.base.descriptor == &sandbox__v1__start_sandbox_request__descriptor
            ? start_watched(call, id, &answer, err)
            : client_ask(call->client, method, &message.start.base, &answer, err);
    if (r == 0)
        api_print(call, answer, id);
    return r;
}

/* What fails for one is told, and the others have their turn. */
static int run(struct api_call *call, const char *method, const union request *request, struct err *err)
{
    int code = EXIT_SUCCESS;

    for (int i = 0; i < call->word_count; i++) {
        int r;

        *err = ERR_NONE;
        r = step(call, method, request, call->words[i], err);
        if (r < 0 && (err->code == ERR_CANCELLED || i + 1 == call->word_count))
            return r;
        if (r < 0)
            code = output_error(call->verb->name, err);
    }
    return code;
}

static int run_start(struct api_call *call, struct err *err)
{
    return run(call, "StartSandbox", &(union request){ .start = SANDBOX__V1__START_SANDBOX_REQUEST__INIT }, err);
}

static int run_stop(struct api_call *call, struct err *err)
{
    return run(call, "StopSandbox", &(union request){ .stop = SANDBOX__V1__STOP_SANDBOX_REQUEST__INIT }, err);
}

static int run_rm(struct api_call *call, struct err *err)
{
    union request request = { .destroy = SANDBOX__V1__DESTROY_SANDBOX_REQUEST__INIT };

    request.destroy.force = ((const struct rm_words *) call->own)->is_forced;
    return run(call, "DestroySandbox", &request, err);
}

static int take_rm(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct rm_words *words = call->own;

    (void) argument;
    (void) err;
    *(option == OPT_PURGE ? &words->purges : &words->is_forced) = true;
    return 0;
}

#define LIFE_VERB(verb, text)                                                                                                  \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .last = API_LAST_SANDBOX,                                                                                          \
            .help = "usage: agentfense " #verb " [options] SANDBOX...\n\n" text "\n\n" API_LAST_HELP API_OPTIONS_HELP,         \
            .options = options,                                                                                                \
            .words_min = 1,                                                                                                    \
            .words_max = -1,                                                                                                   \
            .run = run_##verb,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

LIFE_VERB(start, "Starts sandboxes, also those that were stopped: what they had changed is there.")
LIFE_VERB(stop, "Stops sandboxes, also those of 'agentfense run', with all that runs in them. Their changes stay.")

int cmd_rm(int argc, char **argv)
{
    static const struct api_verb self = {
        .name = "rm",
        .last = API_LAST_SANDBOX,
        .help =
            "usage: agentfense rm [options] SANDBOX...\n\n"
            "Removes sandboxes, also those that run. What they changed goes into their codebase first, unless they were made\n"
            "with --no-sync; if it has no room there, the sandbox stays. A workspace can be had again for a while:\n"
            "'agentfense restore'. Of a sandbox of 'agentfense run' the changes are dropped.\n\n"
            "  -f, --force            although there is no room for its changes: they are given up; a sandbox of 'agentfense "
            "run'\n"
            "                         also when it runs\n"
            "  --purge                workspaces: for good\n" API_LAST_HELP API_OPTIONS_HELP,
        .letters = "f",
        .options = rm_options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct rm_words),
        .take = take_rm,
        .run = run_rm,
    };

    return api_verb_run(&self, argc, argv);
}
