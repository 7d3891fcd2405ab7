/*
 * agentfense-client, the program of the verbs that call the API. 'agentfense' executes it with the verb as argv[0]; the table in main.c lists those
 * verbs.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/standard_output.h"
#include "cli/client_verbs.h"
#include "cli/verb.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {
    { "apply", cmd_apply },
    { "approve", cmd_approve },
    { "attach", cmd_attach },
    { "codebase", cmd_codebase },
    { "comments", cmd_comments },
    { "commit", cmd_commit },
    { "completion", cmd_completion },
    { "conflicts", cmd_conflicts },
    { "cp", cmd_cp },
    { "create", cmd_create },
    { "diff", cmd_diff },
    { "discard", cmd_discard },
    { "events", cmd_events },
    { "exec", cmd_exec },
    { "finish", cmd_finish },
    { "gc", cmd_prune },
    { "inspect", cmd_inspect },
    { "kill", cmd_kill },
    { "logs", cmd_logs },
    { "pending", cmd_pending },
    { "process", cmd_process },
    { "processes", cmd_processes },
    { "provenance", cmd_provenance },
    { "prune", cmd_prune },
    { "ls", cmd_ls },
    { "ps", cmd_ls },
    { "rebase", cmd_rebase },
    { "reject", cmd_reject },
    { "restore", cmd_restore },
    { "rm", cmd_rm },
    { "rules", cmd_rules },
    { "session", cmd_session },
    { "shell", cmd_shell },
    { "start", cmd_start },
    { "status", cmd_status },
    { "stop", cmd_stop },
    { "undo", cmd_undo },
    { "workspace-sandbox", cmd_workspace_sandbox },
};

/* A failure to write output (a full disk) may show only when stdout is flushed. It must change the exit code. */
static int finish(int code)
{
    return standard_output_finish("agentfense", code, EXIT_OURS);
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? argv[0] : "";

    signal(SIGPIPE, SIG_IGN);
    standard_output_begin();
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return finish(verbs[i].run(argc, argv));
    }
    fprintf(stderr, "agentfense-client is part of 'agentfense', and called by it\n");
    return EXIT_USAGE;
}
