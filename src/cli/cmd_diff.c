#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/standard_output.h"
#include "base/utf8.h"
#include "cli/diff_print.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/diff.h"

static const char help[] = DIFF_HELP "  --last                 the sandbox of 'agentfense run' that was made last\n"
                                     "  --json                 JSON on standard output\n"
                                     "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                                     "  -h, --help             this text\n";

enum {
    OPT_STAT = 1,
    OPT_NAME_ONLY,
    OPT_PATCH,
};

static const struct option long_options[] = {
    { "stat", no_argument, NULL, OPT_STAT },
    { "name-only", no_argument, NULL, OPT_NAME_ONLY },
    { "patch", no_argument, NULL, OPT_PATCH },
    LOCAL_LAST_OPTION,
    LOCAL_LONG_OPTIONS,
};

struct diff_options {
    int form; /* 0, OPT_STAT, OPT_NAME_ONLY or OPT_PATCH */
};

/* The printing of one sandbox's changes. */
struct report {
    const struct edit_list *edits;
    int form;
    bool is_json;
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

    if (report->form == OPT_NAME_ONLY)
        return json;
    json_object_set_new(json, "added", json_integer((json_int_t) diff->added));
    json_object_set_new(json, "removed", json_integer((json_int_t) diff->removed));
    json_object_set_new(json, "binary", json_boolean(diff->is_binary));
    json_object_set_new(json, "too_large", json_boolean(diff->is_too_large));
    if (diff->state == RECONCILE_MERGES)
        json_object_set_new(json, "merged", json_true());
    if (diff->state == RECONCILE_CONFLICT)
        json_object_set_new(json, "conflict", json_string(diff->reason));
    if (report->form != OPT_STAT)
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
    autodone(diff) struct diff diff = DIFF_NONE;
    int r = 0;

    if (report->is_json && report->form != OPT_NAME_ONLY)
        r = make_for_json(report, edit, &diff, err);
    else if (report->form != OPT_NAME_ONLY)
        r = diff_make(report->edits, edit, report->form == OPT_PATCH, &diff, err);
    if (r < 0)
        return r;
    report->files++;
    report->added += diff.added;
    report->removed += diff.removed;
    if (report->is_json) {
        json_array_append_new(report->json, edit_json(report, edit, &diff));
    } else if (report->form == OPT_NAME_ONLY) {
        output_escaped(stdout, edit->path);
        putchar('\n');
    } else if (report->form == OPT_STAT) {
        print_stat(report, edit, &diff);
    } else {
        diff_print_text(&(struct diff_print){ .is_coloured = report->is_coloured && report->form != OPT_PATCH },
                        diff.text.data ? diff.text.data : "", diff.text.len);
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

static int run_diff(const struct local_call *call, struct err *err)
{
    const struct diff_options *o = call->own;
    autodone(pick) struct pick pick = PICK_NONE;
    autodone(edit_list) struct edit_list edits = EDIT_LIST_EMPTY;
    struct report report = {
        .edits = &edits, .form = o->form, .is_json = call->is_json, .is_coloured = output_is_coloured(stdout)
    };
    int r = pick_open(call->words[0], &pick, err);

    if (r == 0)
        pick_settle(&pick);
    if (r == 0)
        r = pick_load_edits(&pick, (const char *const *) call->words + 1, (size_t) call->word_count - 1, &edits, err);
    if (r < 0)
        return r;
    if (edits.unmatched) { /* no failure, as with git; but perhaps a slip */
        fputs("agentfense diff: '", stderr);
        output_escaped(stderr, edits.unmatched);
        fputs("' has no changes\n", stderr);
    }
    if (edits.deep_count > 0)
        fprintf(stderr, "agentfense diff: %zu director%s nested too deep to be shown, and never approved\n", edits.deep_count,
                edits.deep_count == 1 ? "y is" : "ies are");
    report.json = json_array();
    report.name_width = name_width(&edits);
    for (size_t i = 0; i < edits.count && r == 0; i++) {
        r = edit_is_file(&edits.items[i]) ? report_one(&report, &edits.items[i], err) : 0;
        if (r == 0 && ferror(stdout)) /* nobody reads the rest */
            r = output_refused(standard_output_flush(), "writing the changes", err);
    }
    if (r == 0 && call->is_json)
        print_json(&report, &pick);
    else if (r == 0 && o->form == OPT_STAT && report.files > 0)
        diff_print_totals(report.files, report.added, report.removed);
    json_decref(report.json);
    return r;
}

static int take(void *own, int option, struct err *err)
{
    struct diff_options *o = own;

    if (o->form && o->form != option)
        return err_invalid(err, "--stat, --name-only and --patch exclude each other; choose one");
    o->form = option;
    return 0;
}

static int check(const struct local_call *call, struct err *err)
{
    const struct diff_options *o = call->own;

    if (o->form == OPT_PATCH && call->is_json)
        return err_invalid(err, "--patch and --json exclude each other; choose one");
    if (o->form == OPT_PATCH && isatty(STDOUT_FILENO))
        return err_invalid(err, "--patch writes bytes as they are, which no terminal should get; send it to a file or a pipe");
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "diff",
        .help = help,
        .letters = "h",
        .options = long_options,
        .words_min = 1,
        .words_max = -1,
        .wanted = LOCAL_SANDBOX_WANTED,
        .take = take,
        .check = check,
        .run = run_diff,
    };
    struct diff_options own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "show what a sandbox changes",
    .run = run,
    .program = CLIENT_PROGRAM,
};
