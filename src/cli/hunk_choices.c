#include "cli/hunk_choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/chooser.h"
#include "cli/diff_reader.h"
#include "cli/output.h"

static void free_chosen_file(struct chosen_file *file)
{
    for (size_t i = 0; i < file->hunk_count; i++)
        free(file->hunk_ids[i]);
    free(file->hunk_ids);
    free(file->id);
    free(file->path);
    free(file->hash);
}

void hunk_choices_done(struct hunk_choices *choices)
{
    for (size_t i = 0; i < choices->count; i++)
        free_chosen_file(&choices->items[i]);
    free(choices->items);
    *choices = (struct hunk_choices){ 0 };
}

/* ---- asking ---- */

static void add_chosen_file(struct hunk_choices *choices, const Sandbox__V1__FileChange *file, const struct choice *choice)
{
    struct chosen_file *chosen;

    vec_room(&choices->items, &choices->cap, choices->count);
    chosen = &choices->items[choices->count++];
    *chosen = (struct chosen_file){
        .id = xdup(file->id),
        .path = xdup(file->path),
        .hash = xdup(file->hash),
        .hunk_ids = xalloc((file->n_hunks + 1) * sizeof(*chosen->hunk_ids)),
        .is_whole = choice->is_whole,
        .needs_acknowledgement = file->acknowledge != SANDBOX__V1__ACKNOWLEDGE_REASON__ACKNOWLEDGE_REASON_UNSPECIFIED,
    };
    for (size_t i = 0; i < choice->hunk_count; i++) {
        if (choice->hunks[i])
            chosen->hunk_ids[chosen->hunk_count++] = xdup(file->hunks[i]->id);
    }
}

static int ask_person(struct hunk_choices *choices, const struct file_list *files, struct err *err)
{
    autodone(choice_list) struct choice_list answers = { 0 };
    int r = chooser_run(files->items, files->count, &answers, err);

    for (size_t i = 0; r == 0 && i < answers.count; i++) {
        if (answers.items[i].chosen_count > 0)
            add_chosen_file(choices, files->items[i], &answers.items[i]);
    }
    return r;
}

int hunk_choices_ask(struct hunk_choices *choices, struct api_call *call, char *const *paths, size_t path_count,
                     struct err *err)
{
    autodone(file_list) struct file_list files = { 0 };
    int r = file_list_load(call, paths, path_count, SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FULL, &files, err);

    if (r == 0 && files.count == 0)
        return 1;
    return r < 0 ? r : ask_person(choices, &files, err);
}

/* Removes choices about files that have changed since the user saw them. `ret_again` gets those files that still have changes. */
static size_t remove_stale(struct hunk_choices *choices, const struct file_list *now, struct file_list *ret_again)
{
    size_t kept = 0, count = choices->count;

    ret_again->items = xalloc((count + 1) * sizeof(*ret_again->items));
    for (size_t i = 0; i < count; i++) {
        struct chosen_file *chosen = &choices->items[i];
        Sandbox__V1__FileChange *file = file_list_find(now, chosen->id);

        if (file && strcmp(file->hash, chosen->hash) == 0) {
            choices->items[kept++] = *chosen;
            continue;
        }
        fputs("  ", stderr);
        output_escaped(stderr, chosen->path);
        fputs(file ? " has changed since you saw it\n" : " has no changes any more\n", stderr);
        if (file)
            ret_again->items[ret_again->count++] = file;
        free_chosen_file(chosen);
    }
    choices->count = kept;
    return count - kept;
}

int hunk_choices_ask_again(struct hunk_choices *choices, struct api_call *call, struct err *err)
{
    autodone(file_list) struct file_list now = { 0 };
    struct file_list again = { 0 };
    int r = file_list_load(call, NULL, 0, SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FULL, &now, err);

    if (r == 0 && remove_stale(choices, &now, &again) == 0)
        r = 1;
    if (r == 0 && again.count > 0)
        r = ask_person(choices, &again, err);
    free(again.items); /* `now` owns the files */
    return r;
}

/* ---- the request ---- */

/* A yes to a change that was shown with a warning acknowledges the warning. */
void hunk_choices_fill(const struct hunk_choices *choices, const Sandbox__V1__ApproveRequest *base,
                       struct hunk_choices_request *ret)
{
    size_t room = choices->count + 1;
    Sandbox__V1__ApproveRequest *message = &ret->message;
    Sandbox__V1__Selection *selection = &ret->selection;

    *message = *base;
    sandbox__v1__selection__init(selection);
    ret->hunks = xalloc(room * sizeof(*ret->hunks));
    ret->hashes = xalloc(room * sizeof(*ret->hashes));
    for (size_t i = 0; i < ARRAY_LEN(ret->lists); i++)
        ret->lists[i] = xalloc(room * sizeof(*ret->lists[i]));
    message->selection = selection;
    selection->file_ids = (char **) ret->lists[0];
    selection->hunks = (Sandbox__V1__HunkSelection **) ret->lists[1];
    message->acknowledge_files = (char **) ret->lists[2];
    message->file_hashes = (Sandbox__V1__ApproveRequest__FileHashesEntry **) ret->lists[3];
    for (size_t i = 0; i < choices->count; i++) {
        const struct chosen_file *chosen = &choices->items[i];

        sandbox__v1__approve_request__file_hashes_entry__init(&ret->hashes[i]);
        ret->hashes[i].key = chosen->id;
        ret->hashes[i].value = chosen->hash;
        message->file_hashes[message->n_file_hashes++] = &ret->hashes[i];
        if (chosen->needs_acknowledgement)
            message->acknowledge_files[message->n_acknowledge_files++] = chosen->id;
        if (chosen->is_whole) {
            selection->file_ids[selection->n_file_ids++] = chosen->id;
            continue;
        }
        sandbox__v1__hunk_selection__init(&ret->hunks[i]);
        ret->hunks[i].file_id = chosen->id;
        ret->hunks[i].hunk_ids = chosen->hunk_ids;
        ret->hunks[i].n_hunk_ids = chosen->hunk_count;
        selection->hunks[selection->n_hunks++] = &ret->hunks[i];
    }
}

void hunk_choices_request_done(struct hunk_choices_request *request)
{
    for (size_t i = 0; i < ARRAY_LEN(request->lists); i++)
        free(request->lists[i]);
    free(request->hunks);
    free(request->hashes);
}
