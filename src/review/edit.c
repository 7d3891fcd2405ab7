#include "review/edit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/overlay_delta.h"
#include "fence/whiteout.h"

bool edit_is_git(const char *path)
{
    const char *end = path + strlen(path);
    struct path_component c;

    for (const char *at = path; path_next_component(&at, end, &c);) {
        if (c.len == 4 && strncasecmp(c.name, ".git", 4) == 0)
            return true;
    }
    return false;
}

/* A new directory above a chosen path is chosen as well. */
static bool is_chosen(struct edit_list *list, const char *path, bool is_new_dir, size_t *ret_at)
{
    autofree char *absolute = xprintf("/%s", path);
    struct path_set_item *item = path_set_at_or_above(&list->chosen, absolute);
    bool chosen = list->chosen.count == 0 || item || (is_new_dir && path_set_has_beneath(&list->chosen, absolute));

    if (ret_at)
        *ret_at = item && strcmp(item->path, absolute) == 0 ? item->tag + 1 : 0;
    for (; item; item = path_set_above(&list->chosen, item->path))
        item->is_marked = true;
    return chosen;
}

/* Returns 1, 0 for none, or -errno: without a free descriptor the review must fail, and not miss changes. The same holds
 * below. */
static int look_at_base(const struct edit_list *list, const char *path, struct stat *ret)
{
    autofd int fd = path_open_beneath(list->base_fd, path, O_PATH, 0);

    if (fd < 0)
        return path_is_absent(fd) ? 0 : fd;
    return fstat(fd, ret) < 0 ? -errno : 1;
}

static void add_edit(struct edit_list *list, const struct edit *edit)
{
    size_t at;

    if (!is_chosen(list, edit->path, S_ISDIR(edit->now) && !S_ISDIR(edit->was.st_mode), &at))
        return;
    vec_room(&list->items, &list->cap, list->count);
    struct edit *taken = &list->items[list->count++];
    *taken = *edit;
    taken->path = xdup(edit->path);
    list->text_bytes += strlen(edit->path);
    taken->chosen_at = at;
}

static void add_unseen(struct edit_list *list, const char *path)
{
    if (!is_chosen(list, path, false, NULL))
        return;
    vec_room(&list->unseen, &list->unseen_cap, list->unseen_count);
    list->unseen[list->unseen_count++] = xdup(path);
    list->text_bytes += strlen(path);
}

static void add_deleted(struct edit_list *list, const char *path, const struct stat *st)
{
    add_edit(list, &(struct edit){ .kind = CHANGE_DELETED, .path = (char *) (uintptr_t) path, .was = *st });
}

/* ---- deleted directories ---- */

/* The change log has the agent's removal. Without one, nothing was hidden from the agent, and the file must have existed
 * before. */
static bool has_witness(const struct edit_list *list, const char *path, const struct stat *was)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, path);

    if (entry)
        return entry->was_removed;
    return list->delta.is_unwitnessed &&
           (int64_t) was->st_ctim.tv_sec * CLOCK_NS_PER_SEC + was->st_ctim.tv_nsec <= list->delta.made_ns;
}

struct expansion {
    struct edit_list *list;
    const char *top;
};

static int on_deleted(const struct file_entry *entry, void *cookie)
{
    struct expansion *x = cookie;

    if (x->list->text_bytes > EDIT_LIST_TEXT_MAX)
        return -E2BIG;
    autofree char *path = xprintf("%s/%s", x->top, entry->path);

    if (edit_is_git(entry->name)) {
        add_unseen(x->list, path);
        return FILE_WALK_SKIP;
    }
    if (S_ISDIR(entry->st->st_mode) || has_witness(x->list, path, entry->st))
        add_deleted(x->list, path, entry->st);
    else
        add_unseen(x->list, path);
    return FILE_WALK_ON;
}

static int walk_deleted(struct edit_list *list, const char *path)
{
    struct expansion x = { list, path };
    struct err err = ERR_NONE;
    int r = file_walk(list->base_fd, path, on_deleted, &x, &err);

    return path_is_absent(r) ? 0 : r;
}

/* The path has its own whiteout, and is not just in a directory that hides all of the base. */
static int has_marker(const struct edit_list *list, const char *path)
{
    char marker[NAME_MAX + 1];
    const char *name;
    autofd int parent = -1;
    struct stat st;
    int r = path_open_parent_beneath(list->delta.data_fd, path, &parent, &name);

    if (r < 0)
        return path_is_absent(r) ? 0 : r;
    whiteout_name(name, marker);
    return fstatat(parent, marker, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && overlay_delta_is_whiteout(&st));
}

