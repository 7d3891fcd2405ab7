#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/age.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/command_call.h"
#include "cli/listing.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"

static const char help[] =
    "usage: agentfense session open SANDBOX        a shell that remembers: directory, variables, functions, jobs\n"
    "       agentfense session exec SESSION -- COMMAND [ARGUMENT...]\n"
    "       agentfense session ls SANDBOX\n"
    "       agentfense session close SESSION...\n\n"
    "'agentfense session WORD --help' prints its usage.\n";

/* ---- open ---- */

static const char open_help[] = "usage: agentfense session open [options] SANDBOX\n\n"
                                "Opens a shell in a sandbox that was started, and prints the session's id.\n\n"
                                "  --shell PATH           /bin/bash, /bin/sh or /bin/zsh; without: bash where there is one\n"
                                "  -e, --env NAME[=VALUE] set a variable; without a value, ours\n"
                                "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
                                "  -w, --workdir DIR      where it starts; relative to /workspace\n"
                                "  --idle SPAN            close it after so long without use\n" API_LAST_HELP API_OPTIONS_HELP;

enum { OPT_SHELL = 1, OPT_ENV_FILE, OPT_IDLE };

static const struct option open_options[] = {
    { "shell", required_argument, NULL, OPT_SHELL },       { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE }, { "workdir", required_argument, NULL, 'w' },
    { "idle", required_argument, NULL, OPT_IDLE },         API_LONG_OPTIONS,
};

struct open_options {
    struct entry_list env;
    const char *shell, *workdir;
    Google__Protobuf__Duration idle;
    bool has_idle;
};

static int session_take_open(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct open_options *o = call->own;

    switch (option) {
    case 'e':
        return entry_list_add_env(&o->env, argument, err);
    case OPT_ENV_FILE:
        return entry_list_add_env_file(&o->env, argument, err);
    case OPT_IDLE:
        o->has_idle = true;
        return parse_span("idle", argument, &o->idle, err);
    case OPT_SHELL:
        o->shell = argument;
        return 0;
    default:
        o->workdir = argument;
        return 0;
    }
}

static int session_run_open(struct api_call *call, struct err *err)
{
    static char empty[] = "";
    struct open_options *o = call->own;
    Sandbox__V1__CreateSessionRequest request = SANDBOX__V1__CREATE_SESSION_REQUEST__INIT;
    autofree char *sandbox = NULL;
    automessage answer = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &sandbox, err);

    if (r < 0)
        return r;
    request.sandbox_id = sandbox;
    request.shell = o->shell ? (char *) o->shell : empty;
    request.workdir = o->workdir ? (char *) o->workdir : empty;
    request.n_env = o->env.count;
    request.env = entry_list_as(&o->env, Sandbox__V1__CreateSessionRequest__EnvEntry);
    request.idle_timeout = o->has_idle ? &o->idle : NULL;
    r = client_ask(call->client, "CreateSession", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, ((const Sandbox__V1__Session *) (void *) answer)->id);
    return lookup_explain_stopped(call->words[0], r, err);
}

static void session_done_open(struct api_call *call)
{
    entry_list_done(&((struct open_options *) call->own)->env);
}

static const struct api_verb open_verb = {
    .name = "session open",
    .last = API_LAST_SANDBOX,
    .help = open_help,
    .letters = "e:w:",
    .options = open_options,
    .words_min = 1,
    .words_max = 1,
    .own_size = sizeof(struct open_options),
    .take = session_take_open,
    .run = session_run_open,
    .done = session_done_open,
};

/* ---- exec ---- */

static const char exec_help[] =
    "usage: agentfense session exec [options] SESSION -- COMMAND [ARGUMENT...]\n\n"
    "Runs a command in the session's shell. Words arrive as they are typed here; a single word is a line for the shell:\n"
    "agentfense session exec SESSION -- 'cd src; export LANG=C'. Exit codes are those of 'agentfense exec'.\n\n"
    "  -t, --timeout SPAN     interrupt it after this time; exit code 124. The session lives on\n" API_OPTIONS_HELP;

