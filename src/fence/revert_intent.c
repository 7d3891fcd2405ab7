#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/change.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/delta.h"
#include "fence/fence_int.h"
#include "fence/read_log.h"
#include "fence/revert.h"
#include "fence/whiteout.h"

#define NOTE "drop"
#define MAGIC "AFD1"
#define REPLACE_DIR "replace"
#define NOTE_BYTES_MAX (256u << 20)

void revert_list_done(struct revert_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    free(list->items);
    *list = (struct revert_list){ 0 };
}

/* Returns true if no component is empty, "." or "..", or reserved. */
static bool is_revertible_path(const char *path)
{
    if (!*path || strlen(path) >= REVERT_PATH_MAX)
        return false;
    for (;; path++) {
        size_t len = strcspn(path, "/");
        if (len == 0 || len > NAME_MAX || (len <= 2 && strncmp(path, "..", len) == 0) || whiteout_is_reserved(path))
            return false;
        path += len;
        if (!*path)
            return true;
    }
}

static void revert_list_add(struct revert_list *list, const char *path, bool replaces)
{
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = (struct revert){ xdup(path), replaces };
}

/* Returns true for a directory of the delta that a rule asked for, or one above it: its content may be removed, it may not. */
static bool is_rule_dir(const struct revert_dirs *at, const struct buf *roots, const char *path)
{
    if (!delta_is_root(roots, path, strlen(path)))
        return false;
    autofd int base = at->base_fd < 0 ? -1 : path_open_beneath(at->base_fd, path, O_PATH | O_DIRECTORY, 0);
    return base < 0;
}

static int revert_list_add_below(const struct revert_dirs *at, const struct buf *roots, const char *path,
                                 struct revert_list *list);

static int revert_list_add_path(const struct revert_dirs *at, const struct buf *roots, const char *path,
                                struct revert_list *list)
{
    if (is_rule_dir(at, roots, path))
        return revert_list_add_below(at, roots, path, list);
    revert_list_add(list, path, false);
    return 0;
}

/* Adds everything that the delta has in the directory; "" is the workspace. */
static int revert_list_add_below(const struct revert_dirs *at, const struct buf *roots, const char *path,
                                 struct revert_list *list)
{
    int fd = path_open_beneath(at->data_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
    autodirectory dir = directory_take(fd);
    char name[NAME_MAX + 1];

    if (!dir)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));) {
        bool is_marker = whiteout_is_reserved(d->d_name);
        r = is_marker ? whiteout_target(fd, d->d_name, name) : 1;
        if (r > 0) {
            autofree char *below = xprintf("%s%s%s", path, *path ? "/" : "", is_marker ? name : d->d_name);
            r = revert_list_add_path(at, roots, below, list);
        }
    }
    return r;
}

