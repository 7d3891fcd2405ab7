#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/local_review.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "review/approve.h"

static const char help[] = "usage: agentfense apply NAME [PATH...] [options]\n"
                           "\n"
                           "Writes what a sandbox changes into the directory it was made over: all of it, or what is at and "
                           "below each PATH. A file that\n"
                           "has changed there since the agent worked from it is a conflict, and then nothing is written. When "
                           "all changes are applied\n"
                           "the sandbox is removed. `.git` is never written.\n"
                           "\n"
                           "  --acknowledge          also what runs later by itself: hooks, CI, editor tasks, links that lead "
                           "out\n"
                           "  --no-verify            although the project has hooks, which are not run for such a sandbox\n"
                           "  --force                write in spite of conflicts\n"
                           "  --keep                 keep the sandbox\n"
                           "  --last                 the sandbox of 'agentfense run' that was made last\n"
                           "  --json                 JSON on standard output\n"
                           "  -h, --help             this text\n"
                           "\n"
                           "Exits with 1 when nothing was written because of conflicts, of changes that nobody has "
                           "acknowledged, or of hooks.\n";

enum {
    OPT_FORCE = 1,
    OPT_KEEP,
    OPT_ACKNOWLEDGE,
    OPT_NO_VERIFY,
};

static const struct option long_options[] = {
    { "force", no_argument, NULL, OPT_FORCE },
    { "keep", no_argument, NULL, OPT_KEEP },
    { "acknowledge", no_argument, NULL, OPT_ACKNOWLEDGE },
    { "no-verify", no_argument, NULL, OPT_NO_VERIFY },
    LOCAL_LAST_OPTION,
    LOCAL_LONG_OPTIONS,
};

#define EXIT_REFUSED 1

struct apply_options {
    bool is_forced, keep, acknowledges, skips_hooks;
};

/* What became of the sandbox. */
struct outcome {
    bool is_complete; /* nothing is left to apply */
    bool is_removed;
    size_t remaining; /* files whose changes were not chosen */
};

static size_t count_kind(const struct edit_list *edits, enum change_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < edits->count; i++)
        count += edits->items[i].kind == kind && edit_is_file(&edits->items[i]);
    return count;
}

/* ---- what is said ---- */

static json_t *edits_json(const struct edit_list *edits)
{
    json_t *all = json_array();

    for (size_t i = 0; i < edits->count; i++) {
        const struct edit *edit = &edits->items[i];
        if (edit_is_file(edit))
            json_array_append_new(
                all, json_pack("{s:s, s:o}", "change", change_kind_name(edit->kind), "path", output_json_name(edit->path)));
    }
    return all;
}

static void print_json(const struct pick *pick, const struct approve *approve, const struct outcome *outcome, bool is_refused)
{
    json_t *conflicts = json_array(), *unacknowledged = json_array(), *unseen = json_array();

    for (size_t i = 0; is_refused && i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome == APPROVE_CONFLICT)
            json_array_append_new(conflicts,
                                  json_pack("{s:o, s:s}", "path", output_json_name(file->edit->path), "reason", file->reason));
        else if (file->outcome == APPROVE_UNACKNOWLEDGED)
            json_array_append_new(unacknowledged, json_pack("{s:o, s:s}", "path", output_json_name(file->edit->path), "reason",
                                                            acknowledge_name(file->acknowledge)));
    }
    for (size_t i = 0; i < approve->edits.unseen_count; i++)
        json_array_append_new(unseen, output_json_name(approve->edits.unseen[i]));
    output_json(json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:I, s:b}", "sandbox", pick->name, "directory",
                          output_json_name(pick->spec->base_path), "applied",
                          is_refused ? json_array() : edits_json(&approve->edits), "conflicts", conflicts, "unacknowledged",
                          unacknowledged, "lacks_hooks", approve->lacks_hooks, "unseen", unseen, "remaining",
                          (json_int_t) outcome->remaining, "removed", outcome->is_removed));
}

static void print_left(const struct edit_list *edits)
{
    for (size_t i = 0; i < edits->unseen_count; i++) {
        fputs("left as it is, since the agent never saw it: ", stdout);
        output_escaped(stdout, edits->unseen[i]);
        putchar('\n');
    }
    if (edits->git_count > 0)
        puts("changes below .git were not applied");
    if (edits->special_count > 0)
        printf("%zu FIFOs or sockets were not applied\n", edits->special_count);
    if (edits->deep_count > 0)
        printf("%zu directories nested too deep were not applied\n", edits->deep_count);
}

