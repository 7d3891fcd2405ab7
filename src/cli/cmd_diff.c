#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/diff_print.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/diff.h"

static const char help[] = DIFF_HELP "  --json                 JSON on standard output\n"
                                     "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                                     "  -h, --help             this text\n";

enum {
    OPT_STAT = 1,
    OPT_NAME_ONLY,
    OPT_PATCH,
    OPT_JSON,
};

static const struct option long_options[] = {
    { "stat", no_argument, NULL, OPT_STAT },   { "name-only", no_argument, NULL, OPT_NAME_ONLY },
    { "patch", no_argument, NULL, OPT_PATCH }, { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, 'h' },        { 0 },
};

struct diff_options {
    const char *name;
    const char *const *paths; /* borrowed from argv */
    size_t path_count;
    int form; /* 0, OPT_STAT, OPT_NAME_ONLY or OPT_PATCH */
    bool json;
    bool wants_help;
};

/* The printing of one sandbox's changes. */
struct report {
    const struct diff_options *options;
    const struct edit_list *edits;
    bool is_coloured;
    int name_width;
    size_t files, added, removed;
    json_t *json; /* owned: an array */
};

/* ---- as text ---- */

static void print_stat(const struct report *report, const struct edit *edit, const struct diff *diff)
{
    struct diff_stat stat = {
        .path = edit->path,
        .added = diff->added,
        .removed = diff->removed,
        .is_binary = diff->is_binary,
        .is_too_large = diff->is_too_large,
        .old_bytes = S_ISREG(edit->was.st_mode) ? (unsigned long long) edit->was.st_size : 0,
        .new_bytes = edit->now_bytes,
    };

    diff_print_stat(&stat, report->name_width, report->is_coloured);
}

/* ---- as JSON ---- */

static json_t *mode_json(mode_t mode)
{
    return mode ? json_integer(mode & 0777) : json_null();
}

static json_t *edit_json(const struct report *report, const struct edit *edit, const struct diff *diff)
{
    json_t *json =
        json_pack("{s:s, s:o, s:s, s:o, s:o, s:I, s:I}", "change", change_kind_name(edit->kind), "path",
                  output_json_name(edit->path), "type", S_ISLNK(edit->now ? edit->now : edit->was.st_mode) ? "symlink" : "file",
                  "old_mode", mode_json(edit->was.st_mode), "mode", mode_json(edit->now), "old_size",
                  (json_int_t) (S_ISREG(edit->was.st_mode) ? edit->was.st_size : 0), "size", (json_int_t) edit->now_bytes);

    if (report->options->form == OPT_NAME_ONLY)
        return json;
    json_object_set_new(json, "added", json_integer((json_int_t) diff->added));
    json_object_set_new(json, "removed", json_integer((json_int_t) diff->removed));
    json_object_set_new(json, "binary", json_boolean(diff->is_binary));
    json_object_set_new(json, "too_large", json_boolean(diff->is_too_large));
    if (report->options->form != OPT_STAT)
        json_object_set_new(json, "diff", json_string(diff->text.data ? diff->text.data : ""));
    return json;
}

static void print_json(struct report *report, const struct pick *pick)
{
    json_t *unseen = json_array();

    for (size_t i = 0; i < report->edits->unseen_count; i++)
        json_array_append_new(unseen, output_json_name(report->edits->unseen[i]));
    output_json(json_pack("{s:s, s:o, s:O, s:I, s:I, s:o}", "sandbox", pick->name, "directory",
                          output_json_name(pick->spec->base_path), "files", report->json, "added", (json_int_t) report->added,
                          "removed", (json_int_t) report->removed, "unseen", unseen));
}

/* ---- the work ---- */

/* JSON carries text as it is, and escapes by itself what a terminal must not see; but it has no bytes that are no text. */
static int make_for_json(struct report *report, const struct edit *edit, struct diff *ret, struct err *err)
{
    int r = diff_make(report->edits, edit, true, ret, err);

    if (r < 0 || ret->text.len == 0 ||
        (utf8_is_valid(ret->text.data, ret->text.len) && !memchr(ret->text.data, 0, ret->text.len)))
        return r;
    diff_done(ret);
    return diff_make(report->edits, edit, false, ret, err);
}

