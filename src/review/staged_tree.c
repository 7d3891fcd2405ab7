#include "review/staged_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/fence.h"
#include "fence/whiteout.h"

struct staged_tree {
    int base_fd;          /* borrowed: the project */
    int from_fd;          /* borrowed: the agent's files */
    int data_fd, work_fd; /* owned: of the new delta */
};

/* A fence creates the directories and the format, because it knows them. */
static int make_delta(const char *delta_path, const char *base_path, int base_fd, struct err *err)
{
    autoptr(ruleset) rules = NULL;
    autoptr(fence) fence = NULL;
    int r = ruleset_new(&RULE_LIST_EMPTY, NULL, &rules, err);
    struct fence_config config = { .base_path = base_path,
                                   .base_fd = base_fd,
                                   .delta_path = delta_path,
                                   .rules = rules,
                                   .is_live = true,
                                   .is_at_rest = true };

    return r < 0 ? r : fence_new(&config, &fence, err);
}

/* A directory that exists in the project shows with its mode there; a new one hides the project's contents. */
static int open_directory(const struct staged_tree *re, const char *path, mode_t mode)
{
    struct stat st = { 0 };
    autofd int base = path_open_beneath(re->base_fd, path, O_PATH | O_DIRECTORY, 0);
    int r = path_mkdirs_beneath(re->data_fd, path, 0700);
    autofd int made = r < 0 ? -1 : path_open_beneath(re->data_fd, path, O_RDONLY | O_DIRECTORY, 0);

    if (r < 0 || made < 0)
        return r < 0 ? r : made;
    if (base >= 0 && fstat(base, &st) < 0)
        return -errno;
    if (base < 0)
        r = whiteout_make_opaque(made);
    /* We must be able to add the contents. */
    if (r == 0 && fchmod(made, (mode ? mode & 0777 : st.st_mode & 0777) | 0700) < 0)
        r = -errno;
    return r;
}

