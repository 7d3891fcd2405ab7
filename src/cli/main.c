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

/* The server and the verbs of the API are programs of their own, because their libraries would slow down every other verb. */
#define SERVER "agentfense-server"
#define CLIENT CLIENT_PROGRAM
#define VERB_COUNT_MAX 64
#define WORKSPACE_SANDBOX "workspace-sandbox" /* our other name, with verbs of its own */

#define CLIENT_VERB(word, text) (&(const struct verb){ .name = word, .summary = text, .program = CLIENT })
#define ALIAS(word)                                                                                                            \
    (&(const struct verb){ .name = word, .program = CLIENT }) /* an older spelling: it works, and no help lists it */

static const struct group {
    const char *heading;
    const struct verb *const *verbs; /* ended by NULL */
} groups[] = {
    { "every day",
      (const struct verb *const[]){
          &verb_run, CLIENT_VERB("ls", "list the sandboxes"), CLIENT_VERB("diff", "show what a sandbox changed"),
          CLIENT_VERB("approve", "write changes of a sandbox into its base: all, files or hunks"),
          CLIENT_VERB("discard", "drop changes of a sandbox"), CLIENT_VERB("undo", "take an approval back"),
          CLIENT_VERB("exec", "run a command in a sandbox"),
          CLIENT_VERB("shell", "open a shell in a sandbox, on this terminal"),
          CLIENT_VERB("stop", "stop sandboxes; their changes stay"), CLIENT_VERB("rm", "remove sandboxes"),
          CLIENT_VERB("logs", "show what happened in a sandbox, or what a process printed"), &verb_policy, NULL } },
    { "sandboxes",
      (const struct verb *const[]){ CLIENT_VERB("create", "make a sandbox over a directory or a codebase"),
                                    CLIENT_VERB("start", "start sandboxes"),
                                    CLIENT_VERB("inspect", "show all about a sandbox, codebase or session"),
                                    CLIENT_VERB("rules", "show, change and explain the rules of a sandbox"),
                                    CLIENT_VERB("events", "list, or follow, what happens in all sandboxes"),
                                    CLIENT_VERB("prune", "free the disk of sandboxes that nobody needs any more"), NULL } },
    { "review", (const struct verb *const[]){ CLIENT_VERB("conflicts", "show how changes relate to the project as it is now"),
                                              CLIENT_VERB("rebase", "bring changes onto the project as it is now"),
                                              CLIENT_VERB("restore", "bring a sandbox back that was rejected or removed"),
                                              CLIENT_VERB("pending", "list approved changes that are not committed"),
                                              CLIENT_VERB("commit", "commit approved changes"),
                                              CLIENT_VERB("provenance", "show which sandboxes changed a file"),
                                              CLIENT_VERB("comments", "comment on the changes of a sandbox"), NULL } },
    { "commands that stay",
      (const struct verb *const[]){ CLIENT_VERB("process", "commands in the background: list, start, logs, kill"),
                                    CLIENT_VERB("attach", "come back to a terminal that was left running"),
                                    CLIENT_VERB("session", "shells that remember: open, exec, ls, close"), NULL } },
    { "codebases",
      (const struct verb *const[]){ CLIENT_VERB("codebase", "trees of files with versions: create, fill, list, restore"),
                                    CLIENT_VERB("cp", "copy files between here and a codebase"), NULL } },
    { "the server",
      (const struct verb *const[]){
          &(const struct verb){ "serve", "serve sandboxes by gRPC and REST", NULL, SERVER },
          &(const struct verb){ "token", "make, list and revoke tokens for a server's users", NULL, SERVER },
          CLIENT_VERB("status", "show the server's health, and what there is"), NULL } },
    { "this host", (const struct verb *const[]){ &verb_doctor, &verb_mount, &verb_delta,
                                                 CLIENT_VERB("completion", "print completion for bash, zsh or fish"), NULL } },
    { NULL, (const struct verb *const[]){ ALIAS("apply"), ALIAS("finish"), ALIAS("gc"), ALIAS("kill"), ALIAS("processes"),
                                          ALIAS("ps"), ALIAS("reject"), NULL } },
};

