#include "review/discard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "fence/whiteout.h"
#include "review/apply_txn.h"

struct discard_planner {
    const char *delta_path;
    struct discard *out;
    struct path_set dropped; /* the same as out's `drops` */
};

/* The path itself or a directory above it is chosen; a chosen path in it does not count. */
static bool is_path_chosen(const struct discard_planner *plan, const char *path)
{
    const struct path_set *chosen = &plan->out->edits.chosen;
    autofree char *absolute = xprintf("/%s", path);

    return chosen->count == 0 || path_set_at_or_above(chosen, absolute);
}

/* Tells whether the delta has an entry of this name: a file, a directory or a whiteout. */
static bool is_in_delta(const struct edit_list *list, const char *path)
{
    char marker[NAME_MAX + 1];
    const char *name;
    autofd int parent = -1;
    struct stat st;
    int r = path_open_parent_beneath(list->delta.data_fd, path, &parent, &name);

    if (r < 0)
        return !path_is_absent(r); /* the drop itself will report the error */
    whiteout_name(name, marker);
    return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || fstatat(parent, marker, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A drop includes all beneath it. */
static bool is_covered(const struct discard_planner *plan, const char *path)
{
    autofree char *absolute = xprintf("/%s", path);

    return path_set_at_or_above(&plan->dropped, absolute);
}

/* Finds the directory of the delta that hides the base's directory and so this path; NULL: none. */
static char *find_cover(const struct edit_list *list, const char *path)
{
    autofree char *above = xdup(path);

    for (char *slash; (slash = strrchr(above, '/'));) {
        *slash = 0;
        if (is_in_delta(list, above))
            return steal_ptr(&above);
    }
    return NULL;
}

/* Returns 1, 0 or -errno. Loads all edits again, because the plan only has the chosen ones. */
static int is_tree_chosen(const struct discard_planner *plan, const char *dir, struct err *err)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    const char *paths[] = { dir };
    int r = is_path_chosen(plan, dir) ? 1 : edit_list_load(plan->delta_path, paths, 1, &list, err);

    if (r != 0)
        return r;
    for (size_t i = 0; i < list.count; i++) {
        if (!is_path_chosen(plan, list.items[i].path))
            return 0;
    }
    return 1;
}

static void put_drop(struct discard_planner *plan, const char *path)
{
    struct discard *out = plan->out;

    vec_room(&out->drops, &out->drop_cap, out->drop_count);
    out->drops[out->drop_count] = xprintf("/%s", path);
    path_set_insert(&plan->dropped, out->drops[out->drop_count++]);
}

/* Files that are hidden by a directory that the agent created anew come back only together with it. */
static int add_cover(struct discard_planner *plan, const struct edit *edit, struct err *err)
{
    autofree char *dir = find_cover(&plan->out->edits, edit->path), *shown = apply_txn_quote(edit->path);
    int r = dir ? is_tree_chosen(plan, dir, err) : 0;

    if (r < 0)
        return r;
    if (r > 0) {
        put_drop(plan, dir);
        return 0;
    }
    autofree char *shown_dir = apply_txn_quote(dir ? dir : "");
    return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL,
                   "%s went with its directory%s%s, which comes back as a whole; discard that", shown, dir ? " " : "",
                   dir ? shown_dir : "");
}

static int add_drop(struct discard_planner *plan, const struct edit *edit, struct err *err)
{
    if (is_covered(plan, edit->path))
        return 0;
    if (!is_in_delta(&plan->out->edits, edit->path))
        return add_cover(plan, edit, err);
    put_drop(plan, edit->path);
    return 0;
}

int discard_plan(const char *delta_path, const struct selection *selection, struct discard *ret, struct err *err)
{
    autodone(discard) struct discard out = DISCARD_NONE;
    struct discard_planner plan = { .delta_path = delta_path, .out = &out };
    int r = selection_load(selection, delta_path, &out.edits, err);

    for (size_t i = 0; i < out.edits.count && r == 0; i++) {
        const struct edit *edit = &out.edits.items[i];
        if (selection_hunks_of(selection, edit))
            r = err_invalid(err, "hunks cannot be discarded, only files");
        else if (is_path_chosen(&plan, edit->path))
            r = add_drop(&plan, edit, err);
    }
    path_set_done(&plan.dropped);
    if (r < 0)
        return r;
    *ret = out;
    out = DISCARD_NONE;
    return 0;
}

void discard_done(struct discard *discard)
{
    for (size_t i = 0; i < discard->drop_count; i++)
        free(discard->drops[i]);
    free(discard->drops);
    edit_list_done(&discard->edits);
    *discard = DISCARD_NONE;
}