/* The deletion was approved, and the present file was created later: a driver that cannot drop its whiteout still has it. */
static bool is_deletion_approved(const struct edit_list *list, const char *path)
{
    const struct base_entry *entry = list->delta.is_unwitnessed ? change_log_index_find(&list->log_index, path) : NULL;

    return entry && entry->base == BASE_ENTRY_ABSENT;
}

static int add_deleted_path(struct edit_list *list, const char *path)
{
    struct stat was;
    int r = look_at_base(list, path, &was);

    if (r <= 0)
        return r;
    if (!S_ISDIR(was.st_mode) && is_deletion_approved(list, path)) {
        add_unseen(list, path);
        return 0;
    }
    if (S_ISDIR(was.st_mode)) {
        add_deleted(list, path, &was);
        return walk_deleted(list, path);
    }
    r = has_marker(list, path);
    if (r < 0)
        return r;
    if (r > 0 || has_witness(list, path, &was))
        add_deleted(list, path, &was);
    else
        add_unseen(list, path);
    return 0;
}

/* ---- changed files ---- */

static int is_as_it_was_copied(const struct edit_list *list, const char *path, const struct base_entry *entry, uint64_t size)
{
    autofd int fd = -1;
    uint8_t hash[CHANGE_LOG_INDEX_HASH_BYTES];
    int r;

    if (!entry->has_hash || entry->size_bytes != size)
        return 0;
    fd = path_open_beneath(list->delta.data_fd, path, O_RDONLY | O_NONBLOCK, 0);
    r = fd < 0 ? fd : change_log_index_hash(fd, hash);
    if (r < 0)
        return path_is_absent(r) ? 0 : r;
    return memcmp(hash, entry->hash, sizeof(hash)) == 0;
}

mode_t edit_new_mode(mode_t mode)
{
    mode_t most = S_ISDIR(mode) || (mode & 0111) ? 0755 : 0644;

    return S_ISREG(mode) || S_ISDIR(mode) ? (mode & S_IFMT) | (most & (mode | 0700)) : mode;
}

/* A new file gets fewer mode bits by an approval than the agent gave it; that does not count as a change. */
bool edit_mode_has_moved(const struct edit *edit, mode_t merge_base, mode_t project)
{
    mode_t landed = edit_new_mode(S_IFREG | (merge_base & 0777));

    if (!S_ISREG(edit->now) || !S_ISREG(project) || !((edit->now ^ project) & 0777) || !((merge_base ^ project) & 0777))
        return false;
    return !(merge_base & 0777 & ~landed) || (project & 0777 & ~landed) || ((project ^ landed) & 0700);
}

/* Removes the base's own changes from the edit. Returns 0 if nothing is left. */
static int keep_agents_part(const struct edit_list *list, struct edit *edit)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);
    int r;

    if (!entry || entry->base != BASE_ENTRY_PRESENT || !S_ISREG(edit->now) || !S_ISREG(edit->was.st_mode))
        return 1;
    if ((entry->mode & 0777) == (edit->now & 0777))
        edit->now = S_IFREG | (edit->was.st_mode & 0777);
    r = edit->kind == CHANGE_MODIFIED ? is_as_it_was_copied(list, edit->path, entry, edit->now_bytes) : 0;
    if (r < 0)
        return r;
    if (r > 0) {
        edit->kind = CHANGE_MODE;
        edit->now_bytes = (uint64_t) edit->was.st_size;
    }
    return edit->kind != CHANGE_MODE || ((edit->now ^ edit->was.st_mode) & 0777);
}

static int add_present_path(struct edit_list *list, const struct change *change)
{
    struct edit edit = {
        .kind = change->kind, .path = (char *) (uintptr_t) change->path, .now = change->mode, .now_bytes = change->size_bytes
    };
    int r;

    if (!S_ISREG(edit.now) && !S_ISDIR(edit.now) && !S_ISLNK(edit.now)) {
        list->special_count++;
        return 0;
    }
    r = look_at_base(list, change->path, &edit.was);
    if (r < 0)
        return r;
    if (r == 0)
        edit.was = (struct stat){ 0 };
    /* A diff does not show modes of directories. */
    if (S_ISDIR(edit.was.st_mode) && S_ISDIR(edit.now))
        return 0;
    if ((edit.was.st_mode ^ edit.now) & S_IFMT)
        edit.now = edit_new_mode(edit.now);
    r = S_ISDIR(edit.was.st_mode) && !S_ISDIR(edit.now) ? walk_deleted(list, change->path) : 0;
    if (r < 0)
        return r;
    r = keep_agents_part(list, &edit);
    if (r > 0)
        add_edit(list, &edit);
    return r < 0 ? r : 0;
}

