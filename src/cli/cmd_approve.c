/* approve of a sandbox of 'agentfense run'; that of a workspace is in cmd_workspace_approve.c. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/local_chooser.h"
#include "cli/local_review.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/approve.h"

static const char help[] = APPROVE_HELP "  --last                 the sandbox of 'agentfense run' that was made last\n"
                                        "  --json                 JSON on standard output\n"
                                        "  -q, --quiet            print nothing but errors\n"
                                        "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                                        "  -h, --help             this text\n" APPROVE_EXIT_HELP;

enum { OPT_ACKNOWLEDGE = 1, OPT_NO_VERIFY, OPT_OVERRIDE, OPT_STOP };

static const struct option long_options[] = {
    { "patch", no_argument, NULL, 'p' },
    { "all", no_argument, NULL, 'a' },
    { "dry-run", no_argument, NULL, 'n' },
    { "force", no_argument, NULL, 'f' },
    { "acknowledge", no_argument, NULL, OPT_ACKNOWLEDGE },
    { "no-verify", no_argument, NULL, OPT_NO_VERIFY },
    { "override-acceptance", no_argument, NULL, OPT_OVERRIDE },
    { "stop", no_argument, NULL, OPT_STOP },
    { "commit", no_argument, NULL, 'c' },
    { "message", required_argument, NULL, 'm' },
    { "quiet", no_argument, NULL, 'q' },
    LOCAL_LAST_OPTION,
    LOCAL_LONG_OPTIONS,
};

#define EXIT_REFUSED 1

struct approve_words {
    bool asks, is_all, is_dry, is_forced, acknowledges, skips_hooks, is_quiet, is_of_workspace;
};

/* ---- what is said ---- */

static json_t *files_json(const struct approve *approve)
{
    json_t *all = json_array();

    for (size_t i = 0; i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        json_t *one;

        if (!edit_is_file(file->edit))
            continue;
        one = json_pack("{s:o, s:s, s:s}", "path", output_json_name(file->edit->path), "change",
                        change_kind_name(file->edit->kind), "outcome", approve_outcome_name(file->outcome));
        if (file->reason)
            json_object_set_new(one, "reason", json_string(file->reason));
        if (file->outcome == APPROVE_UNACKNOWLEDGED)
            json_object_set_new(one, "acknowledge", json_string(acknowledge_name(file->acknowledge)));
        json_array_append_new(all, one);
    }
    return all;
}

static void print_json(const struct pick *pick, const struct approve *approve, const struct approve_words *w, bool is_refused,
                       size_t remaining)
{
    output_json(json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:b, s:b, s:s}", "sandbox", pick->name, "directory",
                          output_json_name(pick->spec->base_path), "files", files_json(approve), "applied",
                          (json_int_t) (is_refused ? 0 : approve->taken_count), "conflicts",
                          (json_int_t) approve->conflict_count, "remaining", (json_int_t) remaining, "lacks_hooks",
                          approve->lacks_hooks, "dry_run", w->is_dry, "approval", approve->id));
}

static void print_text(const struct pick *pick, const struct approve *approve, const struct approve_words *w, size_t remaining)
{
    size_t files = 0;

    for (size_t i = 0; i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];

        files += edit_is_file(file->edit) && (file->outcome == APPROVE_WHOLE || file->outcome == APPROVE_PARTLY);
        if (file->outcome == APPROVE_PARTLY)
            printf("  %zu of %zu hunks: ", file->hunks_taken, file->hunk_count);
        else if (file->outcome == APPROVE_WHOLE && edit_is_file(file->edit))
            fputs(w->is_dry ? "  would apply: " : "  applied: ", stdout);
        else
            continue;
        output_escaped(stdout, file->edit->path);
        putchar('\n');
    }
    printf("%s %zu file%s to ", w->is_dry ? "would apply" : "applied", files, files == 1 ? "" : "s");
    output_escaped(stdout, pick->spec->base_path);
    if (remaining > 0)
        printf("; %zu file%s stay%s in the sandbox", remaining, remaining == 1 ? "" : "s", remaining == 1 ? "s" : "");
    putchar('\n');
    if (!w->is_dry && files > 0)
        printf("to take it back: agentfense undo %s, to be done with it: agentfense discard %s\n", pick->name, pick->name);
}

/* ---- the work ---- */

/* What stays in the sandbox; of a dry run, what would. */
static int count_left(const struct pick *pick, const struct approve *approve, bool would_write, size_t *ret, struct err *err)
{
    autodone(edit_list) struct edit_list rest = EDIT_LIST_EMPTY;
    int r = pick_load_edits(pick, NULL, 0, &rest, err);

    *ret = edit_list_files(&rest);
    for (size_t i = 0; would_write && *ret > 0 && i < approve->edits.count; i++)
        *ret -= edit_is_file(approve->files[i].edit) && approve->files[i].outcome == APPROVE_WHOLE;
    return r;
}

