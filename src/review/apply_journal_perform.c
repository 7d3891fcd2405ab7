#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/apply_txn_int.h"

/*
 * A replaced file is never lost: the new file and the old one are exchanged atomically, and only then is the old one checked.
 * If it differs from the file that was checked before, because its owner has just saved it, they are exchanged back. A deleted
 * file is moved aside and checked there. So no edit can slip in between a check and a rename.
 */

bool apply_step_file_matches(const struct apply_step_file *file, const struct stat *st)
{
    struct apply_step_file is = apply_step_file_of(st);

    if (!file->mode || file->ino != is.ino || ((file->mode ^ is.mode) & S_IFMT))
        return false;
    if (S_ISDIR(is.mode))
        return true;
    return file->size_bytes == is.size_bytes && file->mtime_ns == is.mtime_ns && !((file->mode ^ is.mode) & 0777);
}

/* One end of a rename. */
struct dir_entry {
    int dirfd; /* owned */
    const char *name;
    struct stat st; /* st_mode 0: nothing */
};

#define DIR_ENTRY_NONE ((struct dir_entry){ .dirfd = -1 })

static void dir_entry_done(struct dir_entry *entry)
{
    cleanup_fd(&entry->dirfd);
}

static int dir_entry_stat(struct dir_entry *entry)
{
    entry->st = (struct stat){ 0 };
    return fstatat(entry->dirfd, entry->name, &entry->st, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT ? -errno : 0;
}

static int dir_entry_open(int base_fd, const char *path, struct dir_entry *ret)
{
    int r = path_open_parent_beneath(base_fd, path, &ret->dirfd, &ret->name);

    return r != 0 ? r : dir_entry_stat(ret);
}

static bool is_not_there(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* Not every file system supports these flags. */
static bool lacks_flag(int error)
{
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static int move_dir_entry(const struct dir_entry *from, const struct dir_entry *to)
{
    if (renameat2(from->dirfd, from->name, to->dirfd, to->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (!lacks_flag(errno))
        return errno == EEXIST ? -ESTALE : -errno;
    if (faccessat(to->dirfd, to->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -ESTALE;
    return renameat(from->dirfd, from->name, to->dirfd, to->name) < 0 ? -errno : 0;
}

static int exchange_names(const struct dir_entry *a, const struct dir_entry *b)
{
    return renameat2(a->dirfd, a->name, b->dirfd, b->name, RENAME_EXCHANGE) < 0 ? -errno : 0;
}

/* Puts the staged file in its place. If names cannot be exchanged, the old file is gone; an undo has its copy. A directory
 * cannot replace a file that way. */
static int perform_put(int base_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->temp, &temp);

    if (r < 0)
        return is_not_there(r) ? -ESTALE : r;
    /* The staged file has left `temp`: it was put in its place, whatever its owner did to it since. */
    if (!temp.st.st_mode || temp.st.st_ino != step->now.ino)
        return 0;
    r = dir_entry_open(base_fd, step->path, &path);
    if (r < 0)
        return is_not_there(r) ? -ESTALE : r;
    if (!step->was.mode)
        return move_dir_entry(&temp, &path);
    if (!path.st.st_mode || path.st.st_ino != step->was.ino)
        return -ESTALE;
    r = renameat2(temp.dirfd, temp.name, path.dirfd, path.name, RENAME_EXCHANGE) < 0 ? -errno : 0;
    if (r < 0 && lacks_flag(-r)) {
        if (!apply_step_file_matches(&step->was, &path.st))
            return -ESTALE;
        if (S_ISDIR(step->now.mode) && unlinkat(path.dirfd, path.name, 0) < 0)
            return -errno;
        return renameat(temp.dirfd, temp.name, path.dirfd, path.name) < 0 ? -errno : 0;
    }
    if (r < 0)
        return r;
    r = dir_entry_stat(&temp);
    if (r == 0 && apply_step_file_matches(&step->was, &temp.st))
        return 0;
    exchange_names(&temp, &path);
    return r < 0 ? r : -ESTALE;
}

static int perform_remove(int base_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->path, &path);

    /* It is gone already. */
    if (is_not_there(r) || (r == 0 && !path.st.st_mode))
        return 0;
    if (r < 0)
        return r;
    r = dir_entry_open(base_fd, step->temp, &temp);
    if (r < 0)
        return r;
    if (temp.st.st_mode) /* done, and created again by its owner */
        return 0;
    if (!apply_step_file_matches(&step->was, &path.st))
        return -ESTALE;
    r = move_dir_entry(&path, &temp);
    if (r == -EXDEV) /* a mount point lies between the file and the directory that stays; an undo has the copy */
        return unlinkat(path.dirfd, path.name, 0) < 0 ? -errno : 0;
    if (r == 0)
        r = dir_entry_stat(&temp);
    if (r < 0 || apply_step_file_matches(&step->was, &temp.st))
        return r;
    move_dir_entry(&temp, &path);
    return -ESTALE;
}

/* Returns 1, 0, or -errno for a lack of resources; an inaccessible directory counts as not empty. */
static int is_empty(int dirfd, const char *name)
{
    int fd = path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0), r;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t entries = 0;

    if (!dir) {
        r = fd < 0 ? fd : -errno;
        cleanup_fd(&fd);
        return err_errno_is_exhaustion(r) ? r : 0;
    }
    while (readdir(dir))
        entries++;
    closedir(dir);
    return entries <= 2;
}

/* Moves the directory instead of removing it: on a full disk it could not be created again. One that is no longer empty
 * stays. */
static int perform_rmdir(int base_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->path, &path);

    if (r < 0)
        return is_not_there(r) ? 0 : r;
    if (!S_ISDIR(path.st.st_mode) || path.st.st_ino != step->was.ino)
        return 0;
    r = dir_entry_open(base_fd, step->temp, &temp);
    if (r < 0 || temp.st.st_mode)
        return r;
    r = is_empty(path.dirfd, path.name);
    if (r <= 0)
        return r;
    r = move_dir_entry(&path, &temp);
    if (r == -EBUSY || r == -EXDEV) /* it is a mount point */
        return 0;
    if (r < 0)
        return r;
    int empty = is_empty(temp.dirfd, temp.name);
    if (empty > 0)
        return 0;
    r = move_dir_entry(&temp, &path);
    return r < 0 ? r : empty;
}

/* Uses the O_PATH descriptor: that works for files that we may not read, and follows no link. Set-group-ID of a directory
 * is how a project shares files; on a file it is a danger. */
static int change_mode(int base_fd, const struct apply_step *step, mode_t from, mode_t to)
{
    autofd int fd = path_open_beneath(base_fd, step->path, O_PATH, 0);
    char by_fd[64];
    struct stat st;

    if (fd < 0)
        return is_not_there(fd) ? -ESTALE : fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((st.st_mode ^ step->was.mode) & S_IFMT)
        return -ESTALE;
    if (!((st.st_mode ^ to) & 0777))
        return 0;
    if ((st.st_mode ^ from) & 0777)
        return -ESTALE;
    snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", fd);
    mode_t keep = S_ISDIR(st.st_mode) ? st.st_mode & 07000 : 0;
    return chmod(by_fd, (to & 0777) | keep) < 0 ? -errno : 0;
}

int apply_journal_perform(int base_fd, const struct apply_journal *journal, size_t *ret_failed)
{
    for (size_t i = 0; i < journal->count; i++) {
        const struct apply_step *step = &journal->steps[i];
        int r = 0;

        fault("landing-step");
        if (step->kind == APPLY_STEP_PUT)
            r = perform_put(base_fd, step);
        else if (step->kind == APPLY_STEP_REMOVE)
            r = perform_remove(base_fd, step);
        else if (step->kind == APPLY_STEP_RMDIR)
            r = perform_rmdir(base_fd, step);
        else if (step->kind == APPLY_STEP_MODE)
            r = change_mode(base_fd, step, step->was.mode, step->now.mode);
        if (r < 0) {
            *ret_failed = i;
            return r;
        }
    }
    return 0;
}

/* ---- rolling back ---- */

/* The old file was not moved aside (it could not be exchanged, or was beyond a mount point), so its copy is put back. */
static int put_copy(int record_fd, const struct apply_step *step, struct dir_entry *path)
{
    autofree char *kept = xprintf("kept/%s", step->kept);
    struct file_pending pending = FILE_PENDING_NONE;
    autofd int from = -1;
    int r;

    if (!*step->kept || !S_ISREG(step->was.mode))
        return -ENODATA;
    from = path_open_beneath(record_fd, kept, O_RDONLY, 0);
    if (from < 0)
        return from;
    r = file_replace_begin(path->dirfd, path->name, step->was.mode & 0777, &pending);
    if (r < 0)
        return r;
    r = copyup_content(from, pending.fd, INT64_MAX);
    xattr_copy(from, pending.fd);
    if (r == 0 && geteuid() == 0 && fchown(pending.fd, step->was.uid, step->was.gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(pending.fd, step->was.mode & 0777) < 0)
        r = -errno;
    struct timespec mtime = clock_timespec_of_ns(step->was.mtime_ns);
    if (r == 0)
        futimens(pending.fd, (struct timespec[]){ mtime, mtime });
    if (r == 0)
        return file_replace_commit(&pending);
    file_replace_abort(&pending);
    return r;
}

/* Returns 1 if somebody changed the file after it was put there. */
static int roll_back_put(int base_fd, int record_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->path, &path);

    if (is_not_there(r) || (r == 0 && path.st.st_ino != step->now.ino))
        return 0;
    if (r == 0)
        r = dir_entry_open(base_fd, step->temp, &temp);
    if (r < 0)
        return r;
    if (!path.st.st_mode || !apply_step_file_matches(&step->now, &path.st))
        return path.st.st_mode ? 1 : 0;
    if (!step->was.mode)
        return move_dir_entry(&path, &temp);
    return temp.st.st_mode ? exchange_names(&temp, &path) : put_copy(record_fd, step, &path);
}

static int roll_back_remove(int base_fd, int record_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->path, &path);

    if (r == 0)
        r = dir_entry_open(base_fd, step->temp, &temp);
    if (r < 0)
        return r;
    if (path.st.st_mode)
        return 0;
    return temp.st.st_mode ? move_dir_entry(&temp, &path) : put_copy(record_fd, step, &path);
}

static int roll_back_rmdir(int base_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->path, &path);

    if (r == 0)
        r = dir_entry_open(base_fd, step->temp, &temp);
    if (r < 0 || path.st.st_mode || !temp.st.st_mode)
        return r;
    return move_dir_entry(&temp, &path);
}

int apply_journal_roll_back(int base_fd, int record_fd, const struct apply_journal *journal, size_t *ret_left)
{
    int first = 0;

    *ret_left = SIZE_MAX;
    for (size_t i = journal->count; i-- > 0;) {
        const struct apply_step *step = &journal->steps[i];
        int r = 0;

        fault("landing-back");
        if (step->kind == APPLY_STEP_PUT)
            r = roll_back_put(base_fd, record_fd, step);
        else if (step->kind == APPLY_STEP_REMOVE)
            r = roll_back_remove(base_fd, record_fd, step);
        else if (step->kind == APPLY_STEP_RMDIR)
            r = roll_back_rmdir(base_fd, step);
        else if (step->kind == APPLY_STEP_MODE)
            r = change_mode(base_fd, step, step->now.mode, step->was.mode);
        if (r == 1 || r == -ESTALE)
            *ret_left = i;
        else if (r < 0 && first == 0) {
            *ret_left = i;
            first = r;
        }
    }
    return first;
}

/* A process may have had its working directory there and created something: then the directory comes back. */
static int clean_dir(int base_fd, const struct apply_step *step)
{
    autodone(dir_entry) struct dir_entry path = DIR_ENTRY_NONE, temp = DIR_ENTRY_NONE;
    int r = dir_entry_open(base_fd, step->temp, &temp);

    if (r < 0 || !temp.st.st_mode || unlinkat(temp.dirfd, temp.name, AT_REMOVEDIR) == 0)
        return is_not_there(r) ? 0 : r;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    r = dir_entry_open(base_fd, step->path, &path);
    return r < 0 ? r : move_dir_entry(&temp, &path);
}

static int clean_step(int base_fd, const struct apply_step *step)
{
    if (!step->temp)
        return 0;
    return step->kind == APPLY_STEP_RMDIR ? clean_dir(base_fd, step) : file_remove_tree(base_fd, step->temp);
}

int apply_journal_clean(int base_fd, const struct apply_journal *journal)
{
    int first = 0;

    for (size_t i = 0; i < journal->count; i++) {
        int r = clean_step(base_fd, &journal->steps[i]);
        fault("landing-cleaned-one");
        first = first == 0 && !is_not_there(r) ? r : first;
    }
    return first;
}

/* Syncs a file of which only the mode changed. If we cannot open it, the kernel writes the mode in time. */
static void sync_mode(int base_fd, const struct apply_step *step)
{
    autofd int fd = path_open_beneath(base_fd, step->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd >= 0)
        fsync(fd);
}

/* Syncs a directory once for all successive names in it. */
int apply_journal_sync(int base_fd, const struct apply_journal *journal)
{
    const char *last = NULL;
    size_t last_len = 0;
    int r = 0;

    for (size_t i = 0; i < journal->count && r == 0; i++) {
        const char *path = journal->steps[i].path, *slash = strrchr(path, '/');
        size_t len = slash ? (size_t) (slash - path) : 0;
        if (journal->steps[i].kind == APPLY_STEP_MODE) {
            sync_mode(base_fd, &journal->steps[i]);
            continue;
        }
        if (journal->steps[i].kind == APPLY_STEP_PART || (last && len == last_len && memcmp(path, last, len) == 0))
            continue;
        autofree char *dir = len ? xdupn(path, len) : xdup(".");
        autofd int fd = path_open_beneath(base_fd, dir, O_RDONLY | O_DIRECTORY, 0);
        r = fd < 0 ? (is_not_there(fd) ? 0 : fd) : file_fsync_dir(fd);
        last = path;
        last_len = len;
    }
    return r;
}
