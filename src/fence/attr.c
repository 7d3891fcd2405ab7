#include "fence/attr.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "fence/inode.h"
#include "fence/layer.h"

/*
 * By mode bits the kernel refuses without asking us (default_permissions). They never promise more than the level, and the
 * guard checks every read and write again, so a process that may ignore them gains nothing. A directory shows `w` if some name
 * in it could be written, whatever its own level; the guard decides for each name.
 */
static mode_t attr_file_mode(mode_t mode, enum level level)
{
    static const mode_t masks[] = {
        [LEVEL_NONE] = 0,
        [LEVEL_VIEW] = 0,
        [LEVEL_READ] = 01555,
        [LEVEL_WRITE] = 01777,
    };

    return S_ISLNK(mode) ? S_IFLNK | 0777 : (mode & S_IFMT) | (mode & masks[level]);
}

static mode_t attr_dir_mode(struct fence *f, const struct inode *dir, enum level level)
{
    autoptr(match_state) match = inode_dup_match_state(f, dir);
    bool writable = match && ruleset_may_write_child(f->rules, match);
    mode_t mode = atomic_load(&dir->mode);

    /* A passage reveals nothing, not even the permission bits of the hidden directory. */
    if (required_level_check(POLICY_OP_LOOKUP, level, false) < 0)
        return S_IFDIR | (writable ? 0755 : 0555);
    if (required_level_check(POLICY_OP_SETATTR, level, false) == 0)
        return writable ? mode & (S_IFMT | 03777) : mode & (S_IFMT | 02555);
    return S_IFDIR | (mode & 0555) | (writable ? 0200 : 0);
}

static nlink_t inode_count_names(struct fence *f, const struct inode *inode)
{
    nlink_t count = 0;

    tree_lock(f);
    for (const struct entry *e = inode_has(inode, INODE_DEAD) ? NULL : inode->names; e; e = e->name_next)
        count++;
    tree_unlock(f);
    return count;
}

static void attr_fill_dir(struct fence *f, struct inode *inode, struct stat *st)
{
    st->st_mode = attr_dir_mode(f, inode, (enum level) atomic_load(&inode->level));
    st->st_nlink = inode_has(inode, INODE_DEAD) ? 0 : 1;
    st->st_size = ATTR_BLOCK;
    st->st_blocks = ATTR_BLOCK / 512;
    tree_lock(f);
    st->st_atim = clock_timespec_of_ns(inode->dir->atime_ns);
    st->st_mtim = clock_timespec_of_ns(inode->dir->mtime_ns);
    st->st_ctim = clock_timespec_of_ns(inode->dir->ctime_ns);
    tree_unlock(f);
}

void attr_fill(struct fence *f, struct inode *inode, const struct stat *backing, struct stat *ret_st)
{
    struct stat st = { .st_ino = inode->ino, .st_uid = f->uid, .st_gid = f->gid, .st_blksize = ATTR_BLOCK };

    if (inode_is_dir(inode)) {
        attr_fill_dir(f, inode, &st);
        *ret_st = st;
        return;
    }
    st.st_mode = attr_file_mode(backing->st_mode & (S_IFMT | 01777), (enum level) atomic_load(&inode->level));
    st.st_nlink = inode_count_names(f, inode);
    st.st_size = backing->st_size;
    st.st_blocks = backing->st_blocks;
    st.st_atim = backing->st_atim;
    st.st_mtim = backing->st_mtim;
    /* The base file's own ctime moves when it is linked to a hidden name, so it shows only for the sandbox's own copy. */
    st.st_ctim = inode_has(inode, INODE_UP) ? backing->st_ctim : backing->st_mtim;
    *ret_st = st;
}

int attr_get(struct fence *f, struct inode *inode, struct stat *ret_st)
{
    struct stat backing;
    int r = 0;

    if (!inode_is_dir(inode))
        r = layer_stat_inode(f, inode, &backing);
    if (r == 0)
        attr_fill(f, inode, &backing, ret_st);
    return r;
}

void attr_touch_dir(struct fence *f, struct inode *dir, int delta_fd)
{
    struct stat st;
    int64_t now = fstat(delta_fd, &st) == 0 ? clock_ns_of_timespec(st.st_mtim) : clock_wall_ns();

    tree_lock(f);
    dir->dir->mtime_ns = now;
    /* The file system's clock may be a tick behind the one of attr_touch_dir_ctime(). */
    if (now > dir->dir->ctime_ns || dir->dir->ctime_ns - now > CLOCK_NS_PER_SEC)
        dir->dir->ctime_ns = now;
    dir->dir->version++;
    tree_unlock(f);
}

void attr_touch_dir_ctime(struct fence *f, struct inode *dir)
{
    tree_lock(f);
    dir->dir->ctime_ns = clock_wall_ns();
    tree_unlock(f);
}

void attr_restore_dir_times(struct fence *f, struct inode *dir, int delta_fd)
{
    struct timespec times[2];

    tree_lock(f);
    times[0] = clock_timespec_of_ns(dir->dir->atime_ns);
    times[1] = clock_timespec_of_ns(dir->dir->mtime_ns);
    tree_unlock(f);
    futimens(delta_fd, times);
}
