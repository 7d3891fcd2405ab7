#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/program.h"
#include "cli/verb.h"

/* The server's libraries would slow down every other verb, so it is a program of its own, and these verbs are it. */
static int become_server(int argc, char **argv)
{
    autofree char *program = NULL;
    struct err err = ERR_NONE;

    (void) argc;
    if (program_find("agentfense-server", &program, &err) < 0) {
        fprintf(stderr, "agentfense %s: %s\n", argv[0], err.text);
        return EXIT_OURS;
    }
    execv(program, argv);
    fprintf(stderr, "agentfense %s: '%s': %s\n", argv[0], program, strerror(errno));
    return EXIT_OURS;
}

const struct verb verb_serve = {
    .name = "serve",
    .summary = "serve sandboxes by gRPC and REST",
    .run = become_server,
};

const struct verb verb_token = {
    .name = "token",
    .summary = "make, list and revoke tokens for a server's users",
    .run = become_server,
};