static const struct option exec_options[] = {
    { "timeout", required_argument, NULL, 't' },
    API_LONG_OPTIONS,
};

struct exec_options {
    Google__Protobuf__Duration timeout;
    bool has_timeout;
};

static int session_take_exec(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct exec_options *o = call->own;

    (void) option;
    o->has_timeout = true;
    return parse_span("timeout", argument, &o->timeout, err);
}

static int session_check_exec(struct api_call *call, struct err *err)
{
    return call->command[0] ? 0 : err_invalid(err, "no command; it comes after '--'");
}

static int session_run_exec(struct api_call *call, struct err *err)
{
    struct exec_options *o = call->own;
    Sandbox__V1__SessionExecRequest request = SANDBOX__V1__SESSION_EXEC_REQUEST__INIT;
    autofree char *session = NULL;
    autofree char *line = command_line(call->command);
    int r = lookup_session(call->client, call->words[0], &session, err);

    if (r < 0)
        return r;
    request.session_id = session;
    request.command = line;
    request.timeout = o->has_timeout ? &o->timeout : NULL;
    return command_call(call, "SessionExec", "SessionExecStream", &request.base, request.timeout, err);
}

static const struct api_verb exec_verb = {
    .name = "session exec",
    .help = exec_help,
    .letters = "t:",
    .options = exec_options,
    .words_min = 1,
    .words_max = 1,
    .takes_command = true,
    .own_size = sizeof(struct exec_options),
    .take = session_take_exec,
    .check = session_check_exec,
    .run = session_run_exec,
};

/* ---- ls, close ---- */

static const struct option no_options[] = { API_LONG_OPTIONS };

static void session_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Session *session = (const void *) item;
    bool is_open = session->status == SANDBOX__V1__SESSION_STATUS__SESSION_STATUS_ACTIVE;
    char age[AGE_TEXT_MAX];

    age_format(session->created_at ? session->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, session->id);
    grid_add_coloured(grid, is_open ? "active" : "closed", is_open ? GRID_GOOD : GRID_DIM);
    grid_add(grid, session->shell);
    grid_add(grid, age);
}

static int session_run_ls(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "ID", "STATUS", "SHELL", "AGE", NULL };
    static const struct listing listing = { "ListSessions", &sandbox__v1__list_sessions_response__descriptor, titles,
                                            session_add_row };
    Sandbox__V1__ListSessionsRequest request = SANDBOX__V1__LIST_SESSIONS_REQUEST__INIT;
    autofree char *sandbox = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &sandbox, err);

    if (r < 0)
        return r;
    request.sandbox_id = sandbox;
    return listing_print(call, &listing, &request.base, err);
}

static const struct api_verb ls_verb = {
    .name = "session ls",
    .last = API_LAST_SANDBOX,
    .help =
        "usage: agentfense session ls [options] SANDBOX\n\nLists the sessions of a sandbox.\n\n" API_LAST_HELP API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 1,
    .words_max = 1,
    .run = session_run_ls,
};

static int session_run_close(struct api_call *call, struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        Sandbox__V1__DestroySessionRequest request = SANDBOX__V1__DESTROY_SESSION_REQUEST__INIT;
        autofree char *session = NULL;
        automessage answer = NULL;
        int r = lookup_session(call->client, call->words[i], &session, err);

        request.session_id = session;
        if (r == 0)
            r = client_ask(call->client, "DestroySession", &request.base, &answer, err);
        if (r < 0)
            return r;
        api_print(call, answer, session);
    }
    return 0;
}

static const struct api_verb close_verb = {
    .name = "session close",
    .help = "usage: agentfense session close [options] SESSION...\n\nCloses sessions with all that runs in "
            "them.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 1,
    .words_max = -1,
    .run = session_run_close,
};

int cmd_session(int argc, char **argv)
{
    static const struct api_verb *const verbs[] = { &open_verb, &exec_verb, &ls_verb, &close_verb };

    return api_verb_run_one_of("session", help, verbs, ARRAY_LEN(verbs), argc, argv);
}
