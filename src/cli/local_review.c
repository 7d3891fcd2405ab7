#include "cli/local_review.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/local_chooser.h"
#include "cli/output.h"
#include "review/diff_text.h"
#include "review/file_diff.h"

void local_review_done(struct local_review *review)
{
    for (size_t i = 0; review->chosen && i < review->selection.file_count; i++)
        free((void *) (uintptr_t) review->chosen[i].hunk_ids);
    free(review->chosen);
    free(review->acknowledged);
    free(review->expected);
    free(review->texts);
    free(review->places);
    json_decref(review->files);
    change_set_done(&review->set);
    *review = LOCAL_REVIEW_NONE;
}

static bool has_place(const struct local_review *review, size_t place)
{
    for (size_t i = 0; i < review->count; i++)
        if (review->places[i] == place)
            return true;
    return false;
}

static int add_path(struct local_review *review, const char *path, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct change_set_query query = { .with_directories = true };
    autofree size_t *found = NULL;
    size_t count = 0, total = 0;

    if (path) {
        if (path_clean(path, strlen(path), &clean) < 0)
            return err_reject(err, -EINVAL, path, "is no path");
        query.path = clean.data[1] ? clean.data + 1 : NULL;
    }
    found = change_set_page(&review->set, &query, &count, &total);
    if (path && count == 0) {
        err_reject(err, -ENOENT, path, "has no changes");
        err->code = ERR_NOT_FOUND;
        return -ENOENT;
    }
    for (size_t i = 0; i < count; i++) {
        if (has_place(review, found[i]))
            continue;
        vec_room(&review->places, &review->cap, review->count);
        review->places[review->count++] = found[i];
    }
    return 0;
}

int local_review_load(struct local_review *review, const char *delta_path, char **paths, int path_count, struct err *err)
{
    struct change_set_options options = { .without_renames = true };
    int r = change_set_load(delta_path, &options, &review->set, err);

    if (r == 0 && path_count == 0)
        r = add_path(review, NULL, err);
    for (int i = 0; r == 0 && i < path_count; i++)
        r = add_path(review, paths[i], err);
    return r;
}

void local_review_take_all(struct local_review *review, bool by_name)
{
    if (!by_name)
        return; /* a selection of nothing is all */
    review->chosen = xalloc((review->count + 1) * sizeof(*review->chosen));
    for (size_t i = 0; i < review->count; i++)
        review->chosen[i].path = review->set.items[review->places[i]].scope_path;
    review->selection = (struct selection){ review->chosen, review->count };
}

/* ---- as JSON ---- */

static json_t *safe_text(const char *bytes, size_t len)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, bytes, len);
    return json_stringn(safe.data ? safe.data : "", safe.len);
}

static json_t *lines_json(const struct buf *lines)
{
    json_t *list = json_array();

    for (size_t at = 0; at < lines->len;) {
        const char *line = lines->data + at, *end = memchr(line, '\n', lines->len - at);
        size_t len = end ? (size_t) (end - line) : lines->len - at;

        json_array_append_new(list, safe_text(line, len));
        at += len + (end != NULL);
    }
    return list;
}

static void set_mode(json_t *object, const char *key, mode_t mode)
{
    char text[16];

    snprintf(text, sizeof(text), "%06o", (unsigned) mode);
    if (mode)
        json_object_set_new(object, key, json_string(text));
}

static json_t *change_json(const struct file_change *change, const struct file_diff *diff)
{
    json_t *hunks = json_array(), *one;

    for (size_t i = 0; i < diff->hunks.count; i++)
        json_array_append_new(hunks, json_pack("{s:s, s:s, s:o}", "id", diff->hunks.items[i].id, "header",
                                               diff->hunks.items[i].header, "lines", lines_json(&diff->hunks.items[i].lines)));
    one = json_pack("{s:o, s:s, s:b, s:I, s:o}", "projectPath", output_json_name(change->path), "changeType",
                    change->is_dir ? "directory" : file_change_kind_name(change->kind), "binary", change->is_binary, "fileSize",
                    (json_int_t) change->new_bytes, "hunks", hunks);
    set_mode(one, "oldMode", change->old_mode);
    set_mode(one, "newMode", change->new_mode);
    if (change->new_target)
        json_object_set_new(one, "symlinkTarget", safe_text(change->new_target, strlen(change->new_target)));
    if (change->is_whole_only)
        json_object_set_new(one, "wholeOnly", json_true());
    if (change->state == RECONCILE_CONFLICT)
        json_object_set_new(one, "conflict", json_string(change->reason));
    if (change->acknowledge != ACKNOWLEDGE_NOTHING)
        json_object_set_new(one, "acknowledge", json_pack("{s:s}", "text", acknowledge_text(change->acknowledge)));
    return one;
}

static int show(struct local_review *review, struct err *err)
{
    review->files = json_array();
    for (size_t i = 0; i < review->count; i++) {
        struct file_change *change = &review->set.items[review->places[i]];
        autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
        int r = file_diff_make(&review->set, change, &diff, err);

        if (r < 0)
            return r;
        if (change->failure)
            return err_errno(err, change->failure, "reading what changed");
        json_array_append_new(review->files, change_json(change, &diff));
    }
    return 0;
}

