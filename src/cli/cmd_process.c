/* process: commands in the background of a sandbox, and its terminals. 'processes' and 'kill' are older names of two of its verbs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/age.h"
#include "cli/client_verbs.h"
#include "cli/interrupt.h"
#include "cli/listing.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/process_verbs.h"
#include "cli/setting_options.h"
#include <sandbox/v1/process.pb-c.h>

static const char help[] = "usage: agentfense process list SANDBOX              what runs in the background, and terminals\n"
                           "       agentfense process start SANDBOX -- COMMAND  start a command in the background\n"
                           "       agentfense process logs SANDBOX PROCESS      what one printed\n"
                           "       agentfense process kill SANDBOX PROCESS...   end some, or --all\n\n"
                           "'agentfense process WORD --help' prints its usage.\n";

enum { OPT_RUNNING = 1, OPT_PID, OPT_ALL, OPT_TAIL };

struct process_options {
    bool only_running, is_all, follows;
    const char *pid; /* --pid, an alternative to the word */
    int64_t tail;
};

static int process_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct process_options *o = call->own;

    switch (option) {
    case OPT_RUNNING:
        o->only_running = true;
        return 0;
    case OPT_ALL:
        o->is_all = true;
        return 0;
    case OPT_PID:
        o->pid = argument;
        return 0;
    case 'f':
        o->follows = true;
        return 0;
    default:
        return parse_number("--tail", argument, 1, INT32_MAX, &o->tail, err);
    }
}

/* ---- list ---- */

static const char *process_status(const Sandbox__V1__Process *process, char ret[32])
{
    switch (process->status) {
    case SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_RUNNING:
        return "running";
    case SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_EXITED:
        snprintf(ret, 32, "exit %d", process->exit_code);
        return ret;
    case SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_SIGNALED:
        snprintf(ret, 32, "signal %d", process->signal);
        return ret;
    default:
        return "lost";
    }
}

static void process_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Process *process = (const void *) item;
    bool runs = process->status == SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_RUNNING;
    /* 'exec' passes a single word to a shell; the list shows only that word. */
    static const char shell[] = "/bin/sh -c ";
    const char *line = process->command;
    char age[AGE_TEXT_MAX], ended[32];

    age_format(process->started_at ? process->started_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, process->id);
    grid_add(grid, *process->name ? process->name : "-");
    grid_add_number(grid, process->pid);
    grid_add_coloured(grid, process_status(process, ended), runs ? GRID_GOOD : GRID_DIM);
    grid_add(grid, age);
    grid_add(grid, strncmp(line, shell, strlen(shell)) == 0 ? line + strlen(shell) : line);
}

static int process_run_list(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "ID", "NAME", "PID", "STATUS", "AGE", "COMMAND", NULL };
    static const struct listing listing = { "ListProcesses", &sandbox__v1__list_processes_response__descriptor, titles,
                                            process_add_row };
    Sandbox__V1__ListProcessesRequest request = SANDBOX__V1__LIST_PROCESSES_REQUEST__INIT;
    autofree char *id = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    if (r < 0)
        return r;
    request.sandbox_id = id;
    request.running = ((const struct process_options *) call->own)->only_running;
    return listing_print(call, &listing, &request.base, err);
}

static const struct option list_options[] = {
    { "running", no_argument, NULL, OPT_RUNNING },
    API_LONG_OPTIONS,
};

static const struct api_verb process_list_verb = {
    .name = "process list",
    .last = API_LAST_SANDBOX,
    .help =
        "usage: agentfense process list [options] SANDBOX\n\n"
        "Lists the commands that were started in the background of a sandbox, and terminals; also those that have ended.\n\n"
        "  --running              only those that run\n" API_LAST_HELP API_OPTIONS_HELP,
    .options = list_options,
    .words_min = 1,
    .words_max = 1,
    .own_size = sizeof(struct process_options),
    .take = process_take,
    .run = process_run_list,
};

/* ---- logs ---- */

static int process_explain(const struct api_call *call, int r, struct err *err)
{
    autofree char *text = xdup(err->text);

    if (r < 0 && err->code == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, r, "%s; 'agentfense process list %s' lists them", text, call->words[0]);
    return r;
}

static int process_print_bytes(const ProtobufCBinaryData *data, struct err *err)
{
    int r = interrupt_write(STDOUT_FILENO, data->data, data->len);

    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? output_refused(r, "passing on the log", err) : 0;
}

static int process_on_chunk(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    (void) cookie;
    return process_print_bytes(&((const Sandbox__V1__ProcessLogChunk *) (const void *) answer)->data, err);
}

static int process_follow_log(struct api_call *call, const char *id, const char *process, int64_t tail, struct err *err)
{
    Sandbox__V1__FollowProcessLogRequest request = SANDBOX__V1__FOLLOW_PROCESS_LOG_REQUEST__INIT;
    struct client_call wanted = { .method = "FollowProcessLog", .request = &request.base, .on_answer = process_on_chunk };

    request.sandbox_id = (char *) id;
    request.process_id = (char *) process;
    request.only_new = tail == 0;
    request.tail_lines = tail > 0 ? (int32_t) tail : 0;
    return client_call(call->client, &wanted, err);
}

