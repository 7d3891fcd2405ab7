#include "codebase/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"

enum tree_kind tree_kind_of(mode_t mode)
{
    if (S_ISREG(mode))
        return TREE_FILE;
    if (S_ISLNK(mode))
        return TREE_LINK;
    return S_ISDIR(mode) ? TREE_DIR : TREE_NONE;
}

void object_name(char letter, unsigned number, char out[OBJECT_NAME_MAX])
{
    snprintf(out, OBJECT_NAME_MAX, "%c%u", letter, number);
}

int64_t stat_mtime_ns(const struct stat *st)
{
    return (int64_t) st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec;
}

static int count_entry(const struct file_entry *e, void *cookie)
{
    struct tree_count *count = cookie;

    count->entries++;
    if (!S_ISDIR(e->st->st_mode)) {
        count->files++;
        count->bytes += (uint64_t) e->st->st_size;
    }
    return FILE_WALK_ON;
}

int tree_count_at(int dirfd, const char *name, struct tree_count *ret)
{
    struct tree_count count = { 0 };
    struct stat st;
    int r = 0;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return -errno;
        *ret = count;
        return 0;
    }
    count = (struct tree_count){ .kind = tree_kind_of(st.st_mode), .entries = 1, .files = 1, .bytes = (uint64_t) st.st_size };
    if (count.kind == TREE_DIR) {
        count.files = count.bytes = 0;
        r = file_walk(dirfd, name, count_entry, &count, NULL);
    }
    if (r < 0)
        return r;
    *ret = count;
    return 0;
}

int tree_each_name(int dirfd, tree_name_fn fn, void *cookie)
{
    autodirectory dir = directory_open(dirfd);
    int r = 0;

    if (!dir)
        return -errno;
    for (const struct dirent *e; r == 0 && (e = directory_next(dir));)
        r = fn(e->d_name, cookie);
    return r;
}