static int report_one(struct report *report, const struct edit *edit, struct err *err)
{
    const struct diff_options *o = report->options;
    autodone(diff) struct diff diff = DIFF_NONE;
    int r = 0;

    if (o->json && o->form != OPT_NAME_ONLY)
        r = make_for_json(report, edit, &diff, err);
    else if (o->form != OPT_NAME_ONLY)
        r = diff_make(report->edits, edit, o->form == OPT_PATCH, &diff, err);
    if (r < 0)
        return r;
    report->files++;
    report->added += diff.added;
    report->removed += diff.removed;
    if (o->json) {
        json_array_append_new(report->json, edit_json(report, edit, &diff));
    } else if (o->form == OPT_NAME_ONLY) {
        output_escaped(stdout, edit->path);
        putchar('\n');
    } else if (o->form == OPT_STAT) {
        print_stat(report, edit, &diff);
    } else {
        diff_print_text(diff.text.data ? diff.text.data : "", diff.text.len, report->is_coloured && o->form != OPT_PATCH);
    }
    return 0;
}

static int name_width(const struct edit_list *edits)
{
    int width = 0;

    for (size_t i = 0; i < edits->count; i++) {
        int one = edit_is_file(&edits->items[i]) ? diff_print_width(edits->items[i].path) : 0;
        width = one > width ? one : width;
    }
    return width;
}

static int show(const struct diff_options *o, struct err *err)
{
    autodone(pick) struct pick pick = PICK_NONE;
    autodone(edit_list) struct edit_list edits = EDIT_LIST_EMPTY;
    struct report report = { .options = o, .edits = &edits, .is_coloured = output_is_coloured(stdout) };
    int r = pick_open(o->name, &pick, err);

    if (r == 0)
        r = pick_load_edits(&pick, o->paths, o->path_count, &edits, err);
    if (r < 0)
        return r;
    report.json = json_array();
    report.name_width = name_width(&edits);
    for (size_t i = 0; i < edits.count && r == 0; i++)
        r = edit_is_file(&edits.items[i]) ? report_one(&report, &edits.items[i], err) : 0;
    if (r == 0 && o->json)
        print_json(&report, &pick);
    else if (r == 0 && o->form == OPT_STAT && report.files > 0)
        diff_print_totals(report.files, report.added, report.removed);
    json_decref(report.json);
    return r;
}

static int parse(int argc, char **argv, struct diff_options *o, struct err *err)
{
    int option;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == '?')
            return err_invalid(err, "see 'agentfense diff --help'");
        if (option == 'h')
            o->wants_help = true;
        else if (option == OPT_JSON)
            o->json = true;
        else if (o->form && o->form != option)
            return err_invalid(err, "--stat, --name-only and --patch exclude each other; choose one");
        else
            o->form = option;
    }
    if (o->wants_help)
        return 0;
    if (optind == argc)
        return err_invalid(err, "say which sandbox; 'agentfense ls' lists them");
    if (o->form == OPT_PATCH && o->json)
        return err_invalid(err, "--patch and --json exclude each other; choose one");
    if (o->form == OPT_PATCH && isatty(STDOUT_FILENO))
        return err_invalid(err, "--patch writes bytes as they are, which no terminal should get; send it to a file or a pipe");
    o->name = argv[optind];
    o->paths = (const char *const *) argv + optind + 1;
    o->path_count = (size_t) (argc - optind - 1);
    return 0;
}

static int run(int argc, char **argv)
{
    struct diff_options o = { 0 };
    struct err err = ERR_NONE;
    int r = parse(argc, argv, &o, &err);

    if (r == 0 && o.wants_help)
        fputs(help, stdout);
    else if (r == 0)
        r = show(&o, &err);
    return r < 0 ? output_error("diff", &err) : EXIT_SUCCESS;
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "show what a sandbox changes",
    .run = run,
    .program = CLIENT_PROGRAM,
};