static int write_chosen(const struct pick *pick, const struct local_call *call, struct local_review *review, struct err *err)
{
    const struct approve_words *w = call->own;
    autodone(approve) struct approve approve = APPROVE_NONE;
    const struct local_review_words words = { .has_asked = w->asks,
                                              .acknowledges = w->acknowledges,
                                              .skips_hooks = w->skips_hooks };
    struct approve_options options = { .selection = &review->selection, .is_forced = w->is_forced, .is_dry = w->is_dry };
    size_t remaining = 0;
    int r = approve_run(pick->delta_path, local_review_decide(review, &words), &options, &approve, err);

    if (r >= 0 && count_left(pick, &approve, w->is_dry && r == 0, &remaining, err) < 0)
        r = -EIO;
    if (r < 0)
        return r;
    if (call->is_json)
        print_json(pick, &approve, w, r > 0, remaining);
    else if (r > 0)
        local_review_print_refused("approve", &approve);
    else if (!w->is_quiet)
        print_text(pick, &approve, w, remaining);
    return r > 0 ? EXIT_REFUSED : EXIT_SUCCESS;
}

static int say_nothing_to_do(const struct local_call *call)
{
    const struct approve_words *w = call->own;

    if (call->is_json)
        output_json(json_pack("{s:s, s:[], s:i, s:i, s:i}", "sandbox", call->words[0], "files", "applied", 0, "conflicts", 0,
                              "remaining", 0));
    else if (!w->is_quiet)
        puts(w->asks ? "nothing was chosen" : "nothing to approve");
    return 0;
}

static void on_interrupt(int number)
{
    static const char text[] = "\nagentfense approve: nothing was approved\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

    (void) ignored;
    signal(number, SIG_DFL);
    raise(number);
}

/* Until the last answer there is nothing to undo: Ctrl-C ends us as ever, with a word. */
static int ask(struct local_review *review, struct err *err)
{
    void (*before)(int) = signal(SIGINT, on_interrupt);
    int r = local_review_ask(review, err);

    signal(SIGINT, before);
    return r;
}

/* The sandbox is ours until the end. The project is not: of what was chosen hunk by hunk it must be as it was then. */
static int run_approve(const struct local_call *call, struct err *err)
{
    const struct approve_words *w = call->own;
    char **paths = call->words + 1;
    int path_count = call->word_count - 1;
    autodone(pick) struct pick pick = PICK_NONE;
    autodone(local_review) struct local_review review = LOCAL_REVIEW_NONE;
    autofd int lock = -1;
    int r = pick_open(call->words[0], &pick, err);

    if (r == 0)
        r = pick_lock(&pick, &lock, err);
    if (r < 0)
        return r;
    if (!pick.has_delta)
        return path_count ? err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox '%s' has no changes", pick.name)
                          : say_nothing_to_do(call);
    r = approve_recover(pick.delta_path, false, NULL, err);
    if (r == 0)
        r = local_review_load(&review, pick.delta_path, paths, path_count, err);
    if (r == 0 && w->asks)
        r = ask(&review, err);
    else if (r == 0)
        local_review_take_all(&review, path_count > 0);
    if (r < 0)
        return r;
    if (review.selection.file_count == 0 && (w->asks || review.count == 0))
        return say_nothing_to_do(call);
    return write_chosen(&pick, call, &review, err);
}

static int take(void *own, int option, struct err *err)
{
    struct approve_words *w = own;
    bool *flag = option == 'p'               ? &w->asks
                 : option == 'a'             ? &w->is_all
                 : option == 'n'             ? &w->is_dry
                 : option == 'f'             ? &w->is_forced
                 : option == OPT_ACKNOWLEDGE ? &w->acknowledges
                 : option == OPT_NO_VERIFY   ? &w->skips_hooks
                 : option == 'q'             ? &w->is_quiet
                                             : &w->is_of_workspace;

    (void) err;
    *flag = true;
    return 0;
}

static int check(const struct local_call *call, struct err *err)
{
    const struct approve_words *w = call->own;

    if (w->is_of_workspace)
        return err_invalid(err, "--commit, --message, --stop and --override-acceptance are for workspaces");
    if (w->is_all && (w->asks || call->word_count > 1))
        return err_invalid(err, "--all is all; leave it out to name paths, or to be asked");
    if (w->asks && call->is_json)
        return err_invalid(err, "-p asks a person; --json is for programs");
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "approve",
        .help = help,
        .letters = "panfcm:qh",
        .options = long_options,
        .words_min = 1,
        .words_max = -1,
        .wanted = "say which sandbox; 'agentfense ls' and 'agentfense ps -w' list them",
        .take = take,
        .check = check,
        .run = run_approve,
    };
    struct approve_words own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_approve = {
    .name = "approve",
    .summary = "write changes of a sandbox into its directory: all, files or hunks",
    .run = run,
    .program = CLIENT_PROGRAM,
};
