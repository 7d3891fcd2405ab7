#include "review/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path_set.h"
#include "review/apply_txn.h"

static bool is_about_hunks(const struct selection_file *file)
{
    return file->hunk_id_count > 0 || file->range_count > 0;
}

const struct selection_file *selection_hunks_of(const struct selection *selection, const struct edit *edit)
{
    const struct selection_file *file = edit->chosen_at ? &selection->files[edit->chosen_at - 1] : NULL;

    return file && is_about_hunks(file) ? file : NULL;
}

/* A path cannot be chosen by hunks and also as a whole, or by a directory above it. */
static int check_entries(const struct selection *selection, const struct edit_list *list, struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    for (size_t i = 0; i < selection->file_count; i++) {
        const char *given = selection->files[i].path;
        if (!is_about_hunks(&selection->files[i]))
            continue;
        int r = edit_list_clean(list, given, &path, err);
        if (r < 0)
            return r;
        if (path_set_at(&list->chosen, path.data)->count == 1 && !path_set_above(&list->chosen, path.data))
            continue;
        autofree char *shown = apply_txn_quote(given);
        return err_invalid(err, "%s is named twice, as a whole and by hunks", shown);
    }
    return 0;
}

/* Hunks need a file before and after, or a file on one side and nothing on the other. */
static int check_hunks(const struct selection *selection, const struct edit_list *list, struct err *err)
{
    autofree bool *has_hunks = xalloc(selection->file_count + 1);

    for (size_t i = 0; i < list->count; i++) {
        const struct edit *edit = &list->items[i];
        if (edit->chosen_at && (!edit->now || S_ISREG(edit->now)) && (!edit->was.st_mode || S_ISREG(edit->was.st_mode)))
            has_hunks[edit->chosen_at - 1] = true;
    }
    for (size_t i = 0; i < selection->file_count; i++) {
        const struct selection_file *file = &selection->files[i];
        if (has_hunks[i] || !is_about_hunks(file))
            continue;
        autofree char *shown = apply_txn_quote(file->path);
        return err_invalid(err, "%s is no file that has hunks", shown);
    }
    return 0;
}

int selection_load(const struct selection *selection, const char *delta_path, struct edit_list *ret, struct err *err)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    autofree const char **paths = xalloc((selection->file_count + 1) * sizeof(*paths));

    for (size_t i = 0; i < selection->file_count; i++)
        paths[i] = selection->files[i].path;
    int r = edit_list_load(delta_path, paths, selection->file_count, &list, err);
    if (r == 0)
        r = check_entries(selection, &list, err);
    if (r < 0)
        return r;
    if (list.unmatched) {
        autofree char *shown = apply_txn_quote(list.unmatched);
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "%s has no changes", shown);
    }
    r = check_hunks(selection, &list, err);
    if (r < 0)
        return r;
    *ret = list;
    list = EDIT_LIST_EMPTY;
    return 0;
}

static int choose_ids(const struct selection_file *file, const struct hunk_list *hunks, bool *chosen, struct err *err)
{
    for (size_t i = 0; i < file->hunk_id_count; i++) {
        const struct hunk *hunk = hunk_list_find(hunks, file->hunk_ids[i]);
        if (!hunk) {
            autofree char *shown = apply_txn_quote(file->path), *id = apply_txn_quote(file->hunk_ids[i]);
            err_set(err, ERR_ABORTED, -ESTALE, "%s has no hunk %s; look at it again", shown, id);
            return err_set_reason(err, -ESTALE, "HUNK_UNKNOWN");
        }
        chosen[hunk - hunks->items] = true;
    }
    return 0;
}

int selection_choose(const struct selection_file *file, const struct hunk_list *hunks, bool *chosen, struct err *err)
{
    int count = 0, r = choose_ids(file, hunks, chosen, err);

    for (size_t i = 0; i < hunks->count && r == 0; i++) {
        uint32_t line = hunks->items[i].new_start;
        for (size_t k = 0; k < file->range_count; k++)
            chosen[i] |= line >= file->ranges[k].first && line <= file->ranges[k].last;
        count += chosen[i];
    }
    return r < 0 ? r : count;
}