static void main_print_help(FILE *out)
{
    fprintf(out, "usage: agentfense <verb> [options]\n\n"
                 "Runs AI agents on a real codebase while every file operation is checked.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(groups) && groups[i].heading; i++) {
        fprintf(out, "%s%s:\n", i > 0 ? "\n" : "", groups[i].heading);
        for (const struct verb *const *verb = groups[i].verbs; *verb; verb++)
            fprintf(out, "  %-10s %s\n", (*verb)->name, (*verb)->summary);
    }
    fprintf(out, "\n'agentfense <verb> --help' shows its options. 'agentfense --version' prints the version.\n");
}

/* Output that did not reach its reader is a failure, even if only the last write fails (a full disk). */
static int main_finish(int code)
{
    return standard_output_finish("agentfense", code, EXIT_OURS);
}

/* If one of the three were closed, the next file or socket that we open would take its number, and we would read it or print to it. */
static bool main_open_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR); /* without O_CLOEXEC: as the others are */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    return fd >= 0;
}

static const struct verb *main_find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        for (const struct verb *const *verb = groups[i].verbs; *verb; verb++) {
            if (strcmp(name, (*verb)->name) == 0)
                return *verb;
        }
    }
    return NULL;
}

static int main_refuse_verb(const char *name)
{
    const char *names[VERB_COUNT_MAX] = { NULL };
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(groups) && groups[i].heading; i++) {
        for (const struct verb *const *verb = groups[i].verbs; *verb && count + 1 < ARRAY_LEN(names); verb++)
            names[count++] = (*verb)->name;
    }
    suggest_refuse("agentfense", "verb", name, names);
    return EXIT_USAGE;
}

/* The program sees the verb as its own name. */
static int main_exec(const char *name, char **argv)
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

/* getopt(3) begins its messages with argv[0]. */
static int main_run_here(const struct verb *verb, int argc, char **argv)
{
    autofree char *title = xprintf("agentfense %s", verb->name);

    argv[0] = title;
    return main_finish(verb->run(argc, argv));
}

static int main_run_verb(int argc, char **argv)
{
    const struct verb *verb = main_find_verb(argv[0]);

    if (!verb)
        return main_refuse_verb(argv[0]);
    if (!verb->run)
        return main_exec(verb->program, argv);
    return main_run_here(verb, argc, argv);
}

/* 'agentfense help VERB [WORD]' is 'agentfense VERB [WORD] --help'. */
static int main_run_help(int argc, char **argv)
{
    static char option[] = "--help";
    autofree char **words = NULL;

    if (argc == 0 || argv[0][0] == '-') {
        main_print_help(stdout);
        return main_finish(EXIT_SUCCESS);
    }
    words = xalloc(((size_t) argc + 2) * sizeof(*words));
    memcpy(words, argv, (size_t) argc * sizeof(*words));
    words[argc] = option;
    return main_run_verb(argc + 1, words);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *own = argc > 0 ? strrchr(argv[0], '/') : NULL;

    /* A reader that left (`| head`) shows as a write error, where it can be handled. */
    signal(SIGPIPE, SIG_IGN);
    if (!main_open_standard_fds()) {
        perror("agentfense: opening /dev/null");
        return EXIT_OURS;
    }
    standard_output_begin();
    own = own ? own + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(own, WORKSPACE_SANDBOX) == 0) {
        static char as[] = WORKSPACE_SANDBOX;
        argv[0] = as;
        return main_exec(CLIENT, argv);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("agentfense %s\n", AGENTFENSE_VERSION);
        return main_finish(EXIT_SUCCESS);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return main_run_help(argc - 2, argv + 2);
    if (*name)
        return main_run_verb(argc - 1, argv + 1);
    main_print_help(stderr);
    return EXIT_USAGE;
}
