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
#include "review/landing.h"

/* Itself, or something above it; not because something in it was. */
static bool is_meant(const struct selection *selection, const char *path)
{
    autofree char *absolute = xprintf("/%s", path);

    for (size_t i = 0; i < selection->file_count; i++) {
        autodone(buf) struct buf clean = BUF_EMPTY;
        const char *given = selection->files[i].path;
        if (path_clean(given, strlen(given), &clean) == 0 && path_is_beneath(clean.data, absolute))
            return true;
    }
    return selection->file_count == 0;
}

/* Whether the delta has something of its own under this name: a file, a directory, a marker. */
static bool is_in_delta(const struct edit_list *list, const char *path)
{
    char marker[NAME_MAX + 1];
    const char *name;
    autofd int parent = -1;
    struct stat st;
    int r = path_open_parent_beneath(list->delta.data_fd, path, &parent, &name);

    if (r < 0)
        return !path_is_absent(r); /* whoever drops it will say why not */
    whiteout_name(name, marker);
    return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || fstatat(parent, marker, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Drops take all beneath with them. */
static bool is_covered(const struct discard *out, const char *path)
{
    autofree char *absolute = xprintf("/%s", path);

    for (size_t i = 0; i < out->drop_count; i++) {
        if (path_is_beneath(out->drops[i], absolute))
            return true;
    }
    return false;
}

static int add_drop(struct discard *out, const struct edit *edit, struct err *err)
{
    if (is_covered(out, edit->path))
        return 0;
    if (!is_in_delta(&out->edits, edit->path)) {
        autofree char *shown = landing_quote(edit->path);
        return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "%s went with its directory; discard that", shown);
    }
    vec_room(&out->drops, &out->drop_cap, out->drop_count);
    out->drops[out->drop_count++] = xprintf("/%s", edit->path);
    return 0;
}

int discard_plan(const char *delta_path, const struct selection *selection, struct discard *ret, struct err *err)
{
    autodone(discard) struct discard out = DISCARD_NONE;
    int r = selection_load(selection, delta_path, &out.edits, err);

    for (size_t i = 0; i < out.edits.count && r == 0; i++) {
        const struct edit *edit = &out.edits.items[i];
        if (selection_hunks_of(selection, edit->path))
            r = err_invalid(err, "hunks cannot be discarded, only files");
        else if (is_meant(selection, edit->path))
            r = add_drop(&out, edit, err);
    }
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
