#include "fence/copy_delta.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/delta.h"
#include "fence/fence_int.h"
#include "fence/whiteout.h"

#define COPY "copy"
#define ORIGINAL "copy/original"
#define STAGED "copy/staged"
#define MAKING "copy.new"
#define PRE_MAX ((off_t) 64 << 20) /* larger ones are recorded by size and time only */

/* ---- copying ---- */

/* Copies content, mode and times; there must be nothing at `to`. */
static int copy_delta_file(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st)
{
    autofd int from = path_open_beneath(from_dir, name, O_RDONLY | O_NONBLOCK, 0), out = -1;
    const struct timespec times[] = { st->st_atim, st->st_mtim };
    int r;

    if (from < 0)
        return from;
    out = path_open_beneath(to_dir, to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (out < 0)
        return out;
    r = copyup_content(from, out, INT64_MAX);
    if (r == 0 && (fchmod(out, st->st_mode & 0777) < 0 || futimens(out, times) < 0))
        r = -errno;
    return r;
}

/* Keeps its times, as for a file: a later comparison with the project has nothing else to go by. */
static int copy_delta_link(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st)
{
    const struct timespec times[] = { st->st_atim, st->st_mtim };
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);
    const char *last;
    autofd int parent = -1;
    int r;

    if (n < 0)
        return -errno;
    target[n] = 0;
    r = path_open_parent_beneath(to_dir, to, &parent, &last);
    if (r < 0)
        return r;
    return symlinkat(target, parent, last) < 0 || utimensat(parent, last, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_tree_entry(const struct file_entry *entry, void *cookie)
{
    int to_dir = *(const int *) cookie, r = 0;

    if (S_ISDIR(entry->st->st_mode)) {
        r = path_mkdirs_beneath(to_dir, entry->path, 0700);
        autofd int fd = r < 0 ? -1 : path_open_beneath(to_dir, entry->path, O_RDONLY | O_DIRECTORY, 0);
        return fd < 0 ? (r < 0 ? r : fd) : fchmod(fd, entry->st->st_mode & 0777) < 0 ? -errno : 0;
    }
    if (S_ISREG(entry->st->st_mode))
        r = copy_delta_file(entry->dirfd, entry->name, to_dir, entry->path, entry->st);
    else if (S_ISLNK(entry->st->st_mode))
        r = copy_delta_link(entry->dirfd, entry->name, to_dir, entry->path, entry->st);
    return r == -ENOENT || r == -ELOOP ? 0 : r; /* it was removed or replaced while we copied */
}

int copy_delta_tree(int from_fd, int to_fd, const char *to, struct err *err)
{
    int r = path_mkdirs_beneath(to_fd, to, 0700);
    autofd int dir = r < 0 ? r : path_open_beneath(to_fd, to, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;

    if (dir < 0)
        return err_errno(err, dir, "'%s'", to);
    if (fstat(from_fd, &st) < 0 || fchmod(dir, (st.st_mode & 0777) | 0700) < 0)
        return err_errno(err, -errno, "'%s'", to);
    r = file_walk(from_fd, ".", copy_tree_entry, &dir, err);
    return r < 0 && err && err->code == ERR_OK ? err_errno(err, r, "copying into '%s'", to) : r;
}

int copy_delta_make(int sandbox_fd, int base_fd, struct err *err)
{
    struct stat st;
    autofd int original = -1;
    int r;

    if (fstatat(sandbox_fd, COPY, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    file_remove_tree(sandbox_fd, MAKING);
    r = copy_delta_tree(base_fd, sandbox_fd, MAKING "/original", err);
    if (r < 0)
        return r;
    /* From the first copy, so that both are equal whatever happens to the base meanwhile. */
    original = path_open_beneath(sandbox_fd, MAKING "/original", O_RDONLY | O_DIRECTORY, 0);
    r = copy_delta_tree(original, sandbox_fd, MAKING "/workspace", err);
    if (r == 0 && renameat(sandbox_fd, MAKING, sandbox_fd, COPY) < 0)
        r = err_errno(err, -errno, "finishing the copy");
    return r;
}

/* ---- comparing ---- */

struct tree_comparison {
    int original, workspace; /* owned */
    int data, meta;          /* owned */
    int log_fd;              /* owned; O_APPEND */
    unsigned pre_count;
};

static bool copy_delta_stat(int dir, const char *path, struct stat *ret)
{
    autofd int fd = path_open_beneath(dir, path, O_PATH, 0);

    return fd >= 0 && fstat(fd, ret) == 0;
}

/* The same for callers that turn the result into a change: 1, 0, or -errno if it is unknown. */
static int stat_or_errno(int dir, const char *path, struct stat *ret)
{
    autofd int fd = path_open_beneath(dir, path, O_PATH, 0);

    if (fd < 0)
        return path_is_absent(fd) ? 0 : fd;
    return fstat(fd, ret) < 0 ? -errno : 1;
}

static bool has_same_bytes(int a_dir, int b_dir, const char *path)
{
    autofd int a = path_open_beneath(a_dir, path, O_RDONLY | O_NONBLOCK, 0);
    autofd int b = path_open_beneath(b_dir, path, O_RDONLY | O_NONBLOCK, 0);

    return a >= 0 && b >= 0 && copyup_same_content(a, b) == 1;
}

static bool has_same_target(int a_dir, int b_dir, const char *path)
{
    char x[PATH_MAX], y[PATH_MAX];
    autofd int a = path_open_beneath(a_dir, path, O_PATH, 0), b = path_open_beneath(b_dir, path, O_PATH, 0);
    ssize_t n = a < 0 ? -1 : readlinkat(a, "", x, sizeof(x)), m = b < 0 ? -1 : readlinkat(b, "", y, sizeof(y));

    return n >= 0 && n == m && memcmp(x, y, (size_t) n) == 0;
}

static bool is_same_in_both(const struct tree_comparison *c, const char *path, const struct stat *now, const struct stat *was)
{
    if ((now->st_mode ^ was->st_mode) & (S_IFMT | (S_ISLNK(now->st_mode) ? 0 : 0777)))
        return false;
    if (S_ISREG(now->st_mode))
        return now->st_size == was->st_size && has_same_bytes(c->original, c->workspace, path);
    return !S_ISLNK(now->st_mode) || has_same_target(c->original, c->workspace, path);
}

/* Makes the directories above, with the modes they have in the workspace. It looks for the lowest existing one from below:
 * mostly that is the parent, and looking from the top each time would cost the third power of a deep tree's depth. */
static int make_delta_parents(const struct tree_comparison *c, const char *path)
{
    autofree char *above = xdup(path);
    size_t there = strlen(path);
    struct stat st;

    do {
        while (there > 0 && path[--there] != '/')
            ;
        above[there] = 0;
    } while (there > 0 && !copy_delta_stat(c->data, above, &st));
    for (const char *slash = strchr(path + there + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        autofree char *part = xdupn(path, (size_t) (slash - path));
        int r = path_mkdirs_beneath(c->data, part, 0700);

        if (r < 0)
            return r;
        if (copy_delta_stat(c->workspace, part, &st)) {
            autofd int fd = path_open_beneath(c->data, part, O_RDONLY | O_DIRECTORY, 0);
            if (fd < 0 || fchmod(fd, (st.st_mode & 0777) | 0700) < 0)
                return -errno;
        }
    }
    return 0;
}

/* Adds a line to the change log that describes the base file, and saves the pre-image that it names. */
static int copy_delta_log_base(struct tree_comparison *c, const char *change, const char *path, const struct stat *was)
{
    autodone(buf) struct buf line = BUF_EMPTY;
    char kept[64];

    buf_addf(&line, "{\"time_ns\":%" PRId64 ",\"change\":\"%s\",\"path\":", clock_wall_ns(), change);
    change_log_format_string(&line, path);
    if (was) {
        buf_addf(&line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u",
                 (uint64_t) was->st_ino, (uint64_t) was->st_size, clock_ns_of_timespec(was->st_mtim),
                 (unsigned) was->st_mode & 0777);
        autofd int fd = S_ISREG(was->st_mode) ? path_open_beneath(c->original, path, O_RDONLY | O_NONBLOCK, 0) : -1;
        autofd int parent = -1;
        const char *name;
        snprintf(kept, sizeof(kept), "copy%08x", c->pre_count++);
        autofree char *to = xprintf("pre/%s", kept);
        if (fd >= 0 && was->st_size <= PRE_MAX && path_open_parent_beneath(c->original, path, &parent, &name) == 0 &&
            linkat(parent, name, c->meta, to, 0) == 0) {
            change_log_format_hash(&line, fd);
            buf_addf(&line, ",\"kept\":\"%s\"", kept);
        }
        buf_add_char(&line, '}');
    }
    buf_add_str(&line, "}\n");
    return fd_write_full(c->log_fd, line.data, line.len);
}

/* Opens the directory in the delta that holds the path's name. */
static int open_delta_parent(const struct tree_comparison *c, const char *path, int *ret_fd, const char **ret_name)
{
    int r = make_delta_parents(c, path);

    return r < 0 ? r : path_open_parent_beneath(c->data, path, ret_fd, ret_name);
}

static int link_changed_file(struct tree_comparison *c, const struct file_entry *entry)
{
    const char *name = NULL;
    autofd int parent = -1;
    int r = open_delta_parent(c, entry->path, &parent, &name);

    if (r < 0)
        return r;
    if (S_ISLNK(entry->st->st_mode))
        return copy_delta_link(entry->dirfd, entry->name, c->data, entry->path, entry->st);
    return linkat(entry->dirfd, entry->name, parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int compare_workspace_entry(const struct file_entry *entry, void *cookie)
{
    struct tree_comparison *c = cookie;
    struct stat was;
    int existed = stat_or_errno(c->original, entry->path, &was), r = 0;

    if (whiteout_is_reserved(entry->name))
        return FILE_WALK_SKIP; /* it would be read as a marker in a delta */
    if (existed < 0)
        return existed;
    if (existed && is_same_in_both(c, entry->path, entry->st, &was))
        return FILE_WALK_ON;
    if (S_ISDIR(entry->st->st_mode)) {
        r = make_delta_parents(c, entry->path);
        if (r == 0)
            r = path_mkdirs_beneath(c->data, entry->path, 0700);
        autofd int fd = r < 0 ? -1 : path_open_beneath(c->data, entry->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0 || fchmod(fd, (entry->st->st_mode & 0777) | 0700) < 0)
            return r < 0 ? r : -errno;
    } else if (S_ISREG(entry->st->st_mode) || S_ISLNK(entry->st->st_mode)) {
        r = link_changed_file(c, entry);
    } else {
        return FILE_WALK_ON;
    }
    /* Of what is too deep for a review (change.h) only the highest directory is recorded. */
    if (r == 0 && S_ISDIR(entry->st->st_mode) && entry->depth > DEPTH_MAX)
        return FILE_WALK_SKIP;
    if (r == 0)
        r = copy_delta_log_base(c, existed ? "copied-up" : "created", entry->path, existed ? &was : NULL);
    return r < 0 ? r : FILE_WALK_ON;
}

static int copy_delta_put_marker(struct tree_comparison *c, const char *path)
{
    const char *name = NULL;
    autofd int parent = -1;
    int r = open_delta_parent(c, path, &parent, &name);

    if (r < 0)
        return r;
    autofd int dir = path_open_beneath(parent, ".", O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? dir : whiteout_create_in_place(dir, name);
}

/* Returns 1 if the directory above is gone or no longer a directory: then its own marker or file covers this path. */
static int is_covered_by_parent(const struct tree_comparison *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    struct stat st;
    int r = above ? stat_or_errno(c->workspace, above, &st) : 0;

    return r < 0 ? r : above && (r == 0 || !S_ISDIR(st.st_mode));
}

static int compare_original_entry(const struct file_entry *entry, void *cookie)
{
    struct tree_comparison *c = cookie;
    struct stat now;
    int r = stat_or_errno(c->workspace, entry->path, &now);

    if (r != 0)
        return r < 0 ? r : FILE_WALK_ON;
    r = is_covered_by_parent(c, entry->path);
    if (r < 0)
        return r;
    r = r ? 0 : copy_delta_put_marker(c, entry->path);
    if (r == 0 && !S_ISDIR(entry->st->st_mode))
        r = copy_delta_log_base(c, "copied-up", entry->path, entry->st);
    return r < 0 ? r : FILE_WALK_ON;
}

/* Empties the directory but never removes it: a delta without it is none, and recovery after a kill would fail. */
static int empty_delta_dir(int dir, const char *name)
{
    int r = 0;

    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    autodirectory names = directory_take(path_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0));
    if (!names)
        return -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(names));)
        r = file_remove_tree(dirfd(names), d->d_name);
    fault("copy-delta-emptied");
    return r;
}

static void comparison_done(struct tree_comparison *c)
{
    const int fds[] = { c->original, c->workspace, c->data, c->meta, c->log_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static int comparison_open(struct tree_comparison *c, int sandbox_fd, int delta_fd)
{
    struct stat st;
    int r = empty_delta_dir(delta_fd, "data");

    if (r == 0)
        r = empty_delta_dir(delta_fd, "meta/pre");
    c->original = path_open_beneath(sandbox_fd, ORIGINAL, O_RDONLY | O_DIRECTORY, 0);
    c->workspace = path_open_beneath(sandbox_fd, COPY_DELTA_WORKSPACE, O_RDONLY | O_DIRECTORY, 0);
    c->data = path_open_beneath(delta_fd, "data", O_RDONLY | O_DIRECTORY, 0);
    c->meta = path_open_beneath(delta_fd, "meta", O_RDONLY | O_DIRECTORY, 0);
    c->log_fd = path_open_beneath(delta_fd, "meta/changes", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (r == 0 && (c->original < 0 || c->workspace < 0 || c->data < 0 || c->meta < 0 || c->log_fd < 0))
        r = -EIO;
    if (r == 0 && (fstat(c->workspace, &st) < 0 || fchmod(c->data, (st.st_mode & 0777) | 0700) < 0))
        r = -errno;
    return r;
}

/* Updates and copy_delta_refresh() take turns: it would otherwise see half of an update. */
static int lock_copy(int sandbox_fd)
{
    autofd int turn = path_open_beneath(sandbox_fd, COPY "/lock", O_RDWR | O_CREAT, 0600);

    if (turn < 0 || flock(turn, LOCK_EX) < 0)
        return turn < 0 ? turn : -errno;
    return steal_fd(&turn);
}

int copy_delta_refresh(int sandbox_fd, const char *delta_path, const char *base_path, int base_fd, struct err *err)
{
    struct tree_comparison c = { -1, -1, -1, -1, -1, 0 };
    struct fence_config config = {
        .base_path = base_path, .base_fd = base_fd, .delta_path = delta_path, .is_live = true, .is_at_rest = true
    };
    struct stat st;
    autofd int delta = -1, lock = -1, turn = -1;
    int r;

    if (fstatat(sandbox_fd, COPY, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    turn = lock_copy(sandbox_fd);
    if (turn < 0)
        return err_errno(err, turn, "waiting for the copy");
    r = fence_recover_delta(&config, err);
    if (r == -EBUSY)
        *err = ERR_NONE;
    if (r < 0)
        return r == -EBUSY ? 0 : r;
    delta = path_open_beneath(sandbox_fd, "delta", O_RDONLY | O_DIRECTORY, 0);
    lock = delta < 0 ? delta : path_open_beneath(delta, "meta/lock", O_RDWR | O_CREAT, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return err_errno(err, lock < 0 ? lock : -errno, "locking '%s'", delta_path);
    r = comparison_open(&c, sandbox_fd, delta);
    if (r == 0)
        r = file_put(delta, "meta/" COPY_DELTA_MARK, "", 0, 0600);
    if (r == 0)
        r = file_walk(c.workspace, ".", compare_workspace_entry, &c, err);
    if (r == 0)
        r = file_walk(c.original, ".", compare_original_entry, &c, err);
    comparison_done(&c);
    return r < 0 && err && err->code == ERR_OK ? err_errno(err, r, "comparing the copy with what it was made of") : r;
}

/* ---- decisions ---- */

/* Makes `path` in `tree` what `from` has there. */
static int copy_path_over(int from, int tree, const char *path)
{
    autofd int found = path_open_beneath(from, path, O_PATH, 0);
    const char *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    struct stat st;
    int r = file_remove_tree(tree, path);

    if (r < 0 || found < 0)
        return r;
    if (fstat(found, &st) < 0)
        return -errno;
    if (above && (r = path_mkdirs_beneath(tree, above, 0755)) < 0)
        return r;
    if (S_ISREG(st.st_mode))
        return copy_delta_file(from, path, tree, path, &st);
    if (S_ISLNK(st.st_mode)) {
        autofd int parent = -1;
        const char *name;
        r = path_open_parent_beneath(from, path, &parent, &name);
        return r < 0 ? r : copy_delta_link(parent, name, tree, path, &st);
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    struct err ignored = ERR_NONE;
    autofd int dir = path_open_beneath(from, path, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? dir : copy_delta_tree(dir, tree, path, &ignored);
}

/* ---- the agent's tree, while the agent does not run ---- */

/* Also true for a process that has closed the file and still has it mapped: the kernel then refuses a read lease. Should the
 * lease be broken, the signal must not end us: SIGURG is ignored by default. */
static bool is_being_written(int fd)
{
    bool is_free = fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;

    if (is_free)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    return !is_free;
}

/* A file that a process is writing to keeps its inode: otherwise the process would write to a file without a name. */
static int rewrite_in_place(int from, const char *path, int to, const struct stat *st)
{
    autofd int in = path_open_beneath(from, path, O_RDONLY | O_NONBLOCK, 0);
    const struct timespec times[] = { st->st_atim, st->st_mtim };
    int r = in < 0 ? in : ftruncate(to, 0) < 0 ? -errno : copyup_content(in, to, INT64_MAX);

    if (r == 0 && (fchmod(to, st->st_mode & 0777) < 0 || futimens(to, times) < 0))
        r = -errno;
    return r;
}

static int replace_with_copy(int sandbox_fd, int from, int tree, const char *path, const struct stat *st)
{
    autofd int parent = -1;
    const char *name;
    int r = path_open_parent_beneath(tree, path, &parent, &name);

    if (r < 0)
        return r;
    unlinkat(sandbox_fd, STAGED, 0);
    r = copy_delta_file(from, path, sandbox_fd, STAGED, st);
    return r < 0 ? r : renameat(sandbox_fd, STAGED, parent, name) < 0 ? -errno : 0;
}

static int restore_file(int sandbox_fd, int from, int tree, const char *path, const struct stat *st)
{
    autofd int is = path_open_beneath(tree, path, O_RDONLY | O_NONBLOCK, 0), to = -1;

    if (is < 0)
        return is;
    if (!is_being_written(is))
        return replace_with_copy(sandbox_fd, from, tree, path, st);
    cleanup_fd(&is);
    is = -1;
    to = path_open_beneath(tree, path, O_RDWR | O_NONBLOCK, 0);
    return to < 0 ? to : rewrite_in_place(from, path, to, st);
}

/* A directory stays: it may be a working directory, and what is in it has paths of its own. */
static int restore_dir_mode(int tree, const char *path, const struct stat *st)
{
    autofd int dir = path_open_beneath(tree, path, O_RDONLY | O_DIRECTORY, 0);

    return dir < 0 ? dir : fchmod(dir, st->st_mode & 0777) < 0 ? -errno : 0;
}

static int restore_path(int sandbox_fd, int from, int tree, const char *path)
{
    struct stat was, is;
    bool has_both = copy_delta_stat(from, path, &was) && copy_delta_stat(tree, path, &is);

    if (has_both && S_ISREG(was.st_mode) && S_ISREG(is.st_mode))
        return restore_file(sandbox_fd, from, tree, path, &was);
    if (has_both && S_ISDIR(was.st_mode) && S_ISDIR(is.st_mode))
        return restore_dir_mode(tree, path, &was);
    return copy_path_over(from, tree, path);
}

/* ---- the three updates ---- */

struct trees {
    int turn, original, workspace; /* owned */
};

static void trees_done(struct trees *trees)
{
    cleanup_fd(&trees->turn);
    cleanup_fd(&trees->original);
    cleanup_fd(&trees->workspace);
}

static int trees_open(int sandbox_fd, struct trees *ret)
{
    ret->turn = lock_copy(sandbox_fd);
    ret->original = path_open_beneath(sandbox_fd, ORIGINAL, O_RDONLY | O_DIRECTORY, 0);
    ret->workspace = path_open_beneath(sandbox_fd, COPY_DELTA_WORKSPACE, O_RDONLY | O_DIRECTORY, 0);
    return ret->turn < 0 ? ret->turn : ret->original < 0 ? ret->original : ret->workspace < 0 ? ret->workspace : 0;
}

static int wrap_update_error(int r, struct err *err)
{
    return r < 0 ? err_errno(err, r, "bringing the copy up to date") : 0;
}

int copy_delta_revert(int sandbox_fd, int base_fd, const char *const *paths, size_t count, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    int r = trees_open(sandbox_fd, &trees);

    for (size_t i = 0; r == 0 && i < count; i++) {
        r = copy_path_over(base_fd, trees.original, paths[i]);
        if (r == 0)
            r = restore_path(sandbox_fd, base_fd, trees.workspace, paths[i]);
    }
    return wrap_update_error(r, err);
}

int copy_delta_accept(int sandbox_fd, const char *const *paths, size_t count, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    int r = trees_open(sandbox_fd, &trees);

    for (size_t i = 0; r == 0 && i < count; i++)
        r = copy_path_over(trees.workspace, trees.original, paths[i]);
    return wrap_update_error(r, err);
}

int copy_delta_accept_text(int sandbox_fd, const char *path, const void *bytes, size_t len, mode_t mode, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    autofd int parent = -1;
    const char *name, *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    int r = trees_open(sandbox_fd, &trees);

    if (r == 0 && above)
        r = path_mkdirs_beneath(trees.original, above, 0755);
    if (r == 0)
        r = path_open_parent_beneath(trees.original, path, &parent, &name);
    if (r == 0)
        r = file_put(sandbox_fd, STAGED, bytes, len, mode & 0777);
    if (r == 0 && renameat(sandbox_fd, STAGED, parent, name) < 0)
        r = -errno;
    return wrap_update_error(r, err);
}
