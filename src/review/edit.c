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

struct load {
    struct edit_list *list;
    struct buf *filters; /* cleaned, "/a/b" */
    bool *is_used;
    size_t filter_count;
};

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

/* Also a directory above a chosen path, if it has to be made for it. */
static bool is_chosen(struct load *l, const char *path, bool is_new_dir)
{
    autofree char *absolute = xprintf("/%s", path);
    bool chosen = l->filter_count == 0;

    for (size_t i = 0; i < l->filter_count; i++) {
        if (path_is_beneath(l->filters[i].data, absolute))
            chosen = l->is_used[i] = true;
        else
            chosen |= is_new_dir && path_is_beneath(absolute, l->filters[i].data);
    }
    return chosen;
}

/* 1, 0 for nothing, or -errno: those who review must not be told less because there was no descriptor to look with. So below. */
static int look_at_base(const struct edit_list *list, const char *path, struct stat *ret)
{
    autofd int fd = path_open_beneath(list->base_fd, path, O_PATH, 0);

    if (fd < 0)
        return path_is_absent(fd) ? 0 : fd;
    return fstat(fd, ret) < 0 ? -errno : 1;
}

static void add_edit(struct load *l, const struct edit *edit)
{
    struct edit_list *list = l->list;

    if (!is_chosen(l, edit->path, S_ISDIR(edit->now) && !S_ISDIR(edit->was.st_mode)))
        return;
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count] = *edit;
    list->items[list->count++].path = xdup(edit->path);
}

static void add_unseen(struct load *l, const char *path)
{
    struct edit_list *list = l->list;

    if (!is_chosen(l, path, false))
        return;
    vec_room(&list->unseen, &list->unseen_cap, list->unseen_count);
    list->unseen[list->unseen_count++] = xdup(path);
}

static void add_deleted(struct load *l, const char *path, const struct stat *st)
{
    add_edit(l, &(struct edit){ .kind = CHANGE_DELETED, .path = (char *) (uintptr_t) path, .was = *st });
}

/* ---- deleted directories ---- */

/* Somebody saw the agent remove it; or nothing was hidden from the agent, and it was there before. */
static bool has_witness(const struct edit_list *list, const char *path, const struct stat *was)
{
    const struct diary_page *page = diary_find(&list->diary, path);

    if (page)
        return page->was_removed;
    return list->delta.is_unwitnessed &&
           (int64_t) was->st_ctim.tv_sec * CLOCK_NS_PER_SEC + was->st_ctim.tv_nsec <= list->delta.made_ns;
}

struct expansion {
    struct load *l;
    const char *top;
};

static int on_deleted(const struct file_entry *entry, void *cookie)
{
    struct expansion *x = cookie;
    autofree char *path = xprintf("%s/%s", x->top, entry->path);

    if (edit_is_git(entry->name)) {
        add_unseen(x->l, path);
        return FILE_WALK_SKIP;
    }
    if (S_ISDIR(entry->st->st_mode) || has_witness(x->l->list, path, entry->st))
        add_deleted(x->l, path, entry->st);
    else
        add_unseen(x->l, path);
    return FILE_WALK_ON;
}

static int expand(struct load *l, const char *path)
{
    struct expansion x = { l, path };
    struct err err = ERR_NONE;
    int r = file_walk(l->list->base_fd, path, on_deleted, &x, &err);

    return path_is_absent(r) ? 0 : r;
}

/* A marker of its own, as against a directory that nothing of the base shows through any more. */
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

/* That it is deleted was approved, and what is there now came later: a driver that cannot drop its marker has it still. */
static bool is_settled(const struct edit_list *list, const char *path)
{
    const struct diary_page *page = list->delta.is_unwitnessed ? diary_find(&list->diary, path) : NULL;

    return page && page->base == DIARY_BASE_ABSENT;
}

static int take_deleted(struct load *l, const char *path)
{
    struct stat was;
    int r = look_at_base(l->list, path, &was);

    if (r <= 0)
        return r;
    if (!S_ISDIR(was.st_mode) && is_settled(l->list, path)) {
        add_unseen(l, path);
        return 0;
    }
    if (S_ISDIR(was.st_mode)) {
        add_deleted(l, path, &was);
        return expand(l, path);
    }
    r = has_marker(l->list, path);
    if (r < 0)
        return r;
    if (r > 0 || has_witness(l->list, path, &was))
        add_deleted(l, path, &was);
    else
        add_unseen(l, path);
    return 0;
}

/* ---- changed files ---- */

static int is_as_it_was_copied(const struct edit_list *list, const char *path, const struct diary_page *page, uint64_t size)
{
    autofd int fd = -1;
    uint8_t hash[DIARY_HASH_BYTES];
    int r;

    if (!page->has_hash || page->size_bytes != size)
        return 0;
    fd = path_open_beneath(list->delta.data_fd, path, O_RDONLY | O_NONBLOCK, 0);
    r = fd < 0 ? fd : diary_hash(fd, hash);
    if (r < 0)
        return path_is_absent(r) ? 0 : r;
    return memcmp(hash, page->hash, sizeof(hash)) == 0;
}

