#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/hash_table.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/attr.h"
#include "fence/casefold.h"
#include "fence/delta.h"
#include "fence/fence_int.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/whiteout.h"

/*
 * Loading. Everything in the delta becomes an entry in memory: names, markers, directories and theirs. Files with one name need
 * no inode for that. Names of one file (hard links) are joined by device and number of the backing file, and their inode stays.
 * Directories wait in a list, so neither stack nor descriptors grow with the depth.
 */
struct hard_link {
    struct hash_link link;
    dev_t dev;
    ino_t ino;
    struct inode *inode;
};

struct loading {
    struct fence *f;
    struct hash_table links; /* of owned struct hard_link */
    struct inode **todo;     /* owned array; directories to be read, with a reference to each */
    size_t todo_count, todo_cap;
    int64_t bytes, names;
};

static struct inode *linked_inode(struct loading *l, const struct stat *st, uint64_t ino)
{
    uint64_t hash = st->st_ino ^ st->st_dev * 0x9e3779b97f4a7c15ULL;
    struct hard_link *hard;

    for (struct hash_link *link = hash_table_first(&l->links, hash); link; link = hash_link_next(link)) {
        hard = hash_link_in(link, struct hard_link, link);
        if (hard->dev == st->st_dev && hard->ino == st->st_ino)
            return hard->inode;
    }
    hard = xnew(struct hard_link);
    *hard = (struct hard_link){ .dev = st->st_dev, .ino = st->st_ino };
    hard->inode = inode_new(l->f, st->st_mode, ino, INODE_UP | INODE_LINKED);
    hard->inode->refs = 0;
    hash_table_add(&l->links, &hard->link, hash);
    l->bytes += (int64_t) quota_bytes_of(st);
    return hard->inode;
}

static struct entry *load_entry(struct loading *l, struct inode *dir, const char *name, unsigned flag)
{
    struct fence *f = l->f;
    size_t len = strlen(name);
    struct match_state *at = dir == f->root ? match_state_ref(ruleset_root(f->rules)) : match_state_ref(dir->names->match);
    struct entry *e = entry_find(dir, name, len);

    if (!e)
        e = entry_add(dir, name, len, ruleset_step(f->rules, at, name, len), inode_number_of(dir->ino, name, len));
    match_state_unref(at);
    e->flags |= (uint8_t) flag;
    l->names++;
    return e;
}

/* A file beside its own marker is left over from a crash: the marker wins, the file is removed. */
static int sweep_leftovers(struct fence *f, struct inode *dir, int fd)
{
    for (struct entry *e = entry_next(dir, NULL); e; e = entry_next(dir, e)) {
        if ((e->flags & (ENTRY_UP | ENTRY_WHITEOUT)) != (ENTRY_UP | ENTRY_WHITEOUT))
            continue;
        if (renameat(fd, e->name, f->work_fd, "leftover") < 0)
            return -errno;
        file_remove_tree(f->work_fd, "leftover");
        e->flags = ENTRY_WHITEOUT;
    }
    return 0;
}

/* [locked] A directory that is deeper than allowed was made without a fence, and is not read. */
static void load_subdir(struct loading *l, struct inode *dir, struct entry *e, const struct stat *st)
{
    struct inode *inode;

    if (dir->depth >= DEPTH_MAX)
        return;
    inode = inode_new(l->f, st->st_mode, e->ino, INODE_UP);
    entry_bind(e, inode);
    inode->dir->mtime_ns = inode->dir->ctime_ns = clock_ns_of_timespec(st->st_mtim);
    inode->dir->atime_ns = clock_ns_of_timespec(st->st_atim);
    vec_room(&l->todo, &l->todo_cap, l->todo_count);
    l->todo[l->todo_count++] = inode;
}

static int load_name(struct loading *l, struct inode *dir, int fd, const char *name)
{
    char deleted[NAME_MAX + 1];
    struct stat st;
    struct entry *e;
    bool is_linked;

    if (whiteout_is_reserved(name)) {
        int r = whiteout_target(fd, name, deleted);
        if (r > 0)
            load_entry(l, dir, deleted, ENTRY_WHITEOUT);
        return r < 0 ? r : 0;
    }
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    is_linked = S_ISREG(st.st_mode) && st.st_nlink > 1;
    e = load_entry(l, dir, name, ENTRY_UP);
    e->ino = ino_map_find(l->f, dir, name, is_linked);
    e->type = (uint8_t) IFTODT(st.st_mode);
    if (S_ISDIR(st.st_mode))
        return 0;
    if (is_linked) {
        entry_bind(e, linked_inode(l, &st, e->ino));
        e->ino = e->inode->ino;
    } else {
        l->bytes += (int64_t) quota_bytes_of(&st);
    }
    return 0;
}

