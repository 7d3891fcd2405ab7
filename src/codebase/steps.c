#include "codebase/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "codebase/stage.h"

/* Keeps the directory of the last path open for the next one. There must be only one: a step that moves a directory away opens
 * that directory's parent, so no descriptor of a moved directory is used again. */
struct walker {
    struct codebase *cb;
    int fd; /* owned */
    char path[4096];
};

static int parent_of(struct walker *w, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t) (slash - path) : 0;

    *ret_name = slash ? slash + 1 : path;
    if (len >= sizeof(w->path))
        return -ENAMETOOLONG;
    if (w->fd >= 0 && strlen(w->path) == len && memcmp(w->path, path, len) == 0)
        return w->fd;
    cleanup_fd(&w->fd);
    memcpy(w->path, path, len);
    w->path[len] = 0;
    w->fd = path_open_beneath(w->cb->files_fd, len ? w->path : ".", O_PATH | O_DIRECTORY, 0);
    return w->fd;
}

/* Returns 1 if it exists, 0 if not. */
static int is_there(int dirfd, const char *name, ino_t *ret_ino)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (ret_ino)
        *ret_ino = st.st_ino;
    return 1;
}

static int rename_noreplace(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    return renameat2(from_dirfd, from, to_dirfd, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* A file that another file replaces is linked, not moved, so that its name always exists. */
static int keep_old(int parent, const char *name, int version_fd, const char *old, bool may_link)
{
    if (may_link && linkat(parent, name, version_fd, old, 0) == 0)
        return 0;
    return rename_noreplace(parent, name, version_fd, old);
}

static int perform_put(struct walker *w, int version_fd, const struct manifest_entry *e)
{
    char new[OBJECT_NAME_MAX], old[OBJECT_NAME_MAX];
    const char *name;
    int parent, r;

    object_name('n', e->object, new);
    object_name('o', e->object, old);
    r = is_there(version_fd, new, NULL);
    if (r <= 0)
        return r;
    parent = parent_of(w, e->path, &name);
    if (parent < 0)
        return parent;
    r = e->old_kind == TREE_NONE ? 1 : is_there(version_fd, old, NULL);
    if (r == 0) {
        r = keep_old(parent, name, version_fd, old, e->old_kind != TREE_DIR && e->new_kind != TREE_DIR);
        codebase_step("codebase-kept-old");
    }
    if (r < 0)
        return r;
    if (renameat(version_fd, new, parent, name) < 0)
        return -errno;
    codebase_step("codebase-put-new");
    return 0;
}

static int perform_remove(struct walker *w, int version_fd, const struct manifest_entry *e)
{
    char old[OBJECT_NAME_MAX];
    const char *name;
    int parent, r;

    object_name('o', e->object, old);
    r = is_there(version_fd, old, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    parent = parent_of(w, e->path, &name);
    if (parent < 0)
        return parent;
    r = rename_noreplace(parent, name, version_fd, old);
    codebase_step("codebase-removed");
    return r;
}

/* ---- files in the delta ---- */

/* Removes it only if it is still the same file: a program may have put another one under its name. */
int steps_remove_source(const char *source, uint64_t ino, int64_t mtime_ns)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), parent = -1;
    const char *name;
    struct stat st;
    int r;

    if (root < 0)
        return -errno;
    r = path_open_parent_beneath(root, source + 1, &parent, &name);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if ((uint64_t) st.st_ino != ino || stat_mtime_ns(&st) != mtime_ns)
        return 0;
    r = unlinkat(parent, name, 0) < 0 ? -errno : 0;
    codebase_step("codebase-source-removed");
    return r;
}

/* A file in `files` with another link in a delta would change when the agent writes there. If that link could not be removed,
 * the codebase gets its own copy. */
static int remove_source_of(struct walker *w, int version_fd, const struct manifest_entry *e)
{
    char copy[OBJECT_NAME_MAX];
    const char *name;
    struct stat st;
    int parent, r;

    if (e->op != MANIFEST_PUT || e->new_kind != TREE_FILE)
        return 0;
    parent = parent_of(w, e->path, &name);
    if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
        return 0; /* performed earlier, and changed by a later version since */
    if (parent < 0)
        return parent;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || (uint64_t) st.st_ino != e->src_ino || st.st_nlink == 1)
        return 0;
    object_name('c', e->object, copy);
    if (unlinkat(version_fd, copy, 0) < 0 && errno != ENOENT)
        return -errno;
    r = stage_copy(parent, name, version_fd, copy);
    if (r < 0)
        return r;
    return renameat(version_fd, copy, parent, name) < 0 ? -errno : 0;
}

int steps_drop_sources(struct codebase *cb, int version_fd, const struct manifest *m)
{
    struct walker w = { .cb = cb, .fd = -1 };
    int first = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];

        if (!e->source)
            continue;
        int r = steps_remove_source(e->source, e->src_ino, e->src_mtime_ns);
        if (r < 0)
            log_warn("a synced file stays in its delta", LOG_STR("source", e->source), LOG_ERRNO("reason", r));
        r = remove_source_of(&w, version_fd, e);
        if (r < 0 && first == 0)
            first = r;
    }
    cleanup_fd(&w.fd);
    return first;
}

/* ---- perform and undo ---- */

int steps_perform(struct codebase *cb, int version_fd, const struct manifest *m)
{
    struct walker w = { .cb = cb, .fd = -1 };
    int r = 0;

    for (size_t i = 0; i < m->count && r >= 0; i++) {
        const struct manifest_entry *e = &m->entries[i];

        if (i + 1 == m->count && fault_is("codebase-last-step-fails"))
            r = -ENOSPC;
        else if (e->op == MANIFEST_PUT)
            r = perform_put(&w, version_fd, e);
        else if (e->op == MANIFEST_REMOVE)
            r = perform_remove(&w, version_fd, e);
    }
    cleanup_fd(&w.fd);
    return r < 0 ? r : 0;
}

static int undo_entry(struct walker *w, int version_fd, const struct manifest_entry *e)
{
    char new[OBJECT_NAME_MAX], old[OBJECT_NAME_MAX];
    ino_t kept = 0, present = 0;
    const char *name;
    int parent, r;

    object_name('n', e->object, new);
    object_name('o', e->object, old);
    parent = parent_of(w, e->path, &name);
    if (parent < 0)
        return parent == -ENOENT ? 0 : parent; /* its directory was never created */
    if (e->op == MANIFEST_PUT && is_there(version_fd, new, NULL) == 0) {
        r = rename_noreplace(parent, name, version_fd, new);
        if (r < 0)
            return r;
    }
    r = is_there(version_fd, old, &kept);
    if (r <= 0)
        return r;
    r = is_there(parent, name, &present);
    if (r < 0)
        return r;
    /* It was only linked: rename() does nothing between two names of one file. */
    if (r == 1 && kept == present)
        return unlinkat(version_fd, old, 0) < 0 ? -errno : 0;
    return rename_noreplace(version_fd, old, parent, name);
}

int steps_undo(struct codebase *cb, int version_fd, const struct manifest *m)
{
    struct walker w = { .cb = cb, .fd = -1 };
    int r = 0;

    for (size_t i = m->count; i > 0 && r >= 0; i--)
        if (m->entries[i - 1].op != MANIFEST_LOST)
            r = undo_entry(&w, version_fd, &m->entries[i - 1]);
    cleanup_fd(&w.fd);
    return r < 0 ? r : 0;
}