/* Takes out what is the base's doing, not the agent's. 0 when nothing is left. */
static int is_the_agents(const struct edit_list *list, struct edit *edit)
{
    const struct diary_page *page = diary_find(&list->diary, edit->path);
    int r;

    if (!page || page->base != DIARY_BASE_PRESENT || !S_ISREG(edit->now) || !S_ISREG(edit->was.st_mode))
        return 1;
    if ((page->mode & 0777) == (edit->now & 0777))
        edit->now = S_IFREG | (edit->was.st_mode & 0777);
    r = edit->kind == CHANGE_MODIFIED ? is_as_it_was_copied(list, edit->path, page, edit->now_bytes) : 0;
    if (r < 0)
        return r;
    if (r > 0) {
        edit->kind = CHANGE_MODE;
        edit->now_bytes = (uint64_t) edit->was.st_size;
    }
    return edit->kind != CHANGE_MODE || ((edit->now ^ edit->was.st_mode) & 0777);
}

static int take_present(struct load *l, const struct change *change)
{
    struct edit edit = { change->kind, (char *) (uintptr_t) change->path, { 0 }, change->mode, change->size_bytes };
    int r;

    if (!S_ISREG(edit.now) && !S_ISDIR(edit.now) && !S_ISLNK(edit.now)) {
        l->list->special_count++;
        return 0;
    }
    r = look_at_base(l->list, change->path, &edit.was);
    if (r < 0)
        return r;
    if (r == 0)
        edit.was = (struct stat){ 0 };
    r = S_ISDIR(edit.was.st_mode) && !S_ISDIR(edit.now) ? expand(l, change->path) : 0;
    if (r < 0)
        return r;
    r = is_the_agents(l->list, &edit);
    if (r > 0)
        add_edit(l, &edit);
    return r < 0 ? r : 0;
}

static int on_change(const struct change *change, void *cookie)
{
    struct load *l = cookie;

    if (edit_is_git(change->path)) {
        l->list->git_count++;
        return 0;
    }
    return change->kind == CHANGE_DELETED ? take_deleted(l, change->path) : take_present(l, change);
}

/* ---- loading ---- */

static int open_base(struct edit_list *list, struct err *err)
{
    list->base_fd = path_open_real(list->delta.base_path, O_RDONLY | O_DIRECTORY);
    if (list->base_fd < 0)
        return err_errno(err, list->base_fd, "opening '%s', which the sandbox was made over", list->delta.base_path);
    return 0;
}

static int clean_filter(const char *base_path, const char *path, struct buf *out, struct err *err)
{
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

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct edit *) a)->path, ((const struct edit *) b)->path);
}

static bool holds_unseen(const struct edit_list *list, const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < list->unseen_count; i++) {
        if (strncmp(list->unseen[i], path, len) == 0 && list->unseen[i][len] == '/')
            return true;
    }
    return false;
}

/* A directory in which something stays, stays. */
static void keep_directories(struct edit_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        struct edit *e = &list->items[i];
        if (e->kind == CHANGE_DELETED && S_ISDIR(e->was.st_mode) && holds_unseen(list, e->path))
            free(e->path);
        else
            list->items[kept++] = *e;
    }
    list->count = kept;
}

static void finish(struct load *l, const char *const *paths)
{
    struct edit_list *list = l->list;

    /* By bytes: the same every time, and a directory before what is in it. */
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), by_path);
    if (list->unseen_count > 0)
        keep_directories(list);
    for (size_t i = 0; i < l->filter_count && !list->unmatched; i++)
        list->unmatched = l->is_used[i] ? NULL : paths[i];
}

static int load(struct load *l, const char *delta_path, const char *const *paths, struct err *err)
{
    struct edit_list *list = l->list;
    int r = change_settle(delta_path, err);

    if (r == 0)
        r = delta_about_open(delta_path, &list->delta, err);
    if (r == 0)
        r = open_base(list, err);
    if (r == 0)
        r = diary_load(list->delta.meta_fd, &list->diary, err);
    for (size_t i = 0; i < l->filter_count && r == 0; i++)
        r = clean_filter(list->delta.base_path, paths[i], &l->filters[i], err);
    if (r == 0)
        r = change_each(delta_path, on_change, l, err);
    if (r == 0)
        finish(l, paths);
    return r;
}

int edit_list_load(const char *delta_path, const char *const *paths, size_t path_count, struct edit_list *ret, struct err *err)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    struct load l = { &list, xalloc((path_count + 1) * sizeof(struct buf)), xalloc(path_count + 1), path_count };
    int r = load(&l, delta_path, paths, err);

    for (size_t i = 0; i < path_count; i++)
        buf_done(&l.filters[i]);
    free(l.filters);
    free(l.is_used);
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
    diary_done(&list->diary);
    delta_about_done(&list->delta);
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