static int on_change(const struct change *change, void *cookie)
{
    struct edit_list *list = cookie;

    if (list->text_bytes > EDIT_LIST_TEXT_MAX)
        return -E2BIG;
    if (edit_is_git(change->path)) {
        list->git_count++;
        return 0;
    }
    if (change->kind == CHANGE_TOO_DEEP) {
        list->deep_count++;
        return 0;
    }
    return change->kind == CHANGE_DELETED ? add_deleted_path(list, change->path) : add_present_path(list, change);
}

/* ---- loading ---- */

static int open_base(struct edit_list *list, struct err *err)
{
    list->base_fd = delta_info_open_base(&list->delta, O_RDONLY, err);
    return list->base_fd < 0 ? list->base_fd : 0;
}

int edit_list_clean(const struct edit_list *list, const char *path, struct buf *out, struct err *err)
{
    const char *base_path = list->delta.base_path;
    size_t len = strlen(base_path);
    int r;

    if (path_is_beneath(base_path, path) && len > 1)
        path = path[len] ? path + len : "/";
    r = path_clean(path, strlen(path), out);
    if (r == 0)
        return 0;
    autodone(buf) struct buf shown = BUF_EMPTY;
    buf_add_excerpt(&shown, path, strlen(path));
    return err_invalid(err, "'%s' is no path in the sandbox", shown.data ? shown.data : "");
}

static int clean_chosen_paths(struct edit_list *list, const char *const *paths, size_t count, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    for (size_t i = 0; i < count; i++) {
        int r = edit_list_clean(list, paths[i], &clean, err);
        if (r < 0)
            return r;
        path_set_add(&list->chosen, clean.data, i);
    }
    path_set_sort(&list->chosen);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct edit *) a)->path, ((const struct edit *) b)->path);
}

/* A directory stays if something in it stays. */
static void keep_directories(struct edit_list *list)
{
    autodone(path_set) struct path_set unseen = PATH_SET_EMPTY;
    size_t kept = 0;

    for (size_t i = 0; i < list->unseen_count; i++) {
        autofree char *absolute = xprintf("/%s", list->unseen[i]);
        path_set_add(&unseen, absolute, i);
    }
    path_set_sort(&unseen);
    for (size_t i = 0; i < list->count; i++) {
        struct edit *e = &list->items[i];
        autofree char *absolute = xprintf("/%s", e->path);
        if (e->kind == CHANGE_DELETED && S_ISDIR(e->was.st_mode) && path_set_has_beneath(&unseen, absolute))
            free(e->path);
        else
            list->items[kept++] = *e;
    }
    list->count = kept;
}

static void finish_edit_list(struct edit_list *list, const char *const *paths)
{
    size_t first = SIZE_MAX;

    /* Sorted by bytes: the order is always the same, and a directory comes before its contents. */
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), by_path);
    if (list->unseen_count > 0)
        keep_directories(list);
    for (size_t i = 0; i < list->chosen.count; i++) {
        if (!list->chosen.items[i].is_marked && list->chosen.items[i].tag < first)
            first = list->chosen.items[i].tag;
    }
    list->unmatched = first < SIZE_MAX ? paths[first] : NULL;
}

static int load_list(struct edit_list *list, const char *delta_path, const char *const *paths, size_t path_count,
                     struct err *err)
{
    int r = change_recover(delta_path, err);

    if (r == 0)
        r = delta_info_open(delta_path, &list->delta, err);
    if (r == 0)
        r = open_base(list, err);
    if (r == 0)
        r = change_log_index_load(list->delta.meta_fd, &list->log_index, err);
    if (r == 0)
        r = clean_chosen_paths(list, paths, path_count, err);
    if (r == 0)
        r = change_each(delta_path, on_change, list, err);
    if (r == 0)
        finish_edit_list(list, paths);
    return r;
}

int edit_list_load(const char *delta_path, const char *const *paths, size_t path_count, struct edit_list *ret, struct err *err)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    int r = load_list(&list, delta_path, paths, path_count, err);

    if (r < 0)
        return r;
    *ret = list;
    list = EDIT_LIST_EMPTY;
    return 0;
}

void edit_list_done(struct edit_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    for (size_t i = 0; i < list->unseen_count; i++)
        free(list->unseen[i]);
    free(list->items);
    free(list->unseen);
    path_set_done(&list->chosen);
    change_log_index_done(&list->log_index);
    delta_info_done(&list->delta);
    cleanup_fd(&list->base_fd);
    *list = EDIT_LIST_EMPTY;
}

bool edit_is_file(const struct edit *edit)
{
    return (edit->now && !S_ISDIR(edit->now)) || (edit->was.st_mode && !S_ISDIR(edit->was.st_mode));
}

size_t edit_list_files(const struct edit_list *list)
{
    size_t files = 0;

    for (size_t i = 0; i < list->count; i++)
        files += edit_is_file(&list->items[i]);
    return files;
}
