#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "fence/change.h"

#define USAGE                                                                                                                  \
    "usage: agentfense delta list    DELTA [--json]\n"                                                                         \
    "       agentfense delta export  DELTA --to DIR\n"                                                                         \
    "       agentfense delta discard DELTA"

static const char help[] = USAGE
    "\n\n"
    "list prints what a delta changes: added, modified, mode or deleted, and the path as rules name it. export copies the\n"
    "changed files below DIR and writes the deleted paths, without a leading slash and each ended by a NUL, to DIR.deleted.\n"
    "discard removes the delta.\n"
    "\n"
    "  --json                 JSON on standard output\n"
    "  --to DIR               with export: where to; empty, or not there yet\n"
    "  -h, --help             this text\n";

enum {
    OPT_JSON = 1,
    OPT_TO,
};

static const struct option long_options[] = {
    { "json", no_argument, NULL, OPT_JSON },
    { "to", required_argument, NULL, OPT_TO },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

enum action {
    ACTION_LIST,
    ACTION_EXPORT,
    ACTION_DISCARD,
    ACTIONS,
};

static const char *const action_names[ACTIONS] = { "list", "export", "discard" };

struct delta_options {
    enum action action;
    const char *delta;
    const char *to;
    bool json;
    bool wants_help;
};

static const char *type_name(mode_t mode)
{
    if (S_ISDIR(mode))
        return "directory";
    if (S_ISLNK(mode))
        return "symlink";
    return S_ISREG(mode) ? "file" : "special";
}

static int print_change(const struct change *change, void *cookie)
{
    (void) cookie;
    printf("%-8s /", change_kind_name(change->kind));
    output_escaped(stdout, change->path);
    printf("%s\n", S_ISDIR(change->mode) ? "/" : "");
    return 0;
}

static int add_change(const struct change *change, void *cookie)
{
    autofree char *path = xprintf("/%s", change->path);

    json_array_append_new(cookie, json_pack("{s:s, s:o, s:s, s:i, s:I}", "change", change_kind_name(change->kind), "path",
                                            output_json_name(path), "type", type_name(change->mode), "mode",
                                            (int) (change->mode & 0777), "size", (json_int_t) change->size_bytes));
    return 0;
}

static int list(const struct delta_options *o, struct err *err)
{
    json_t *changes;
    int r;

    if (!o->json)
        return change_each(o->delta, print_change, NULL, err);
    changes = json_array();
    r = change_each(o->delta, add_change, changes, err);
    if (r < 0)
        json_decref(changes);
    else
        output_json(json_pack("{s:o}", "changes", changes));
    return r;
}

static int parse_action(const char *name, enum action *ret, struct err *err)
{
    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(name, action_names[i]) == 0) {
            *ret = (enum action) i;
            return 0;
        }
    }
    return err_invalid(err, "'%s' is not one of list, export, discard", name);
}

static int parse(int argc, char **argv, struct delta_options *o, struct err *err)
{
    int option, r;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == OPT_JSON)
            o->json = true;
        else if (option == OPT_TO)
            o->to = optarg;
        else if (option == 'h')
            o->wants_help = true;
        else
            return err_invalid(err, "see 'agentfense delta --help'");
    }
    if (o->wants_help)
        return 0;
    if (optind == argc)
        return err_invalid(err, "the second word must be list, export or discard\n" USAGE);
    r = parse_action(argv[optind], &o->action, err);
    if (r < 0)
        return r;
    if (optind + 1 == argc)
        return err_invalid(err, "DELTA is missing\n" USAGE);
    if (optind + 2 < argc)
        return err_invalid(err, "one word too many; see 'agentfense delta --help'");
    o->delta = argv[optind + 1];
    if ((o->action == ACTION_EXPORT) != (o->to != NULL))
        return err_invalid(err, "export, and only export, needs --to DIR");
    return 0;
}

static int perform(const struct delta_options *o, struct err *err)
{
    switch (o->action) {
    case ACTION_EXPORT:
        return change_export(o->delta, o->to, err);
    case ACTION_DISCARD:
        return change_discard(o->delta, err);
    default:
        return list(o, err);
    }
}

static int run(int argc, char **argv)
{
    struct delta_options o = { 0 };
    struct err err = ERR_NONE;
    int r = parse(argc, argv, &o, &err);
    bool is_usage = r < 0;

    if (r == 0 && o.wants_help) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (r == 0)
        r = perform(&o, &err);
    if (r == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "agentfense delta: %s\n", err.text);
    return is_usage ? EXIT_USAGE : EXIT_OURS;
}

const struct verb verb_delta = {
    .name = "delta",
    .summary = "list, export or discard the changes a mount kept",
    .run = run,
};