static int make_parents(const struct staged_tree *re, const char *path)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *above = xdupn(path, (size_t) (slash - path));
        struct stat st;
        autofd int there = path_open_beneath(re->data_fd, above, O_PATH, 0);
        if (there >= 0 && fstat(there, &st) == 0 && S_ISDIR(st.st_mode))
            continue;
        if (there >= 0)
            return -ENOTDIR;
        int r = open_directory(re, above, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_file(const struct staged_tree *re, const char *path, const struct planned *planned)
{
    autofd int fd = path_open_beneath(re->data_fd, path, O_RDWR | O_CREAT | O_EXCL, 0600), from = -1;
    uint8_t hash[FILE_STATE_HASH_BYTES];
    int r = 0;

    if (fd < 0)
        return fd;
    if (planned->has_bytes && !planned->is_mode_only) {
        r = fd_write_full(fd, planned->bytes.data ? planned->bytes.data : "", planned->bytes.len);
    } else {
        from = path_open_beneath(planned->is_mode_only ? re->base_fd : re->from_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        r = from < 0 ? from : copyup_content(from, fd, INT64_MAX);
    }
    if (r == 0 && !planned->is_mode_only)
        r = file_state_hash_fd(fd, hash);
    if (r == 0 && !planned->is_mode_only && memcmp(hash, planned->hash, sizeof(hash)) != 0)
        r = -ESTALE;
    if (r == 0 && fchmod(fd, planned->now & 0777) < 0)
        r = -errno;
    return r;
}

static int add_link(const struct staged_tree *re, const char *path, const struct planned *planned)
{
    autofd int link = planned->has_bytes ? -1 : path_open_beneath(re->from_fd, path, O_PATH, 0), parent = -1;
    char target[PATH_MAX];
    const char *name;
    ssize_t n = (ssize_t) planned->bytes.len;
    int r;

    if (!planned->has_bytes)
        n = link < 0 ? -1 : readlinkat(link, "", target, sizeof(target) - 1);
    else if (n < PATH_MAX)
        memcpy(target, planned->bytes.data, (size_t) n);
    if (n < 0 || n >= PATH_MAX)
        return link < 0 ? -ENAMETOOLONG : -errno;
    target[n] = '\0';
    r = path_open_parent_beneath(re->data_fd, path, &parent, &name);
    return r < 0 ? r : symlinkat(target, parent, name) < 0 ? -errno : 0;
}

static int stage_edit(const struct staged_tree *re, const char *path, const struct planned *planned)
{
    int r = make_parents(re, path);

    if (r < 0)
        return r;
    if (S_ISDIR(planned->now))
        return open_directory(re, path, planned->now);
    return S_ISLNK(planned->now) ? add_link(re, path, planned) : add_file(re, path, planned);
}

/* ---- deletions ---- */

static int put_marker(const struct staged_tree *re, const char *path)
{
    const char *name = NULL;
    autofd int parent = -1;
    int r = make_parents(re, path);

    if (r < 0)
        return r;
    r = path_open_parent_beneath(re->data_fd, path, &parent, &name);
    if (r < 0)
        return r;
    autofd int dir = path_open_beneath(parent, ".", O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? dir : whiteout_create_by(re->work_fd, "rehearsal", dir, name);
}

/* Tells whether all entries of the project's directory are marked as deleted: 1, 0 or -errno. */
static int is_emptied(const struct staged_tree *re, const char *path)
{
    autofd int data = path_open_beneath(re->data_fd, path, O_RDONLY | O_DIRECTORY, 0);
    int fd = path_open_beneath(re->base_fd, path, O_RDONLY | O_DIRECTORY, 0), is = 1;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        cleanup_fd(&fd);
        return -ENOTDIR;
    }
    for (const struct dirent *d; is && (d = readdir(dir));) {
        char marker[NAME_MAX + 1];
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        whiteout_name(d->d_name, marker);
        is = data >= 0 && faccessat(data, marker, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
    closedir(dir);
    return is;
}

/* Like apply_txn: a directory is removed only if nothing is left in it, such as a file that the agent never saw. */
static int stage_removal(const struct staged_tree *re, const char *path, const struct planned *planned)
{
    int r = make_parents(re, path);

    /* Something replaced a directory above it, which removed this as well. */
    if (r == -ENOTDIR)
        return 0;
    if (r == 0 && S_ISDIR(planned->was.st_mode)) {
        r = is_emptied(re, path);
        if (r <= 0)
            return r;
        r = file_remove_tree(re->data_fd, path);
    }
    return r < 0 ? r : put_marker(re, path);
}

static int stage_edits(const struct staged_tree *re, const struct edit_list *edits, const struct planned *all, struct err *err)
{
    for (size_t k = 0; k < 2 * edits->count; k++) {
        /* First additions from the top, then deletions from the bottom. */
        bool goes = k >= edits->count;
        size_t i = goes ? 2 * edits->count - 1 - k : k;
        const struct planned *planned = &all[i];
        if (!planned->is_taken || !planned->has_change || goes != !planned->now)
            continue;
        const char *path = edits->items[i].path;
        int r = goes ? stage_removal(re, path, planned) : stage_edit(re, path, planned);
        if (r < 0) {
            autofree char *shown = apply_txn_quote(path);
            return r == -ESTALE ? err_set(err, ERR_ABORTED, r, "%s changed while it was being read", shown)
                                : err_errno(err, r, "laying out %s", shown);
        }
    }
    return 0;
}

int staged_tree_make(const char *delta_path, const char *base_path, int base_fd, const struct edit_list *edits,
                     const struct planned *all, struct err *err)
{
    struct staged_tree re = { .base_fd = base_fd, .from_fd = edits->delta.data_fd, .data_fd = -1, .work_fd = -1 };
    int r = make_delta(delta_path, base_path, base_fd, err);

    if (r < 0)
        return r;
    autofd int delta = open(delta_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    autofd int data = delta < 0 ? -1 : path_open_beneath(delta, "data", O_RDONLY | O_DIRECTORY, 0);
    autofd int work = delta < 0 ? -1 : path_open_beneath(delta, "work", O_RDONLY | O_DIRECTORY, 0);
    if (data < 0 || work < 0)
        return err_errno(err, -EIO, "opening '%s'", delta_path);
    re.data_fd = data;
    re.work_fd = work;
    return stage_edits(&re, edits, all, err);
}
