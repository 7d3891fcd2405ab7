#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/approve.h"
#include "sandbox/state_dir.h"
#include "wire/ctl_client.h"

static const char help[] =
    DISCARD_HELP "The directories stay as they are. A sandbox of 'agentfense run' that runs is refused without --stop.\n"
                 "\n"
                 "  --json                 JSON on standard output\n"
                 "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                 "  -h, --help             this text\n";

enum { OPT_STOP = 1 };

static const struct option long_options[] = { { "stop", no_argument, NULL, OPT_STOP }, LOCAL_LONG_OPTIONS };

#define STOP_GRACE_MS 2000 /* for its commands */
#define STOP_WAIT_MS 30000 /* for all of it */
#define STOP_LOOK_NS 20000000L

struct discard_options {
    bool stops;
};

/* An apply that was killed is finished or taken back first: nobody could later. Who holds the lock is told by who removes. */
static int clean_up(const struct state_dir *state_dir, const char *id, int dir_fd, struct err *err)
{
    autofree char *delta_path = state_dir_path(state_dir, id, "delta");
    autofd int lock = -1;

    return sandbox_dir_lock(dir_fd, &lock) < 0 ? 0 : approve_recover_before_delete(delta_path, err);
}

/* Asks its supervisor to end, and waits until it has. One that is not running any more is fine. */
static int stop(const char *name, int dir_fd, struct err *err)
{
    const struct ctl_request request = { .type = CTL_REQUEST_STOP, .tag = 1, .stop = { .grace_ms = STOP_GRACE_MS } };
    int64_t until_ns = clock_now_ns() + STOP_WAIT_MS * CLOCK_NS_PER_MS;
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    autofd int fd = -1;
    int r = ctl_client_connect(dir_fd, &fd, err);

    if (r == -ENOENT || r == -ECONNREFUSED)
        *err = ERR_NONE; /* it has ended, or begins to: the lock tells */
    else if (r == 0)
        r = ctl_request_encode(&request, payload, sizeof(payload), &frame);
    if (r == 0)
        r = ctl_client_send(fd, &frame, STOP_WAIT_MS, err);
    if (r < 0 && r != -ENOENT && r != -ECONNREFUSED)
        return err_wrap(err, r, "stopping sandbox '%s'", name);
    while (sandbox_dir_is_running(dir_fd)) {
        if (clock_now_ns() > until_ns)
            return err_set(err, ERR_DEADLINE_EXCEEDED, -ETIMEDOUT, "sandbox '%s' was asked to stop, and is still running",
                           name);
        nanosleep(&(struct timespec){ .tv_nsec = STOP_LOOK_NS }, NULL);
    }
    return 0;
}

/* It may be a workspace, of which this verb without paths is not. */
static int refuse(const char *wanted, int r, struct err *err)
{
    if (!sandbox_name_is_valid(wanted))
        return err_reject(err, -EINVAL, wanted, "is no name of a sandbox");
    return err_set(err, ERR_NOT_FOUND, r,
                   "there is no sandbox '%s' of 'agentfense run'; 'agentfense ls' lists them. Of a workspace name the paths to "
                   "give up ('agentfense discard %s PATH...'), or give up all of it ('agentfense reject %s')",
                   wanted, wanted, wanted);
}

/* A damaged sandbox, whose spec cannot be read, can be discarded too. */
static int discard_one(struct state_dir *state_dir, const char *wanted, bool stops, char ret_name[SANDBOX_NAME_MAX],
                       struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    struct err ignored = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r = state_dir_find(state_dir, wanted, id, &dir_fd, err);

    if (r == -ENOENT)
        return refuse(wanted, r, err);
    if (r == 0)
        sandbox_spec_load(dir_fd, &spec, &ignored);
    if (r == 0 || r == -ENOTDIR)
        state_dir_show_name(state_dir, id, spec, ret_name);
    if (r == -ENOTDIR)
        return state_dir_remove(state_dir, id, err);
    if (r < 0)
        return r;
    if (!stops && sandbox_dir_is_running(dir_fd))
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                       "sandbox '%s' is running; 'agentfense discard --stop %s' ends what runs in it, and discards it",
                       ret_name, ret_name);
    if (stops)
        r = stop(ret_name, dir_fd, err);
    if (r == 0)
        r = clean_up(state_dir, id, dir_fd, err);
    return r < 0 ? r : state_dir_remove(state_dir, id, err);
}

/* All are tried. The first failure is the answer, each is told. */
static int discard_all(struct state_dir *state_dir, const struct local_call *call)
{
    const struct discard_options *o = call->own;
    json_t *discarded = json_array();
    int code = EXIT_SUCCESS;

    for (int i = 0; i < call->word_count; i++) {
        char name[SANDBOX_NAME_MAX];
        struct err err = ERR_NONE;
        if (discard_one(state_dir, call->words[i], o->stops, name, &err) < 0) {
            int failed = output_error("discard", &err);
            code = code ? code : failed;
            continue;
        }
        json_array_append_new(discarded, json_string(name));
        if (!call->is_json)
            printf("discarded %s\n", name);
    }
    if (call->is_json)
        output_json(json_pack("{s:o}", "discarded", discarded));
    else
        json_decref(discarded);
    return code;
}

static int run_discard(const struct local_call *call, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    int r = state_dir_open(false, &state_dir, err);

    if (r == -ENOENT) /* no directory for sandboxes yet: there are none */
        return refuse(call->words[0], r, err);
    return r < 0 ? r : discard_all(&state_dir, call);
}

static int take(void *own, int option, struct err *err)
{
    struct discard_options *o = own;

    (void) err;
    o->stops |= option == OPT_STOP;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "discard",
        .help = help,
        .letters = "h",
        .options = long_options,
        .words_min = 1,
        .words_max = -1,
        .wanted = LOCAL_SANDBOX_WANTED,
        .take = take,
        .run = run_discard,
    };
    struct discard_options own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_discard = {
    .name = "discard",
    .summary = "remove sandboxes with their changes",
    .run = run,
    .program = CLIENT_PROGRAM,
};
