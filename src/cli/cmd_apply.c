#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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
                           "  --force                write in spite of conflicts\n"
                           "  --keep                 keep the sandbox\n"
                           "  --json                 JSON on standard output\n"
                           "  -h, --help             this text\n"
                           "\n"
                           "Exits with 1 when there are conflicts.\n";

enum {
    OPT_FORCE = 1,
    OPT_KEEP,
    OPT_JSON,
};

static const struct option long_options[] = {
    { "force", no_argument, NULL, OPT_FORCE },
    { "keep", no_argument, NULL, OPT_KEEP },
    { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

#define EXIT_CONFLICTS 1

struct apply_words {
    const char *name;
    const char *const *paths; /* borrowed from argv */
    size_t path_count;
    bool is_forced;
    bool keep;
    bool json;
    bool wants_help;
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

static void print_json(const struct pick *pick, const struct approve *approve, const struct outcome *outcome)
{
    json_t *conflicts = json_array(), *unseen = json_array();

    for (size_t i = 0; i < approve->edits.count && approve->conflict_count > 0; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome == APPROVE_CONFLICT)
            json_array_append_new(conflicts,
                                  json_pack("{s:o, s:s}", "path", output_json_name(file->edit->path), "reason", file->reason));
    }
    for (size_t i = 0; i < approve->edits.unseen_count; i++)
        json_array_append_new(unseen, output_json_name(approve->edits.unseen[i]));
    output_json(json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:b}", "sandbox", pick->name, "directory",
                          output_json_name(pick->spec->base_path), "applied",
                          approve->conflict_count ? json_array() : edits_json(&approve->edits), "conflicts", conflicts,
                          "unseen", unseen, "remaining", (json_int_t) outcome->remaining, "removed", outcome->is_removed));
}

static void print_conflicts(const struct approve *approve)
{
    fprintf(stderr, "agentfense apply: %zu conflict%s, nothing was written; --force writes in spite of %s\n",
            approve->conflict_count, approve->conflict_count == 1 ? "" : "s", approve->conflict_count == 1 ? "it" : "them");
    for (size_t i = 0; i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome != APPROVE_CONFLICT)
            continue;
        fputs("  ", stderr);
        output_escaped(stderr, file->edit->path);
        fprintf(stderr, ": %s\n", file->reason);
    }
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

static int refuse_running(const struct pick *pick, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "sandbox '%s' is running; stop it first", pick->name);
}

static int approve_chosen(const struct pick *pick, const struct apply_words *w, struct approve *approve, struct err *err)
{
    autofree struct selection_file *files = xalloc((w->path_count + 1) * sizeof(*files));
    struct selection selection = { files, w->path_count };
    struct approve_options options = { .selection = &selection, .is_forced = w->is_forced };

    for (size_t i = 0; i < w->path_count; i++)
        files[i].path = w->paths[i];
    return approve_run(pick->delta_path, &options, approve, err);
}

static int apply_locked(const struct pick *pick, const struct apply_words *w, struct approve *approve, struct outcome *outcome,
                        struct err *err)
{
    autodone(edit_list) struct edit_list rest = EDIT_LIST_EMPTY;
    autofd int lock = -1;
    int r = home_lock(pick->dir_fd, &lock);

    if (r < 0)
        return r == -EBUSY ? refuse_running(pick, err) : err_errno(err, r, "locking sandbox '%s'", pick->name);
    if (!pick->has_delta && w->path_count > 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox '%s' has no changes", pick->name);
    outcome->is_complete = !pick->has_delta;
    if (!pick->has_delta)
        return 0;
    r = approve_chosen(pick, w, approve, err);
    if (r != 0)
        return r;
    r = pick_load_edits(pick, NULL, 0, &rest, err);
    outcome->is_complete = r == 0 && rest.count == 0;
    outcome->remaining = edit_list_files(&rest);
    return r;
}

static int apply_to_base(const struct apply_words *w, struct err *err)
{
    autodone(pick) struct pick pick = PICK_NONE;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct outcome outcome = { 0 };
    int r = pick_open(w->name, &pick, err);

    if (r == 0)
        r = apply_locked(&pick, w, &approve, &outcome, err);
    /* What is left below .git, and FIFOs, go with the sandbox. */
    if (r == 0 && !w->keep && outcome.is_complete) {
        r = home_remove(&pick.home, pick.name, err);
        outcome.is_removed = r == 0;
    }
    if (r < 0)
        return r;
    if (w->json)
        print_json(&pick, &approve, &outcome);
    else if (r > 0)
        print_conflicts(&approve);
    else
        print_text(&pick, &approve, &outcome);
    return r;
}

static int parse(int argc, char **argv, struct apply_words *w, struct err *err)
{
    int option;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == OPT_FORCE)
            w->is_forced = true;
        else if (option == OPT_KEEP)
            w->keep = true;
        else if (option == OPT_JSON)
            w->json = true;
        else if (option == 'h')
            w->wants_help = true;
        else
            return err_invalid(err, "see 'agentfense apply --help'");
    }
    if (w->wants_help)
        return 0;
    if (optind == argc)
        return err_invalid(err, "say which sandbox; 'agentfense ls' lists them");
    w->name = argv[optind];
    w->paths = (const char *const *) argv + optind + 1;
    w->path_count = (size_t) (argc - optind - 1);
    return 0;
}

static int run(int argc, char **argv)
{
    struct apply_words w = { 0 };
    struct err err = ERR_NONE;
    int r = parse(argc, argv, &w, &err);

    if (r == 0 && w.wants_help)
        fputs(help, stdout);
    else if (r == 0)
        r = apply_to_base(&w, &err);
    if (r < 0)
        return output_error("apply", &err);
    return r > 0 ? EXIT_CONFLICTS : EXIT_SUCCESS;
}

const struct verb verb_apply = {
    .name = "apply",
    .summary = "write what a sandbox changes into the directory it was made over",
    .run = run,
};
