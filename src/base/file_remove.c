#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/path.h"

/*
 * A tree can be deeper than the number of descriptors we may open and longer than a path may be: `while mkdir d; do cd d; done`
 * makes one. The removal therefore keeps a fixed number of levels open. It renames a directory below the last of them into the
 * top directory, where a later pass finds it near the surface. Every pass removes or moves something, or it is the last.
 */
#define LEVELS 32

/* Passes over the top directory. Each pass can shorten a deep chain by LEVELS. The limit ends a race against a process that
 * fills the tree as fast as we empty it. */
#define PASSES_MAX 65536

struct removal_level {
    DIR *dir; /* owned */
    char name[NAME_MAX + 1];
};

struct file_removal {
    struct removal_level levels[LEVELS]; /* the first `depth` are in use */
    int depth;
    bool moved; /* this pass removed or moved something */
    int first_error;
};

static int top_of(const struct file_removal *rm)
{
    return dirfd(rm->levels[0].dir);
}

static void file_removal_note_error(struct file_removal *rm, int r)
{
    if (r != -ENOENT && rm->first_error == 0)
        rm->first_error = r;
}

/* Gives us the permission to list and empty a directory. If we do not own it, the calls that follow report the error. Uses a
 * descriptor, because another file could be put under the name. */
static void open_up(int dir)
{
    struct stat st;

    if (fstat(dir, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
        fchmod(dir, (st.st_mode & 07777) | S_IRWXU);
}

static int open_directory(int dirfd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = openat(dirfd, name, flags);

    /* Without read permission only O_PATH could open it, and fchmod() rejects that. AT_SYMLINK_NOFOLLOW protects the target of
     * a link that an attacker puts here in between. */
    if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, S_IRWXU, AT_SYMLINK_NOFOLLOW) == 0)
        fd = openat(dirfd, name, flags);
    if (fd < 0)
        return -errno;
    open_up(fd);
    return fd;
}

static int file_removal_push(struct file_removal *rm, int dirfd, const char *name)
{
    struct removal_level *level = &rm->levels[rm->depth];
    int r, fd = open_directory(dirfd, name);

    if (fd < 0)
        return fd;
    level->dir = fdopendir(fd);
    if (!level->dir) {
        r = -errno;
        close(fd);
        return r;
    }
    snprintf(level->name, sizeof(level->name), "%s", name);
    rm->depth++;
    return 0;
}

/* Leaves the last level and removes its directory, except the top one. ENOTEMPTY is not an error: either something inside
 * already reported why it stays, or it has just appeared and the next pass removes it. */
static void file_removal_pop(struct file_removal *rm)
{
    struct removal_level *level = &rm->levels[--rm->depth];

    closedir(level->dir);
    if (rm->depth == 0)
        return;
    if (unlinkat(dirfd(rm->levels[rm->depth - 1].dir), level->name, AT_REMOVEDIR) == 0)
        rm->moved = true;
    else if (errno != ENOTEMPTY && errno != EEXIST)
        file_removal_note_error(rm, -errno);
}

static int file_removal_move_to_top(struct file_removal *rm, int dirfd, const char *name)
{
    char id[ID_TEXT_MAX];
    int fd;

    /* Moving a directory rewrites its "..", which needs write permission on the directory itself. */
    fd = open_directory(dirfd, name);
    if (fd < 0)
        return fd;
    close(fd);
    id_new(".af-rm-", id);
    if (renameat(dirfd, name, top_of(rm), id) < 0)
        return -errno;
    rm->moved = true;
    return 0;
}

/* Returns 0 when the entry is gone, and 1 for a directory that must be emptied first. A mount point fails with EBUSY even if it
 * contains files, so we never enter one and empty a mounted file system. */
static int remove_one(int dirfd, const char *name)
{
    int r;

    if (unlinkat(dirfd, name, 0) == 0)
        return 0;
    r = -errno;
    if (r != -EISDIR && r != -EPERM)
        return r;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return 1;
    return errno == ENOTDIR ? r : -errno;
}

static void file_removal_step(struct file_removal *rm)
{
    DIR *dir = rm->levels[rm->depth - 1].dir;
    struct dirent *entry = readdir(dir);
    int r;

    if (!entry) {
        file_removal_pop(rm);
        return;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return;
    r = remove_one(dirfd(dir), entry->d_name);
    if (r == 0)
        rm->moved = true;
    else if (r == 1)
        r = rm->depth < LEVELS ? file_removal_push(rm, dirfd(dir), entry->d_name)
                               : file_removal_move_to_top(rm, dirfd(dir), entry->d_name);
    if (r < 0)
        file_removal_note_error(rm, r);
}

static int remove_passing(struct file_removal *rm, int parent, const char *name)
{
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        int r = remove_one(parent, name);

        if (r <= 0)
            return r;
        if (pass > 0 && !rm->moved)
            break;
        rm->moved = false;
        r = file_removal_push(rm, parent, name);
        if (r < 0)
            return r;
        while (rm->depth > 0)
            file_removal_step(rm);
    }
    return rm->first_error ? rm->first_error : -ENOTEMPTY;
}

int file_remove_tree(int dirfd, const char *relpath)
{
    struct file_removal rm = { 0 };
    autofd int parent = -1;
    const char *name;
    int r;

    r = path_open_parent_beneath(dirfd, relpath, &parent, &name);
    if (r == 0)
        r = remove_passing(&rm, parent, name);
    return r == -ENOENT ? 0 : r;
}
