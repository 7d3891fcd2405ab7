#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/program.h"
#include "base/standard_output.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/verb.h"

/* The libraries of the server, and those of the API's verbs, would slow down every other verb: so they are programs of their own. */
#define SERVER "agentfense-server"
#define CLIENT CLIENT_PROGRAM
#define VERB_COUNT_MAX 64
#define WORKSPACE_SANDBOX "workspace-sandbox" /* our other name, with verbs of its own */

/* A heading stands before the first verb of its group. */
static const struct group {
    const char *heading;
    const struct verb *const *verbs; /* ended by NULL */
} groups[] = {
    { "a command over a directory here", (const struct verb *const[]){ &verb_run, &verb_ls, &verb_diff, &verb_approve,
                                                                       &verb_apply, &verb_discard, &verb_undo, NULL } },
    { "workspaces: sandboxes over a live directory, made by 'create --scope'; diff, approve, discard, undo, and",
      (const struct verb *const[]){
          &(const struct verb){ "reject", "end a workspace, and keep nothing of it", NULL, CLIENT },
          &(const struct verb){ "finish", "tell that the work in a workspace is over", NULL, CLIENT },
          &(const struct verb){ "restore", "bring a workspace back that was rejected or removed", NULL, CLIENT },
          &(const struct verb){ "comments", "comment on the changes of a sandbox", NULL, CLIENT },
          &(const struct verb){ "conflicts", "tell how its changes stand to the project now", NULL, CLIENT },
          &(const struct verb){ "rebase", "bring its changes onto the project as it is now", NULL, CLIENT },
          &(const struct verb){ "pending", "list what was approved and is not committed", NULL, CLIENT },
          &(const struct verb){ "provenance", "tell which workspaces changed a file", NULL, CLIENT },
          &(const struct verb){ "commit", "commit what was approved", NULL, CLIENT },
          &(const struct verb){ "gc", "remove workspaces that nobody needs any more", NULL, CLIENT },
          &(const struct verb){ "processes", "list processes in the background, and terminals", NULL, CLIENT },
          &(const struct verb){ "kill", "end processes in the background", NULL, CLIENT }, NULL } },
    { "sandboxes over codebases, on a server or without one",
      (const struct verb *const[]){
          &(const struct verb){ "codebase", "make, fill, list and restore codebases", NULL, CLIENT },
          &(const struct verb){ "cp", "copy files between here and a codebase", NULL, CLIENT },
          &(const struct verb){ "create", "make a sandbox over a codebase", NULL, CLIENT },
          &(const struct verb){ "start", "start sandboxes", NULL, CLIENT }, &verb_stop, &verb_rm,
          &(const struct verb){ "ps", "list the sandboxes of 'create'", NULL, CLIENT },
          &(const struct verb){ "inspect", "tell all about a sandbox, codebase or session", NULL, CLIENT },
          &(const struct verb){ "exec", "run a command in a sandbox", NULL, CLIENT },
          &(const struct verb){ "shell", "a shell in a sandbox, on this terminal", NULL, CLIENT },
          &(const struct verb){ "attach", "come back to a terminal that was left running", NULL, CLIENT },
          &(const struct verb){ "session", "shells that remember", NULL, CLIENT },
          &(const struct verb){ "rules", "show, change and explain the rules of a sandbox", NULL, CLIENT },
          &(const struct verb){ "events", "list, or follow, what happens", NULL, CLIENT },
          &(const struct verb){ "logs", "the events of a sandbox", NULL, CLIENT },
          &(const struct verb){ "status", "whether the server is well, and what there is", NULL, CLIENT }, NULL } },
    { "the server",
      (const struct verb *const[]){
          &(const struct verb){ "serve", "serve sandboxes by gRPC and REST", NULL, SERVER },
          &(const struct verb){ "token", "make, list and revoke tokens for a server's users", NULL, SERVER }, NULL } },
    { "rules and tools",
      (const struct verb *const[]){ &verb_policy, &verb_mount, &verb_delta, &verb_doctor,
                                    &(const struct verb){ "completion", "completion for bash, zsh or fish", NULL, CLIENT },
                                    NULL } },
};