static void print_text(const struct pick *pick, const struct approve *approve, const struct outcome *outcome)
{
    static const char *const words[] = { "added", "modified", "with another mode", "deleted" };
    const struct edit_list *edits = &approve->edits;
    size_t files = edit_list_files(edits);
    const char *separator = " (";

    if (edits->count == 0)
        printf("nothing to apply to ");
    else
        printf("applied %zu file%s to ", files, files == 1 ? "" : "s");
    output_escaped(stdout, pick->spec->base_path);
    for (int kind = CHANGE_ADDED; kind <= CHANGE_DELETED; kind++) {
        size_t count = count_kind(edits, (enum change_kind) kind);
        if (count == 0)
            continue;
        printf("%s%zu %s", separator, count, words[kind]);
        separator = ", ";
    }
    puts(*separator == ',' ? ")" : "");
    print_left(edits);
    if (outcome->is_removed)
        printf("removed sandbox %s\n", pick->name);
    else if (outcome->remaining > 0)
        printf("kept sandbox %s, with changes to %zu other file%s\n", pick->name, outcome->remaining,
               outcome->remaining == 1 ? "" : "s");
    else
        printf("kept sandbox %s\n", pick->name);
}

/* ---- the work ---- */

static int approve_chosen(const struct pick *pick, const struct local_call *call, struct approve *approve, struct err *err)
{
    const struct apply_options *o = call->own;
    size_t count = (size_t) call->word_count - 1;
    autofree struct selection_file *files = xalloc((count + 1) * sizeof(*files));
    struct selection selection = { files, count };
    struct approve_options options = { .selection = &selection, .is_forced = o->is_forced };
    struct local_review review = LOCAL_REVIEW_NONE;
    const struct local_review_words words = { .acknowledges = o->acknowledges, .skips_hooks = o->skips_hooks };

    for (size_t i = 0; i < count; i++)
        files[i].path = call->words[1 + i];
    return approve_run(pick->delta_path, local_review_decide(&review, &words), &options, approve, err);
}

static int apply_locked(const struct pick *pick, const struct local_call *call, struct approve *approve,
                        struct outcome *outcome, struct err *err)
{
    autodone(edit_list) struct edit_list rest = EDIT_LIST_EMPTY;
    autofd int lock = -1;
    int r = pick_lock(pick, &lock, err);

    if (r < 0)
        return r;
    if (!pick->has_delta && call->word_count > 1)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox '%s' has no changes", pick->name);
    outcome->is_complete = !pick->has_delta;
    if (!pick->has_delta)
        return 0;
    r = approve_chosen(pick, call, approve, err);
    if (r != 0)
        return r;
    r = pick_load_edits(pick, NULL, 0, &rest, err);
    outcome->is_complete = r == 0 && rest.count == 0;
    outcome->remaining = edit_list_files(&rest);
    return r;
}

static int run_apply(const struct local_call *call, struct err *err)
{
    const struct apply_options *o = call->own;
    autodone(pick) struct pick pick = PICK_NONE;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct outcome outcome = { 0 };
    int r = pick_open(call->words[0], &pick, err);

    if (r == 0)
        r = apply_locked(&pick, call, &approve, &outcome, err);
    /* What is left below .git, and FIFOs, go with the sandbox. */
    if (r == 0 && !o->keep && outcome.is_complete) {
        r = state_dir_remove(&pick.state_dir, pick.id, err);
        outcome.is_removed = r == 0;
    }
    if (r < 0)
        return r;
    if (call->is_json)
        print_json(&pick, &approve, &outcome, r > 0);
    else if (r > 0)
        local_review_print_refused("apply", &approve);
    else
        print_text(&pick, &approve, &outcome);
    return r > 0 ? EXIT_REFUSED : EXIT_SUCCESS;
}

static int take(void *own, int option, struct err *err)
{
    struct apply_options *o = own;

    (void) err;
    *(option == OPT_FORCE         ? &o->is_forced
      : option == OPT_ACKNOWLEDGE ? &o->acknowledges
      : option == OPT_NO_VERIFY   ? &o->skips_hooks
                                  : &o->keep) = true;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "apply",
        .help = help,
        .letters = "h",
        .options = long_options,
        .words_min = 1,
        .words_max = -1,
        .wanted = LOCAL_SANDBOX_WANTED,
        .take = take,
        .run = run_apply,
    };
    struct apply_options own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_apply = {
    .name = "apply",
    .summary = "write what a sandbox changes into the directory it was made over",
    .run = run,
    .program = CLIENT_PROGRAM,
};