/* [locked; no other thread runs yet] Subdirectories come last, after leftovers are removed. */
static int load_names(struct loading *l, struct inode *inode, int fd)
{
    DIR *dir = directory_open(fd);
    int r = dir ? 0 : -errno;

    for (const struct dirent *d; r == 0 && (d = directory_next(dir));)
        r = load_name(l, inode, fd, d->d_name);
    cleanup_directory(&dir);
    if (r == 0)
        r = sweep_leftovers(l->f, inode, fd);
    for (struct entry *e = entry_next(inode, NULL); r == 0 && e; e = entry_next(inode, e)) {
        struct stat st;
        if ((e->flags & ENTRY_UP) && e->type == DT_DIR && fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            load_subdir(l, inode, e, &st);
    }
    return r;
}

/* [locked; no other thread runs yet] */
static int load_dir(struct loading *l, struct inode *inode)
{
    struct fence *f = l->f;
    autodone(buf) struct buf path = BUF_EMPTY;
    autofd int fd = -1;
    struct stat base;
    int r = 0;

    inode_add_path(inode, &path);
    fd = path_open_beneath(f->data_fd, path.len ? path.data : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    if (inode != f->root && !whiteout_is_opaque(fd)) {
        const struct entry *e = inode->names;
        pthread_mutex_unlock(&f->names);
        r = layer_base_has(f, e->parent, e->name, &base);
        pthread_mutex_lock(&f->names);
        if (r == 1 && S_ISDIR(base.st_mode))
            inode_set(inode, INODE_BASE);
    }
    return r < 0 ? r : load_names(l, inode, fd);
}

/* [locked; no other thread runs yet] */
static int load_all(struct loading *l)
{
    int r = load_dir(l, l->f->root);

    while (l->todo_count > 0) {
        struct inode *inode = l->todo[--l->todo_count];
        if (r == 0)
            r = load_dir(l, inode);
        inode_unref_locked(l->f, inode);
    }
    free(l->todo);
    return r;
}

int delta_load(struct fence *f, struct err *err)
{
    struct loading l = { .f = f };
    int r;

    tree_lock(f);
    r = load_all(&l);
    /* A file that had several names and is now known by one only needs no special treatment. */
    for (struct hash_link *link = hash_table_next(&l.links, NULL), *next; link; link = next) {
        struct hard_link *hard = hash_link_in(link, struct hard_link, link);
        next = hash_table_next(&l.links, link);
        if (hard->inode->names && !hard->inode->names->name_next)
            inode_clear(hard->inode, INODE_LINKED);
        free(hard);
    }
    tree_unlock(f);
    hash_table_done(&l.links);
    quota_add(&f->quota, l.bytes, l.names);
    if (r == 0)
        r = ino_map_end_load(f);
    return r < 0 ? err_errno(err, r, "reading the delta") : 0;
}

struct roots {
    struct fence *f;
    struct buf made;
};

/* Restores the parents' attributes: the base's mode, and the time of unchanged directories. */
static void restore_root_parents(struct fence *f, const char *path)
{
    struct timespec times[2] = { clock_timespec_of_ns(f->version_ns), clock_timespec_of_ns(f->version_ns) };
    size_t len = strlen(path);

    while (len > 0) {
        autofree char *prefix = xdupn(path, len);
        autofd int base = path_open_beneath(f->base_fd, prefix, O_PATH | O_DIRECTORY, 0);
        autofd int made = path_open_beneath(f->data_fd, prefix, O_RDONLY | O_DIRECTORY, 0);
        struct stat st;
        if (base >= 0 && fstat(base, &st) == 0 && made >= 0)
            fchmod(made, st.st_mode & 01777);
        if (made >= 0)
            futimens(made, times);
        while (len > 0 && path[--len] != '/')
            continue;
    }
}

/* Makes only what is missing. */
static int make_root(const char *path, void *cookie)
{
    struct roots *roots = cookie;
    struct fence *f = roots->f;
    struct stat st;
    int fd = path_open_beneath(f->base_fd, path + 1, O_PATH, 0);

    if (fd >= 0)
        close(fd);
    if (fd >= 0 && casefold_check_path(f->base_fd, path + 1) == 0)
        return 0;
    fd = path_open_beneath(f->data_fd, path + 1, O_PATH, 0);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (path_mkdirs_beneath(f->data_fd, path + 1, 0755) == 0 && fstatat(f->data_fd, path + 1, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        restore_root_parents(f, path + 1);
        buf_add_str(&roots->made, path + 1);
        buf_add_char(&roots->made, '\n');
    }
    return 0;
}

/* Saves their names, because they are no change while they are empty. */
int delta_make_roots(struct fence *f, struct err *err)
{
    autofd int fd = openat(f->meta_fd, "roots", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct roots roots = { .f = f };
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "making writable directories");
    r = ruleset_each_writable_root(f->rules, make_root, &roots);
    if (r == 0 && roots.made.len > 0 && write(fd, roots.made.data, roots.made.len) < 0)
        r = -errno;
    buf_done(&roots.made);
    return r < 0 ? err_errno(err, r, "making writable directories") : 0;
}