static void print_help(FILE *out)
{
    fprintf(out, "usage: agentfense <verb> [options]\n\n"
                 "Runs AI agents on a real codebase while every file operation is checked.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        fprintf(out, "%s%s:\n", i > 0 ? "\n" : "", groups[i].heading);
        for (const struct verb *const *verb = groups[i].verbs; *verb; verb++)
            fprintf(out, "  %-10s %s\n", (*verb)->name, (*verb)->summary);
    }
    fprintf(out, "\n'agentfense <verb> --help' tells more. 'agentfense --version' prints the version.\n");
}

/* Output that did not reach its reader is a failure, also when it fails only at the end (a full disk). */
static int finish(int code)
{
    return standard_output_finish("agentfense", code, EXIT_OURS);
}

/* Whoever starts us with one of the three closed would have it become a file or a socket of ours, which we then read or print to. */
static bool open_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR); /* without O_CLOEXEC: as the others are */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    return fd >= 0;
}

static const struct verb *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        for (const struct verb *const *verb = groups[i].verbs; *verb; verb++) {
            if (strcmp(name, (*verb)->name) == 0)
                return *verb;
        }
    }
    return NULL;
}

static int refuse_verb(const char *name)
{
    const char *names[VERB_COUNT_MAX] = { NULL };
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        for (const struct verb *const *verb = groups[i].verbs; *verb && count + 1 < ARRAY_LEN(names); verb++)
            names[count++] = (*verb)->name;
    }
    suggest_refuse("agentfense", "verb", name, names);
    return EXIT_USAGE;
}

/* The program sees the verb as its own name. */
static int become(const char *name, char **argv)
{
    autofree char *program = NULL;
    struct err err = ERR_NONE;

    if (program_find(name, &program, &err) == 0) {
        execv(program, argv);
        err_errno(&err, -errno, "'%s'", program);
    }
    fprintf(stderr, "agentfense %s: %s\n", argv[0], err.text);
    return EXIT_OURS;
}

/* getopt(3) tells who refuses an option by argv[0]. */
static int run_here(const struct verb *verb, int argc, char **argv)
{
    autofree char *title = xprintf("agentfense %s", verb->name);

    argv[0] = title;
    return finish(verb->run(argc, argv));
}

static int run_verb(int argc, char **argv)
{
    const struct verb *verb = find(argv[0]);

    if (!verb)
        return refuse_verb(argv[0]);
    if (!verb->run || (verb->program && verb_is_for_client(argc, argv)))
        return become(verb->program, argv);
    return run_here(verb, argc, argv);
}

/* 'agentfense help VERB [WORD]' is 'agentfense VERB [WORD] --help'. */
static int run_help(int argc, char **argv)
{
    static char option[] = "--help";
    autofree char **words = NULL;

    if (argc == 0 || argv[0][0] == '-') {
        print_help(stdout);
        return finish(EXIT_SUCCESS);
    }
    words = xalloc(((size_t) argc + 2) * sizeof(*words));
    memcpy(words, argv, (size_t) argc * sizeof(*words));
    words[argc] = option;
    return run_verb(argc + 1, words);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *own = argc > 0 ? strrchr(argv[0], '/') : NULL;

    /* A reader that left (`| head`) shows as a write error, where it can be handled. */
    signal(SIGPIPE, SIG_IGN);
    if (!open_standard_fds()) {
        perror("agentfense: opening /dev/null");
        return EXIT_OURS;
    }
    standard_output_begin();
    own = own ? own + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(own, WORKSPACE_SANDBOX) == 0) {
        static char as[] = WORKSPACE_SANDBOX;
        argv[0] = as;
        return become(CLIENT, argv);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("agentfense %s\n", AGENTFENSE_VERSION);
        return finish(EXIT_SUCCESS);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return run_help(argc - 2, argv + 2);
    if (*name)
        return run_verb(argc - 1, argv + 1);
    print_help(stderr);
    return EXIT_USAGE;
}
