/* processes and kill: what runs in the background of a workspace, and the terminals of any sandbox. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/grid.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_table.h"

enum { OPT_RUNNING = 1, OPT_PID, OPT_ALL };

static const struct option options[] = {
    { "running", no_argument, NULL, OPT_RUNNING },
    { "pid", required_argument, NULL, OPT_PID },
    { "all", no_argument, NULL, OPT_ALL },
    API_LONG_OPTIONS,
};

struct process_options {
    bool only_running, is_all;
    const char *pid;
};

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct process_options *o = call->own;

    (void) err;
    if (option == OPT_RUNNING)
        o->only_running = true;
    else if (option == OPT_ALL)
        o->is_all = true;
    else
        o->pid = argument;
    return 0;
}

static const char *id_of(const struct target *target)
{
    return target->id ? target->id : target->workspace;
}

/* As it was typed: 'agentfense exec' hands a single word to a shell, and nobody looks for a process by that. */
static const char *typed(const json_t *item)
{
    static const char shell[] = "/bin/sh -c ";
    const char *line = json_text(item, "commandLine");

    return strncmp(line, shell, strlen(shell)) == 0 ? line + strlen(shell) : line;
}

static void add_row(struct grid *grid, const json_t *item)
{
    bool runs = json_is_true(json_object_get(item, "running"));
    autofree char *ended = xprintf("exit %lld", json_number(item, "exitCode"));

    grid_add(grid, json_text(item, "id"));
    grid_add(grid, *json_text(item, "name") ? json_text(item, "name") : "-");
    grid_add_number(grid, json_number(item, "pid"));
    grid_add_coloured(grid, runs ? "running" : ended, runs ? GRID_GOOD : GRID_DIM);
    grid_add(grid, json_text(item, "startedAt"));
    grid_add(grid, typed(item));
}

static int run_processes(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "ID", "NAME", "PID", "STATUS", "STARTED", "COMMAND", NULL };
    static const struct workspace_table table = { "processes", "id", titles, add_row };
    const struct process_options *o = call->own;
    autodone(target) struct target target = { .id = NULL };
    autojson answer = NULL;
    int r = target_find(call->client, call->words[0], &target, err);

    if (r == 0)
        r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/sandboxes/%s/processes%s", id_of(&target),
                          o->only_running ? "?running=true" : "");
    if (r == 0)
        workspace_table_print(&table, call, answer);
    return r;
}

static int run_kill(struct api_call *call, struct err *err)
{
    const struct process_options *o = call->own;
    const char *pid = o->pid ? o->pid : call->word_count > 1 ? call->words[1] : NULL;
    autodone(target) struct target target = { .id = NULL };
    autojson answer = NULL;
    int r = target_find(call->client, call->words[0], &target, err);

    if (r < 0)
        return r;
    if (!pid == !o->is_all)
        return err_invalid(err, "say which process, by its id or its pid; or --all");
    if (pid && strspn(pid, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(pid))
        return err_reject(err, -EINVAL, pid, "is no process");
    if (pid)
        r = workspace_ask(call, "DELETE", NULL, &answer, err, "/api/v1/sandboxes/%s/processes/%s", id_of(&target), pid);
    else
        r = workspace_ask(call, "POST", json_object(), &answer, err, "/api/v1/sandboxes/%s/processes/kill-all", id_of(&target));
    if (r < 0)
        return r;
    if (!answer)
        answer = json_pack("{s:i}", "killed", 1);
    if (call->options.is_json)
        output_json(json_incref(answer));
    else if (!call->options.is_quiet)
        printf("ended %lld\n", json_number(answer, "killed"));
    return 0;
}

#define PROCESS_VERB(verb, most, help_text)                                                                                    \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .last = API_LAST_SANDBOX,                                                                                          \
            .help = help_text API_LAST_HELP API_OPTIONS_HELP,                                                                  \
            .options = options,                                                                                                \
            .words_min = 1,                                                                                                    \
            .words_max = most,                                                                                                 \
            .own_size = sizeof(struct process_options),                                                                        \
            .take = take,                                                                                                      \
            .run = run_##verb,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

PROCESS_VERB(processes, 1,
             "usage: agentfense processes [options] SANDBOX\n\n"
             "Lists what 'agentfense exec --detach' started, and terminals.\n\n"
             "  --running              only those that run\n")
PROCESS_VERB(kill, 2,
             "usage: agentfense kill [options] SANDBOX PROCESS\n"
             "       agentfense kill [options] SANDBOX --all\n\n"
             "Ends a process in the background, with all that it started.\n\n"
             "  --pid PROCESS          which: its id or its pid\n"
             "  --all                  all of them\n")
