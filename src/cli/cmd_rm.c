/* rm and stop of sandboxes of 'agentfense run'. Those of others are in cmd_life.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "review/approve.h"
#include "sandbox/state_dir.h"

static const char rm_help[] = "usage: agentfense rm [-f] [--json] NAME...\n"
                              "\n"
                              "Removes sandboxes of 'agentfense run' with everything they changed.\n"
                              "\n"
                              "  -f, --force            also those that run: what runs in them ends\n"
                              "  --json                 JSON on standard output\n"
                              "  -h, --help             this text\n";

static const char stop_help[] = "usage: agentfense stop [--json] NAME...\n"
                                "\n"
                                "Ends what runs in sandboxes of 'agentfense run'. Their changes stay.\n"
                                "\n"
                                "  --json                 JSON on standard output\n"
                                "  -h, --help             this text\n";

static const struct option rm_long_options[] = { { "force", no_argument, NULL, 'f' }, LOCAL_LONG_OPTIONS };
static const struct option stop_long_options[] = { LOCAL_LONG_OPTIONS };

/* What one of the verbs does with each sandbox, and how it says so. */
struct ending {
    const char *verb, *done;
    bool removes, stops;
};

/* An apply that was killed is finished or taken back first: nobody could later. Who holds the lock is told by who removes. */
static int clean_up(const struct state_dir *state_dir, const char *id, int dir_fd, struct err *err)
{
    autofree char *delta_path = state_dir_path(state_dir, id, "delta");
    autofd int lock = -1;

    return sandbox_dir_lock(dir_fd, &lock) < 0 ? 0 : approve_recover_before_delete(delta_path, err);
}

static int refuse_missing(const char *wanted, int r, struct err *err)
{
    if (!sandbox_name_is_valid(wanted))
        return err_reject(err, -EINVAL, wanted, "is no name of a sandbox");
    return err_set(err, ERR_NOT_FOUND, r, "there is no sandbox '%s' of 'agentfense run'; 'agentfense ls' lists them", wanted);
}

static int refuse_running(const char *name, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                   "sandbox '%s' is running: stop it with 'agentfense stop %s', or use 'agentfense rm -f %s'", name, name,
                   name);
}

static int end_found(struct state_dir *state_dir, const struct ending *ending, const char *id, const char *name, int dir_fd,
                     struct err *err)
{
    int r = 0;

    if (!ending->stops && sandbox_dir_is_running(dir_fd))
        return refuse_running(name, err);
    if (ending->stops)
        r = sandbox_dir_stop(dir_fd, name, err);
    if (r == 0 && ending->removes)
        r = clean_up(state_dir, id, dir_fd, err);
    return r < 0 || !ending->removes ? r : state_dir_remove(state_dir, id, err);
}

/* A damaged sandbox, whose spec cannot be read, can be removed too. */
static int end_one(struct state_dir *state_dir, const struct ending *ending, const char *wanted,
                   char ret_name[SANDBOX_NAME_MAX], struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    struct err ignored = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r = state_dir_find(state_dir, wanted, id, &dir_fd, err);

    if (r == -ENOENT)
        return refuse_missing(wanted, r, err);
    if (r == 0)
        sandbox_spec_load(dir_fd, &spec, &ignored);
    if (r == 0 || r == -ENOTDIR)
        state_dir_show_name(state_dir, id, spec, ret_name);
    if (r == -ENOTDIR && ending->removes)
        return state_dir_remove(state_dir, id, err);
    return r < 0 ? r : end_found(state_dir, ending, id, ret_name, dir_fd, err);
}

/* All are tried. The first failure is the answer, each is told. */
static int end_all(struct state_dir *state_dir, const struct local_call *call)
{
    const struct ending *ending = call->own;
    json_t *ended = json_array();
    int code = EXIT_SUCCESS;

    for (int i = 0; i < call->word_count; i++) {
        char name[SANDBOX_NAME_MAX];
        struct err err = ERR_NONE;
        if (end_one(state_dir, ending, call->words[i], name, &err) < 0) {
            int failed = output_error(ending->verb, &err);
            code = code ? code : failed;
            continue;
        }
        json_array_append_new(ended, json_string(name));
        if (!call->is_json)
            printf("%s %s\n", ending->done, name);
    }
    if (call->is_json)
        output_json(json_pack("{s:o}", ending->done, ended));
    else
        json_decref(ended);
    return code;
}

static int run_ending(const struct local_call *call, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    int r = state_dir_open(false, &state_dir, err);

    if (r == -ENOENT) /* no directory for sandboxes yet: there are none */
        return refuse_missing(call->words[0], r, err);
    return r < 0 ? r : end_all(&state_dir, call);
}

/* The one option that each has. */
static int take(void *own, int option, struct err *err)
{
    (void) err;
    (void) option;
    ((struct ending *) own)->stops = true;
    return 0;
}

static int run_verb(const char *help, const char *letters, const struct option *options, const struct ending *ending, int argc,
                    char **argv)
{
    const struct local_verb verb = {
        .name = ending->verb,
        .help = help,
        .letters = letters,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .wanted = LOCAL_SANDBOX_WANTED,
        .take = take,
        .run = run_ending,
    };
    struct ending own = *ending;

    return local_verb_run(&verb, &own, argc, argv);
}

static int run_rm(int argc, char **argv)
{
    static const struct ending ending = { .verb = "rm", .done = "removed", .removes = true };

    return run_verb(rm_help, "fh", rm_long_options, &ending, argc, argv);
}

static int run_stop(int argc, char **argv)
{
    static const struct ending ending = { .verb = "stop", .done = "stopped", .stops = true };

    return run_verb(stop_help, "h", stop_long_options, &ending, argc, argv);
}

const struct verb verb_rm = {
    .name = "rm",
    .summary = "remove sandboxes",
    .run = run_rm,
    .program = CLIENT_PROGRAM,
};

const struct verb verb_stop = {
    .name = "stop",
    .summary = "stop sandboxes; their changes stay",
    .run = run_stop,
    .program = CLIENT_PROGRAM,
};
