#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/approve.h"
#include "service/home.h"

static const char help[] =
    DISCARD_HELP "The directories stay as they are. A sandbox of 'agentfense run' that runs is refused.\n"
                 "\n"
                 "  --json                 JSON on standard output\n"
                 "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                 "  -h, --help             this text\n";

static const struct option long_options[] = { LOCAL_LONG_OPTIONS };

/* An apply that was killed is finished or taken back first: nobody could later. Who holds the lock is told by who removes. */
static int clean_up(const struct home *home, const char *name, int dir_fd, struct err *err)
{
    autofree char *delta_path = home_path(home, name, "delta");
    autofd int lock = -1;

    return home_lock(dir_fd, &lock) < 0 ? 0 : approve_tidy(delta_path, err);
}

/* It may be a workspace, of which this verb without paths is not. */
static int refuse(const char *wanted, int r, struct err *err)
{
    if (!sandbox_name_is_valid(wanted))
        return err_refuse(err, -EINVAL, wanted, "is no name of a sandbox");
    return err_set(err, ERR_NOT_FOUND, r,
                   "there is no sandbox '%s' of 'agentfense run'; 'agentfense ls' lists them. Of a workspace name the paths to "
                   "give up ('agentfense discard %s PATH...'), or give up all of it ('agentfense reject %s')",
                   wanted, wanted, wanted);
}

/* Its spec is not read: a damaged sandbox can be discarded too. */
static int discard_one(struct home *home, const char *wanted, char ret_name[SANDBOX_NAME_MAX], struct err *err)
{
    autofd int dir_fd = -1;
    int r = home_find(home, wanted, ret_name, &dir_fd, err);

    if (r == -ENOENT)
        return refuse(wanted, r, err);
    if (r == -ENOTDIR)
        return home_remove(home, ret_name, err);
    if (r < 0)
        return r;
    r = clean_up(home, ret_name, dir_fd, err);
    return r < 0 ? r : home_remove(home, ret_name, err);
}

/* All are tried. The first failure is the answer, each is told. */
static int discard_all(struct home *home, const struct local_call *call)
{
    json_t *discarded = json_array();
    int code = EXIT_SUCCESS;

    for (int i = 0; i < call->word_count; i++) {
        char name[SANDBOX_NAME_MAX];
        struct err err = ERR_NONE;
        if (discard_one(home, call->words[i], name, &err) < 0) {
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
    autodone(home) struct home home = HOME_NONE;
    int r = home_open(false, &home, err);

    if (r == -ENOENT) /* no directory for sandboxes yet: there are none */
        return refuse(call->words[0], r, err);
    return r < 0 ? r : discard_all(&home, call);
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
        .run = run_discard,
    };

    return local_verb_run(&verb, NULL, argc, argv);
}

const struct verb verb_discard = {
    .name = "discard",
    .summary = "remove sandboxes with their changes",
    .run = run,
    .program = CLIENT_PROGRAM,
};
