/* start, stop and rm: each takes several sandboxes. When one fails, the others still have their turn. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/start_watch.h"
#include "cli/verb.h"
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

/* Takes the id of a sandbox, and may answer with a message. */
typedef int (*life_step_fn)(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err);

static int life_rm(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err);

/* Only a purge concerns a sandbox in the trash, which is not listed. The server resolves its name. */
static int life_find(struct api_call *call, life_step_fn step, const char *word, char **ret, struct err *err)
{
    int r = lookup_sandbox(call->client, word, ret, err);

    if (r != -ENOENT || step != life_rm || !((const struct rm_words *) call->own)->purges)
        return r;
    *err = ERR_NONE;
    *ret = xdup(word);
    return 0;
}

static int life_run(struct api_call *call, life_step_fn step, struct err *err)
{
    int code = EXIT_SUCCESS;

    for (int i = 0; i < call->word_count; i++) {
        autofree char *id = NULL;
        automessage answer = NULL;
        int r;

        *err = ERR_NONE;
        r = life_find(call, step, call->words[i], &id, err);
        if (r == 0)
            r = step(call, id, &answer, err);
        if (r == 0)
            api_print(call, answer, id);
        if (r < 0 && (err->code == ERR_CANCELLED || i + 1 == call->word_count))
            return r;
        if (r < 0)
            code = output_error(call->verb->name, err);
    }
    return code;
}

static int life_run_start(struct api_call *call, struct err *err)
{
    return life_run(call, start_watched, err);
}

static int life_stop(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err)
{
    Sandbox__V1__StopSandboxRequest request = SANDBOX__V1__STOP_SANDBOX_REQUEST__INIT;

    request.sandbox_id = (char *) id;
    return client_ask(call->client, "StopSandbox", &request.base, ret, err);
}

static int life_run_stop(struct api_call *call, struct err *err)
{
    return life_run(call, life_stop, err);
}

/* Whoever removes a running sandbox may not know that somebody works in it, and its changes were not reviewed. Synced changes are in the
 * codebase already. */
static int life_check_rm(struct api_call *call, const char *id, struct err *err)
{
    automessage answer = NULL;
    int r = lookup_get_sandbox(call->client, id, &answer, err);
    const Sandbox__V1__Sandbox *sandbox = (void *) answer;

    if (r == -ENOENT && ((const struct rm_words *) call->own)->purges) {
        *err = ERR_NONE; /* it may have been deleted before: DestroySandbox knows */
        return 0;
    }
    if (r < 0 || sandbox->status != SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_RUNNING ||
        sandbox->sync_on_completion == SANDBOX__V1__SYNC_MODE__SYNC_MODE_ON)
        return r;
    const char *name = *sandbox->name ? sandbox->name : sandbox->id;
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                   "sandbox '%s' is running: stop it with 'agentfense stop %s', or remove it with 'agentfense rm -f %s'", name,
                   name, name);
}

static int life_rm(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err)
{
    Sandbox__V1__DestroySandboxRequest request = SANDBOX__V1__DESTROY_SANDBOX_REQUEST__INIT;
    const struct rm_words *words = call->own;
    int r = words->is_forced ? 0 : life_check_rm(call, id, err);

    request.sandbox_id = (char *) id;
    request.force = words->is_forced;
    request.purge = words->purges;
    return r < 0 ? r : client_ask(call->client, "DestroySandbox", &request.base, ret, err);
}

static int life_run_rm(struct api_call *call, struct err *err)
{
    return life_run(call, life_rm, err);
}

static int life_take_rm(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct rm_words *words = call->own;

    (void) argument;
    (void) err;
    *(option == OPT_PURGE ? &words->purges : &words->is_forced) = true;
    return 0;
}

int cmd_start(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "start",
        .last = API_LAST_SANDBOX,
        .help = "usage: agentfense start [options] SANDBOX...\n\n"
                "Starts sandboxes. Changes from before a stop are still there.\n\n" API_LAST_HELP API_OPTIONS_HELP,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .run = life_run_start,
    };

    return api_verb_run(&verb, argc, argv);
}

int cmd_stop(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "stop",
        .last = API_LAST_SANDBOX,
        .help = "usage: agentfense stop [options] SANDBOX...\n\n"
                "Stops sandboxes, with all that runs in them. Their changes stay.\n\n" API_LAST_HELP API_OPTIONS_HELP,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .run = life_run_stop,
    };

    return api_verb_run(&verb, argc, argv);
}

int cmd_rm(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "rm",
        .last = API_LAST_SANDBOX,
        .help =
            "usage: agentfense rm [options] SANDBOX...\n\n"
            "Removes sandboxes. A synced sandbox syncs its changes into its codebase first; if they have no room there, the\n"
            "sandbox stays. 'agentfense restore' brings a sandbox over a directory back for a while.\n\n"
            "  -f, --force            also when it runs, and when there is no room for its changes: they are given up\n"
            "  --purge                nothing is kept for 'agentfense restore'\n" API_LAST_HELP API_OPTIONS_HELP,
        .letters = "f",
        .options = rm_options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct rm_words),
        .take = life_take_rm,
        .run = life_run_rm,
    };

    return api_verb_run(&verb, argc, argv);
}
