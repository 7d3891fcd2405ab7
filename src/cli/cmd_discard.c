#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

static const struct option long_options[] = {
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

struct discard_options {
    char **names; /* borrowed from argv */
    size_t count;
    bool json;
    bool wants_help;
};

/* An apply that was killed is finished or taken back first: nobody could later. */
static void clean_up(const struct home *home, const char *name, int dir_fd)
{
    autofree char *delta_path = home_path(home, name, "delta");
    autofd int lock = -1;

    if (home_lock(dir_fd, &lock) == 0)
        approve_recover(delta_path, false, NULL);
}

/* Its spec is not read: a damaged sandbox can be discarded too. */
static int discard_one(struct home *home, const char *wanted, char ret_name[SANDBOX_NAME_MAX], struct err *err)
{
    autofd int dir_fd = -1;
    int r = home_find(home, wanted, ret_name, &dir_fd, err);

    if (r < 0)
        return r;
    clean_up(home, ret_name, dir_fd);
    return home_remove(home, ret_name, err);
}

/* All are tried. The first failure is the answer, each is told. */
static int discard_all(struct home *home, const struct discard_options *o)
{
    json_t *discarded = json_array();
    int code = EXIT_SUCCESS;

    for (size_t i = 0; i < o->count; i++) {
        char name[SANDBOX_NAME_MAX];
        struct err err = ERR_NONE;
        if (discard_one(home, o->names[i], name, &err) < 0) {
            int failed = output_error("discard", &err);
            code = code ? code : failed;
            continue;
        }
        json_array_append_new(discarded, json_string(name));
        if (!o->json)
            printf("discarded %s\n", name);
    }
    if (o->json)
        output_json(json_pack("{s:o}", "discarded", discarded));
    else
        json_decref(discarded);
    return code;
}

static int parse(int argc, char **argv, struct discard_options *o, struct err *err)
{
    int option;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'j')
            o->json = true;
        else if (option == 'h')
            o->wants_help = true;
        else
            return err_invalid(err, "see 'agentfense discard --help'");
    }
    o->names = argv + optind;
    o->count = (size_t) (argc - optind);
    if (o->count == 0 && !o->wants_help)
        return err_invalid(err, "say which sandbox; 'agentfense ls' lists them");
    return 0;
}

static int run(int argc, char **argv)
{
    autodone(home) struct home home = HOME_NONE;
    struct discard_options o = { 0 };
    struct err err = ERR_NONE;
    int r = parse(argc, argv, &o, &err);

    if (r == 0 && o.wants_help) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (r < 0)
        return output_error("discard", &err);
    r = home_open(false, &home, &err);
    if (r == -ENOENT) /* no directory for sandboxes yet: there are none */
        err_set(&err, ERR_NOT_FOUND, r, "there are no sandboxes");
    return r < 0 ? output_error("discard", &err) : discard_all(&home, &o);
}

const struct verb verb_discard = {
    .name = "discard",
    .summary = "remove sandboxes with their changes",
    .run = run,
    .program = CLIENT_PROGRAM,
};
