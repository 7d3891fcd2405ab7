#include "review/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_int.h"

/* ---- placing ---- */

/* Between the check and now. */
static bool is_still(const struct stat *was, const struct stat *is)
{
    return was->st_dev == is->st_dev && was->st_ino == is->st_ino && was->st_mode == is->st_mode &&
           was->st_size == is->st_size && was->st_mtim.tv_sec == is->st_mtim.tv_sec &&
           was->st_mtim.tv_nsec == is->st_mtim.tv_nsec && was->st_ctim.tv_sec == is->st_ctim.tv_sec &&
           was->st_ctim.tv_nsec == is->st_ctim.tv_nsec;
}

static int check_still(int dirfd, const char *name, const struct stat *was)
{
    struct stat is;

    if (fstatat(dirfd, name, &is, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !was->st_mode ? 0 : -ESTALE;
    return was->st_mode && is_still(was, &is) ? 0 : -ESTALE;
}

/* Not every file system knows these flags. */
static bool lacks_flag(int error)
{
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static int place_new(int dirfd, const char *temp, const char *name)
{
    if (renameat2(dirfd, temp, dirfd, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (!lacks_flag(errno))
        return errno == EEXIST ? -ESTALE : -errno;
    return renameat(dirfd, temp, dirfd, name) < 0 ? -errno : 0;
}

/* A directory where something else is. Exchanged in one moment; what was there is then under the temporary name. */
static int place_dir_over(int dirfd, const char *temp, const char *name)
{
    if (renameat2(dirfd, temp, dirfd, name, RENAME_EXCHANGE) == 0)
        return unlinkat(dirfd, temp, 0) < 0 ? -errno : 0;
    if (!lacks_flag(errno) || unlinkat(dirfd, name, 0) < 0)
        return -errno;
    return renameat(dirfd, temp, dirfd, name) < 0 ? -errno : 0;
}

/* Emptied before; if it is not, somebody put something there. */
static int place_over_dir(int dirfd, const char *temp, const char *name)
{
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
        return errno == ENOTEMPTY || errno == EEXIST ? -ESTALE : -errno;
    return place_new(dirfd, temp, name);
}

static int place(struct job *job, struct unit *unit)
{
    const char *name, *slash = strrchr(unit->temp_path, '/'), *temp = slash ? slash + 1 : unit->temp_path;
    autofd int parent = -1;
    bool over_dir = S_ISDIR(unit->was.st_mode);
    int r = path_open_parent_beneath(job->base_fd, unit->path, &parent, &name);

    if (r < 0)
        return r;
    r = over_dir ? 0 : check_still(parent, name, &unit->was);
    if (r < 0)
        return r;
    if (over_dir)
        r = place_over_dir(parent, temp, name);
    else if (!unit->was.st_mode)
        r = place_new(parent, temp, name);
    else if (unit->is_dir)
        r = place_dir_over(parent, temp, name);
    else
        r = renameat(parent, temp, parent, name) < 0 ? -errno : 0;
    unit->is_placed = r == 0;
    fault("apply-placed");
    return r;
}

/* ---- deletions and modes ---- */

/* Gone already is as good. A directory in which somebody has put something stays. */
static int take_away(struct job *job, const struct edit *edit)
{
    const char *name;
    autofd int parent = -1;
    bool is_dir = S_ISDIR(edit->was.st_mode);
    int r = path_open_parent_beneath(job->base_fd, edit->path, &parent, &name);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (!is_dir && faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!is_dir && !job->is_forced && (r = check_still(parent, name, &edit->was)) < 0)
        return r;
    if (unlinkat(parent, name, is_dir ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    fault("apply-deleted");
    return 0;
}

/* By the O_PATH descriptor: a file that we may not read gets its mode as well, and no link is followed. */
static int set_mode(struct job *job, const struct edit *edit)
{
    autofd int fd = path_open_beneath(job->base_fd, edit->path, O_PATH, 0);
    char by_fd[64];
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((st.st_mode ^ edit->was.st_mode) & S_IFMT)
        return -ESTALE;
    snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", fd);
    /* Set-group-ID of a directory is the base's way of sharing; of a file it is a danger. */
    mode_t keep = S_ISDIR(st.st_mode) ? st.st_mode & 07000 : 0;
    return chmod(by_fd, (edit->now & 0777) | keep) < 0 ? -errno : 0;
}

/* ---- the order of things ---- */

static int failed(struct job *job, const char *path, int r, struct err *err)
{
    autofree char *shown = job_quote(path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r,
                       "%s changed in the base while it was being applied, after %zu of %zu changes; look, and "
                       "apply again",
                       shown, job->out->done, job->edits->count);
    return err_errno(err, r, "applying %s, after %zu of %zu changes; apply again to go on", shown, job->out->done,
                     job->edits->count);
}

static int place_all(struct job *job, bool over_dirs, struct err *err)
{
    for (size_t i = 0; i < job->unit_count; i++) {
        struct unit *unit = &job->units[i];
        int r = S_ISDIR(unit->was.st_mode) == over_dirs ? place(job, unit) : 0;
        if (r < 0)
            return failed(job, unit->path, r, err);
        if (S_ISDIR(unit->was.st_mode) == over_dirs)
            job->out->done += unit->edit_count;
    }
    return 0;
}

/* From the last to the first: what is in a directory before the directory. */
static int delete_all(struct job *job, struct err *err)
{
    for (size_t i = job->edits->count; i-- > 0;) {
        const struct edit *edit = &job->edits->items[i];
        int r = edit->now ? 0 : take_away(job, edit);
        if (r < 0)
            return failed(job, edit->path, r, err);
        job->out->done += !edit->now;
    }
    return 0;
}

static int set_modes(struct job *job, struct err *err)
{
    for (size_t i = job->edits->count; i-- > 0;) {
        const struct edit *edit = &job->edits->items[i];
        bool only_mode = edit->now && job->unit_of[i] == JOB_NO_UNIT;
        int r = only_mode ? set_mode(job, edit) : 0;
        if (r < 0)
            return failed(job, edit->path, r, err);
        job->out->done += only_mode;
    }
    return 0;
}

/* What is new comes before what is deleted: of a file that was renamed there is at every moment one. A file in the place of a
 * directory has to wait for that to be emptied. */
static int place_and_delete(struct job *job, struct err *err)
{
    int r = place_all(job, false, err);

    if (r == 0)
        r = delete_all(job, err);
    if (r == 0)
        r = place_all(job, true, err);
    return r == 0 ? set_modes(job, err) : r;
}

/* A diary that can't be written makes the next apply more careful than it need be. */
static void note_one(struct job *job, const struct edit *edit)
{
    autofd int fd = edit->now ? path_open_beneath(job->base_fd, edit->path, O_PATH, 0) : -1, readable = -1;
    uint8_t hash[DIARY_HASH_BYTES];
    struct stat st;
    bool is_there = fd >= 0 && fstat(fd, &st) == 0, has_hash = false;

    if (is_there && S_ISREG(st.st_mode)) {
        readable = path_open_beneath(job->base_fd, edit->path, O_RDONLY | O_NONBLOCK, 0);
        has_hash = readable >= 0 && diary_hash(readable, hash) == 0;
    }
    if (S_ISDIR(edit->now) || S_ISDIR(edit->was.st_mode))
        return;
    diary_note_applied(job->diary_fd, edit->path, is_there ? &st : NULL, has_hash ? hash : NULL);
}

static int perform(struct job *job, struct err *err)
{
    int r = job_plan(job, err);

    if (r == 0) {
        r = job_stage(job, err);
        fault("apply-staged");
    }
    if (r == 0)
        r = place_and_delete(job, err);
    job_unstage(job);
    if (r < 0)
        return r;
    /* One call for all the directories whose names changed. */
    if (syncfs(job->base_fd) < 0)
        return err_errno(err, -errno, "syncing '%s'", job->edits->delta.base_path);
    for (size_t i = 0; i < job->edits->count; i++)
        note_one(job, &job->edits->items[i]);
    return 0;
}

/* ---- a run ---- */

/* What must not move while we look at it and then write. */
struct locks {
    struct delta_about delta;
    int delta_fd, base_fd; /* owned */
};

#define LOCKS_NONE ((struct locks){ DELTA_ABOUT_NONE, -1, -1 })

static void locks_done(struct locks *locks)
{
    delta_about_done(&locks->delta);
    cleanup_fd(&locks->delta_fd);
    cleanup_fd(&locks->base_fd);
}

/* Two who apply to one base at a time would not see each other's changes. Where directories cannot be locked, they can't. */
static int lock_base(struct locks *locks, struct err *err)
{
    const char *path = locks->delta.base_path;

    locks->base_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (locks->base_fd < 0)
        return err_errno(err, -errno, "opening '%s', which the sandbox was made over", path);
    if (flock(locks->base_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "changes are being applied to '%s' by somebody else; try again",
                       path);
    return 0;
}

static int take_locks(const char *delta_path, struct locks *locks, struct err *err)
{
    /* This needs the delta for itself, so it comes first. */
    int r = change_settle(delta_path, err);

    if (r < 0)
        return r;
    r = delta_about_open(delta_path, &locks->delta, err);
    if (r < 0)
        return r;
    locks->delta_fd = path_open_beneath(locks->delta.meta_fd, "lock", O_RDWR | O_CREAT, 0600);
    if (locks->delta_fd < 0)
        return err_errno(err, locks->delta_fd, "locking delta '%s'", delta_path);
    if (flock(locks->delta_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", delta_path);
    return lock_base(locks, err);
}

static int check_paths(const struct job *job, struct err *err)
{
    if (!job->edits->unmatched)
        return 0;
    autofree char *shown = job_quote(job->edits->unmatched);
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "%s has no changes; 'agentfense diff --name-only' lists what has", shown);
}

static int run_locked(struct job *job, struct err *err)
{
    int r = check_paths(job, err);

    if (r < 0)
        return r;
    job_unstage_old(job->base_fd, job->meta_fd);
    job_judge(job);
    if (job->out->conflict_count > 0)
        return 1;
    job->diary_fd = path_open_beneath(job->meta_fd, "changes", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (job->diary_fd < 0)
        return err_errno(err, job->diary_fd, "opening what the delta says of its changes");
    return job->edits->count > 0 ? perform(job, err) : 0;
}

static void job_done(struct job *job)
{
    for (size_t i = 0; i < job->unit_count; i++) {
        free(job->units[i].path);
        free(job->units[i].temp_path);
    }
    free(job->units);
    free(job->unit_of);
    cleanup_fd(&job->diary_fd);
}

int apply_run(const char *delta_path, const struct apply_options *options, struct apply *ret, struct err *err)
{
    autodone(locks) struct locks locks = LOCKS_NONE;
    int r;

    *ret = APPLY_NONE;
    r = take_locks(delta_path, &locks, err);
    if (r == 0)
        r = edit_list_load(delta_path, options->paths, options->path_count, &ret->edits, err);
    if (r < 0)
        return r;
    struct job job = {
        .out = ret,
        .edits = &ret->edits,
        .is_forced = options->is_forced,
        .base_fd = ret->edits.base_fd,
        .data_fd = ret->edits.delta.data_fd,
        .meta_fd = ret->edits.delta.meta_fd,
        .diary_fd = -1,
    };
    r = run_locked(&job, err);
    job_done(&job);
    return r;
}

void apply_clean_up(const char *delta_path)
{
    struct delta_about delta;
    autofd int base_fd = -1;

    if (delta_about_open(delta_path, &delta, NULL) < 0)
        return;
    base_fd = open(delta.base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base_fd >= 0)
        job_unstage_old(base_fd, delta.meta_fd);
    delta_about_done(&delta);
}

void apply_done(struct apply *apply)
{
    for (size_t i = 0; i < apply->conflict_count; i++)
        free(apply->conflicts[i].path);
    free(apply->conflicts);
    edit_list_done(&apply->edits);
    *apply = APPLY_NONE;
}
