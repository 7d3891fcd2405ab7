#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/verb.h"

static const struct verb *const verbs[] = {
    &verb_run,   &verb_ls,     &verb_diff,   &verb_apply, &verb_discard, &verb_mount,
    &verb_delta, &verb_policy, &verb_doctor, &verb_serve, &verb_token,
};

static void print_help(FILE *out)
{
    fprintf(out, "usage: agentfense <verb> [options]\n\n"
                 "Runs AI agents on a real codebase while every file operation is checked.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(out, "\n'agentfense <verb> --help' tells more. 'agentfense --version' prints the version.\n");
}

/* Output that did not reach its reader is a failure, also when it fails only at the end (a full disk). */
static int finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("agentfense: writing output");
    return EXIT_OURS;
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

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    /* A reader that left (`| head`) shows as a write error, where it can be handled. */
    signal(SIGPIPE, SIG_IGN);
    if (!open_standard_fds()) {
        perror("agentfense: opening /dev/null");
        return EXIT_OURS;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("agentfense %s\n", AGENTFENSE_VERSION);
        return finish(EXIT_SUCCESS);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return finish(EXIT_SUCCESS);
    }
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(name, verbs[i]->name) == 0)
            return finish(verbs[i]->run(argc - 1, argv + 1));
    }
    if (*name)
        fprintf(stderr, "agentfense: unknown verb '%s'\n", name);
    print_help(stderr);
    return EXIT_USAGE;
}