static int stage_replacement(const struct revert_dirs *at, const char *path, int from, size_t index)
{
    autofd int was = path_open_beneath(at->data_fd, path, O_PATH, 0), to = -1;
    char name[64];
    struct stat st;
    int r;

    if (was < 0 || fstat(was, &st) < 0 || !S_ISREG(st.st_mode))
        return -ENOENT;
    if (fstat(from, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    r = path_mkdirs_beneath(at->meta_fd, REPLACE_DIR, 0700);
    if (r < 0)
        return r;
    snprintf(name, sizeof(name), REPLACE_DIR "/%zu", index);
    to = path_open_beneath(at->meta_fd, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (to < 0)
        return to;
    r = copyup_content(from, to, INT64_MAX);
    return r == 0 && fsync(to) < 0 ? -errno : r;
}

static int revert_list_add_request(const struct revert_dirs *at, const struct buf *roots, const struct fence_revert *revert,
                                   struct revert_list *list, struct err *err)
{
    int r = 0;

    if (strcmp(revert->path, "/") == 0 && revert->replace_fd < 0) {
        r = revert_list_add_below(at, roots, "", list);
        return r < 0 ? err_errno(err, r, "reading the delta") : 0;
    }
    if (revert->path[0] != '/' || !is_revertible_path(revert->path + 1))
        return err_reject(err, -EINVAL, revert->path, "is no path within the workspace");
    if (revert->replace_fd >= 0)
        r = stage_replacement(at, revert->path + 1, revert->replace_fd, list->count);
    if (r == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, r, "nothing in the delta to replace at '%s'", revert->path);
    if (r < 0)
        return err_errno(err, r, "taking a replacement");
    if (revert->replace_fd >= 0) {
        revert_list_add(list, revert->path + 1, true);
        return 0;
    }
    r = revert_list_add_path(at, roots, revert->path + 1, list);
    return r < 0 ? err_errno(err, r, "reading the delta") : 0;
}

int revert_list_make(const struct revert_dirs *at, const struct fence_revert *reverts, size_t count, struct revert_list *ret,
                     struct err *err)
{
    autodone(buf) struct buf roots = BUF_EMPTY;
    struct revert_list list = { 0 };
    int r = count > REVERTS_MAX ? err_invalid(err, "more than %d paths at once", REVERTS_MAX) : 0;

    if (file_read(at->meta_fd, "roots", 1 << 20, &roots) < 0)
        buf_clear(&roots);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = revert_list_add_request(at, &roots, &reverts[i], &list, err);
    /* The intent relies on the names of the replacements. */
    autofd int staged = r == 0 ? path_open_beneath(at->meta_fd, REPLACE_DIR, O_RDONLY | O_DIRECTORY, 0) : -ENOENT;
    if (staged >= 0 && fsync(staged) < 0)
        r = err_errno(err, -errno, "taking replacements");
    else if (staged < 0 && staged != -ENOENT)
        r = err_errno(err, staged, "taking replacements");
    if (r < 0) {
        file_remove_tree(at->meta_fd, REPLACE_DIR);
        revert_list_done(&list);
        return r;
    }
    *ret = list;
    return 0;
}

/* MAGIC, then 'd' or 'r' and a path for each, NUL-terminated. */
int revert_begin(const struct revert_dirs *at, const struct revert_list *list)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    if (list->count == 0)
        return 0;
    buf_add_str(&text, MAGIC);
    for (size_t i = 0; i < list->count; i++) {
        buf_add_char(&text, list->items[i].replaces ? 'r' : 'd');
        buf_add(&text, list->items[i].path, strlen(list->items[i].path) + 1);
    }
    fault("drop-staged");
    r = file_replace(at->meta_fd, NOTE, text.data, text.len, 0600);
    fault("drop-noted");
    return r;
}

/* If the intent came back after a power cut it would remove what was written since: its removal must be durable. */
int revert_end(const struct revert_dirs *at, const struct revert_list *list)
{
    if (list->count == 0)
        return 0;
    fault("drop-done");
    if (list->count > REVERT_SYNC_EACH_MAX && syncfs(at->data_fd) < 0)
        return -errno;
    if (unlinkat(at->meta_fd, NOTE, 0) < 0 && errno != ENOENT)
        return -errno;
    fault("drop-ended");
    file_remove_tree(at->meta_fd, REPLACE_DIR);
    return file_fsync_dir(at->meta_fd);
}

static int revert_intent_parse(const struct buf *text, struct revert_list *ret)
{
    size_t at = strlen(MAGIC);

    if (text->len < at || memcmp(text->data, MAGIC, at) != 0 || text->data[text->len - 1] != 0)
        return -EBADMSG;
    for (; at < text->len; at += strlen(text->data + at) + 1) {
        const char *line = text->data + at;
        if ((*line != 'd' && *line != 'r') || !is_revertible_path(line + 1))
            return -EBADMSG;
        revert_list_add(ret, line + 1, *line == 'r');
    }
    return 0;
}

int revert_recover(const struct revert_dirs *at)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct revert_list list = { 0 };
    struct revert_trace trace;
    int r = file_read(at->meta_fd, NOTE, NOTE_BYTES_MAX, &text);

    if (r == -ENOENT) {
        file_remove_tree(at->meta_fd, REPLACE_DIR);
        return 0;
    }
    if (r == 0)
        r = revert_intent_parse(&text, &list);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = revert_perform(at, &list, i, &trace);
    if (r == 0)
        r = revert_end(at, &list);
    revert_list_done(&list);
    return r;
}

int revert_log(int log_fd, const char *const *paths, size_t count)
{
    autodone(buf) struct buf lines = BUF_EMPTY;

    for (size_t i = 0; i < count; i++) {
        buf_addf(&lines, "{\"time_ns\":%" PRId64 ",\"change\":\"dropped\",\"path\":", clock_wall_ns());
        change_log_format_string(&lines, paths[i]);
        buf_add_str(&lines, "}\n");
    }
    return lines.len ? fd_write_full(log_fd, lines.data, lines.len) : 0;
}

/* ---- a delta at rest ---- */

struct removed_paths {
    char **paths; /* owned, each too */
    size_t count, cap;
};

static void add_removed(struct removed_paths *removed, const char *top, const char *below)
{
    vec_room(&removed->paths, &removed->cap, removed->count);
    removed->paths[removed->count++] = below ? xprintf("%s/%s", top, below) : xdup(top);
}

struct listed_below {
    const char *top;
    struct removed_paths *removed;
};

static int on_below(const struct file_entry *entry, void *cookie)
{
    struct listed_below *below = cookie;
    char name[NAME_MAX + 1];
    size_t dir_len = entry->path_len - strlen(entry->name);

    if (!whiteout_is_reserved(entry->name)) {
        add_removed(below->removed, below->top, entry->path);
        return FILE_WALK_ON;
    }
    int r = whiteout_target(entry->dirfd, entry->name, name);
    if (r > 0) {
        autofree char *path = xprintf("%.*s%s", (int) dir_len, entry->path, name);
        add_removed(below->removed, below->top, path);
    }
    return r < 0 ? r : FILE_WALK_ON;
}

/* The change log must say for each path that it is not covered any more. */
static int log_all(const struct revert_dirs *at, const struct revert_list *list)
{
    autofd int fd = path_open_beneath(at->meta_fd, "changes", O_RDWR | O_APPEND | O_CREAT, 0600);
    struct removed_paths removed = { 0 };
    struct stat before = { 0 };
    struct err err = ERR_NONE;
    int r;

    for (size_t i = 0; i < list->count; i++) {
        struct listed_below below = { list->items[i].path, &removed };
        if (list->items[i].replaces)
            continue;
        add_removed(&removed, list->items[i].path, NULL);
        /* The path may be a file, or nothing. */
        file_walk(at->data_fd, list->items[i].path, on_below, &below, &err);
    }
    r = fd < 0 ? fd : fstat(fd, &before) < 0 ? -errno : revert_log(fd, (const char *const *) removed.paths, removed.count);
    if (r == 0)
        change_log_rewrite_at_rest(at->meta_fd, at->data_fd, at->base_fd, fd, before.st_size);
    for (size_t i = 0; i < removed.count; i++) {
        read_log_before_revert_at_rest(at->meta_fd, at->data_fd, at->base_fd, removed.paths[i]);
        free(removed.paths[i]);
    }
    free(removed.paths);
    return r;
}

static int revert_at_rest(const struct revert_dirs *at, const struct fence_revert *reverts, size_t count, struct err *err)
{
    struct revert_list list = { 0 };
    struct revert_trace trace;
    int r = revert_recover(at), ended;

    if (r < 0)
        return err_errno(err, r, "finishing what was begun in the delta");
    r = revert_list_make(at, reverts, count, &list, err);
    if (r < 0)
        return r;
    r = log_all(at, &list);
    if (r == 0)
        r = revert_begin(at, &list);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = revert_perform(at, &list, i, &trace);
    ended = revert_end(at, &list);
    revert_list_done(&list);
    r = r < 0 ? r : ended;
    return r < 0 ? err_errno(err, r, "taking changes out of the delta") : 0;
}

int delta_revert(const char *delta_path, const struct fence_revert *reverts, size_t count, struct err *err)
{
    struct delta_info about;
    autofd int lock = -1, base = -1, work = -1, top = -1;
    int r = change_recover(delta_path, err);

    if (r == 0)
        r = delta_info_open(delta_path, &about, err);
    if (r != 0)
        return r;
    lock = path_open_beneath(about.meta_fd, "lock", O_RDWR | O_CREAT, 0600);
    top = open(delta_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    work = top < 0 ? -errno : path_open_beneath(top, "work", O_RDONLY | O_DIRECTORY, 0);
    base = path_open_real(about.base_path, O_PATH | O_DIRECTORY);
    if (base >= 0)
        r = delta_info_check_base(&about, base, err);
    if (r == 0 && (lock < 0 || work < 0))
        r = err_errno(err, lock < 0 ? lock : work, "opening delta '%s'", delta_path);
    if (r == 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
        r = err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", delta_path);
    if (r == 0)
        r = revert_at_rest(&(struct revert_dirs){ base, about.data_fd, work, about.meta_fd }, reverts, count, err);
    delta_info_done(&about);
    return r;
}