/* ---- asking ---- */

static const char **chosen_ids(const json_t *file, const struct choice *choice, size_t *ret_count)
{
    const char **ids = xalloc((choice->hunk_count + 1) * sizeof(*ids));
    const json_t *hunk;
    size_t i;

    json_array_foreach(json_object_get(file, "hunks"), i, hunk)
    {
        if (choice->hunks[i])
            ids[(*ret_count)++] = json_string_value(json_object_get(hunk, "id"));
    }
    return ids;
}

/* A directory that is selected means all in it: so it is only with all that was asked about. A file brings the directories that it needs. */
static bool is_taken(const struct local_review *review, const struct choice_list *choices, size_t i)
{
    const struct file_change *change = &review->set.items[review->places[i]];
    size_t len = strlen(change->scope_path);

    for (size_t k = 0; change->is_dir && choices->items[i].taken > 0 && k < choices->count; k++) {
        const char *path = review->set.items[review->places[k]].scope_path;
        if (strncmp(path, change->scope_path, len) == 0 && path[len] == '/' && !choices->items[k].is_whole)
            return false;
    }
    return choices->items[i].taken > 0;
}

int local_review_ask(struct local_review *review, struct err *err)
{
    autodone(choice_list) struct choice_list choices = { 0 };
    size_t count = 0;
    int r = show(review, err);

    if (r == 0)
        r = chooser_run(review->files, read, &choices, err);
    if (r < 0)
        return r;
    review->chosen = xalloc((choices.count + 1) * sizeof(*review->chosen));
    for (size_t i = 0; i < choices.count; i++) {
        const struct choice *choice = &choices.items[i];
        struct selection_file *file = &review->chosen[count];

        if (!is_taken(review, &choices, i))
            continue;
        file->path = review->set.items[review->places[i]].scope_path;
        if (!choice->is_whole)
            file->hunk_ids = chosen_ids(json_array_get(review->files, i), choice, &file->hunk_id_count);
        count++;
    }
    review->selection = (struct selection){ review->chosen, count };
    return 0;
}

/* ---- the decision ---- */

/* What was answered with a yes was shown, with its warning if it has one. */
static void add_answers(struct local_review *review)
{
    size_t count = review->selection.file_count;

    review->acknowledged = xalloc((count + 1) * sizeof(*review->acknowledged));
    review->expected = xalloc((count + 1) * sizeof(*review->expected));
    review->texts = xalloc((count + 1) * sizeof(*review->texts));
    for (size_t i = 0; i < count; i++) {
        const struct selection_file *file = &review->chosen[i];
        const struct file_change *change = change_set_find_scoped(&review->set, file->path);
        struct local_review_text *text = &review->texts[i];

        review->acknowledged[review->decision.acknowledged_count++] = file->path;
        if (change->is_dir || !change->is_hashed)
            continue;
        change_hash_text(change->hash, text->hash);
        drift_text(&change->drift, text->drift);
        review->expected[review->shown.count++] =
            (struct expectation){ file->path, text->hash, file->hunk_id_count > 0 ? text->drift : NULL };
    }
    expectation_sort(review->expected, review->shown.count);
    review->shown.items = review->expected;
    review->shown.is_complete = true;
    review->decision.acknowledged = review->acknowledged;
}

const struct decision *local_review_decide(struct local_review *review, const struct local_review_words *words)
{
    static const struct acceptance anything = { 0 };

    review->decision = (struct decision){ .acceptance = &anything,
                                          .acknowledges_all = words->acknowledges,
                                          .shown = &review->shown,
                                          .hooks = words->skips_hooks ? DECISION_HOOKS_WAIVED : DECISION_HOOKS_UNTRIED };
    review->shown = EXPECTATION_ANYTHING;
    if (words->has_asked)
        add_answers(review);
    return &review->decision;
}

/* ---- refusals ---- */

static void print_heading(const char *verb, const struct approve *approve)
{
    size_t count = approve->conflict_count;

    fprintf(stderr, "agentfense %s: ", verb);
    if (approve->unacknowledged_count > 0)
        fputs("nothing was written; look at these, and say --acknowledge:\n", stderr);
    else if (count > 0)
        fprintf(stderr, "%zu conflict%s, nothing was written; --force writes in spite of %s\n", count, count == 1 ? "" : "s",
                count == 1 ? "it" : "them");
    else if (approve->stale_count + approve->unshown_count > 0)
        fputs("nothing was written; look at it again\n", stderr);
    else
        fputs("nothing was written; the project has hooks (" DECISION_HOOKS_FILE
              "), and for a sandbox of 'agentfense run' they "
              "are not run: run them yourself, and say --no-verify\n",
              stderr);
}

void local_review_print_refused(const char *verb, const struct approve *approve)
{
    print_heading(verb, approve);
    for (size_t i = 0; i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome < APPROVE_CONFLICT)
            continue;
        fputs("  ", stderr);
        output_escaped(stderr, file->edit->path);
        fprintf(stderr, ": %s\n", file->outcome == APPROVE_UNACKNOWLEDGED ? acknowledge_text(file->acknowledge) : file->reason);
    }
}
