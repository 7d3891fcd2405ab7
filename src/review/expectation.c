#include "review/expectation.h"

#include <string.h>

#include "review/file_diff.h"

static const struct expectation *find(const struct expectation_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].path, path) == 0)
            return &list->items[i];
    }
    return NULL;
}

static bool stands(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, const char *expected)
{
    struct standing standing = STANDING_STILL;
    char text[CHANGE_HASH_TEXT_MAX];

    standing_of_image(list, edit, &re->project, &standing);
    standing_text(&standing, text);
    return strcmp(text, expected) == 0;
}

int expectation_check(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, void *cookie,
                      struct err *err)
{
    const struct expectation_list *expected = cookie;
    const struct expectation *item = find(expected, edit->path);
    const struct change_set set = { .edits = *list };
    struct file_change change = { .edit = edit, .path = edit->path };
    char text[CHANGE_HASH_TEXT_MAX];
    int r;

    if (!edit_is_file(edit) || (!item && !expected->is_complete))
        return 1;
    if (!item || (item->standing && !stands(list, edit, re, item->standing)))
        return 0;
    r = file_diff_hash(&set, &change, err);
    if (r < 0)
        return r;
    if (!change.is_hashed)
        return 0;
    change_hash_text(change.hash, text);
    return strcmp(text, item->hash) == 0;
}