int process_show_log(struct api_call *call, const char *id, const char *process, int64_t tail, bool follows, struct err *err)
{
    Sandbox__V1__ReadProcessLogRequest request = SANDBOX__V1__READ_PROCESS_LOG_REQUEST__INIT;
    int r = 0;

    if (follows)
        return process_explain(call, process_follow_log(call, id, process, tail, err), err);
    if (tail == 0)
        return 0;
    request.sandbox_id = (char *) id;
    request.process_id = (char *) process;
    request.tail_lines = tail > 0 ? (int32_t) tail : 0;
    for (bool is_over = false; r == 0 && !is_over;) {
        automessage answer = NULL;

        r = client_ask(call->client, "ReadProcessLog", &request.base, &answer, err);
        const Sandbox__V1__ReadProcessLogResponse *piece = (void *) answer;
        if (r < 0)
            break;
        is_over = call->options.is_json || piece->data.len == 0 || piece->next_offset >= piece->end_offset;
        if (call->options.is_json)
            api_print_json(answer);
        else
            r = process_print_bytes(&piece->data, err);
        request.offset = piece->next_offset;
        request.tail_lines = 0;
    }
    return process_explain(call, r, err);
}

static int process_run_logs(struct api_call *call, struct err *err)
{
    const struct process_options *o = call->own;
    autofree char *id = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    return r < 0 ? r : process_show_log(call, id, call->words[1], o->tail > 0 ? o->tail : -1, o->follows, err);
}

static const struct option logs_options[] = {
    { "follow", no_argument, NULL, 'f' },
    { "tail", required_argument, NULL, OPT_TAIL },
    API_LONG_OPTIONS,
};

static const struct api_verb process_logs_verb = {
    .name = "process logs",
    .help = "usage: agentfense process logs [options] SANDBOX PROCESS\n\n"
            "Prints what a process in the background printed. PROCESS is its id or its pid.\n\n"
            "  -f, --follow           go on until it ends\n"
            "  --tail N               only the last N lines\n" API_OPTIONS_HELP,
    .letters = "f",
    .options = logs_options,
    .words_min = 2,
    .words_max = 2,
    .own_size = sizeof(struct process_options),
    .take = process_take,
    .run = process_run_logs,
};

/* ---- kill ---- */

static int process_kill_all(struct api_call *call, const char *id, struct err *err)
{
    Sandbox__V1__KillAllProcessesRequest request = SANDBOX__V1__KILL_ALL_PROCESSES_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = (char *) id;
    r = client_ask(call->client, "KillAllProcesses", &request.base, &answer, err);
    const Sandbox__V1__KillAllProcessesResponse *told = (void *) answer;
    if (r < 0)
        return r;
    if (call->options.is_json)
        api_print_json(answer);
    else if (!call->options.is_quiet)
        printf("ended %d\n", told->killed);
    for (size_t i = 0; i < told->n_failures; i++) {
        fprintf(stderr, "agentfense %s: ", call->verb->name);
        output_escaped(stderr, told->failures[i]);
        fputc('\n', stderr);
    }
    return told->n_failures > 0 ? EXIT_FAILURE : 0;
}

static int process_kill_one(struct api_call *call, const char *id, const char *process, struct err *err)
{
    Sandbox__V1__KillProcessRequest request = SANDBOX__V1__KILL_PROCESS_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = (char *) id;
    request.process_id = (char *) process;
    r = client_ask(call->client, "KillProcess", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, ((const Sandbox__V1__Process *) (void *) answer)->id);
    return process_explain(call, r, err);
}

static int process_check_kill(struct api_call *call, struct err *err)
{
    const struct process_options *o = call->own;

    if ((call->word_count > 1 || o->pid) == o->is_all)
        return err_invalid(err, "give the id or the pid of the process, or --all");
    return 0;
}

static int process_run_kill(struct api_call *call, struct err *err)
{
    const struct process_options *o = call->own;
    autofree char *id = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    if (r == 0 && o->is_all)
        return process_kill_all(call, id, err);
    if (r == 0 && o->pid)
        r = process_kill_one(call, id, o->pid, err);
    for (int i = 1; r == 0 && i < call->word_count; i++)
        r = process_kill_one(call, id, call->words[i], err);
    return r;
}

static const struct option kill_options[] = {
    { "pid", required_argument, NULL, OPT_PID },
    { "all", no_argument, NULL, OPT_ALL },
    API_LONG_OPTIONS,
};

static const struct api_verb process_kill_verb = {
    .name = "process kill",
    .last = API_LAST_SANDBOX,
    .help = "usage: agentfense process kill [options] SANDBOX PROCESS...\n"
            "       agentfense process kill [options] SANDBOX --all\n\n"
            "Ends processes in the background, with all that they started.\n\n"
            "  --pid PROCESS          which: its id or its pid\n"
            "  --all                  all of them\n" API_LAST_HELP API_OPTIONS_HELP,
    .options = kill_options,
    .words_min = 1,
    .words_max = -1,
    .own_size = sizeof(struct process_options),
    .take = process_take,
    .check = process_check_kill,
    .run = process_run_kill,
};

int cmd_process(int argc, char **argv)
{
    static const struct api_verb *const verbs[] = { &process_list_verb, &process_start_verb, &process_logs_verb,
                                                    &process_kill_verb };

    return api_verb_run_one_of("process", help, verbs, ARRAY_LEN(verbs), argc, argv);
}

int cmd_processes(int argc, char **argv)
{
    return api_verb_run(&process_list_verb, argc, argv);
}

int cmd_kill(int argc, char **argv)
{
    return api_verb_run(&process_kill_verb, argc, argv);
}
