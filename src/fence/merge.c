#include "fence/merge.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "fence/hidden_link.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/resolve.h"
#include "fence/whiteout.h"

#define GETDENTS_BYTES 65536

struct dir_listing *dir_listing_ref(struct dir_listing *listing)
{
    atomic_fetch_add(&listing->refs, 1);
    return listing;
}

void dir_listing_unref(struct dir_listing *listing)
{
    if (!listing || atomic_fetch_sub(&listing->refs, 1) != 1)
        return;
    free(listing->items);
    buf_done(&listing->names);
    free(listing);
}

size_t dir_listing_after(const struct dir_listing *listing, uint64_t cookie)
{
    size_t low = 0, high = listing->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (listing->items[middle].cookie <= cookie)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int cmp_listed(const void *a, const void *b)
{
    const struct dir_listing_item *x = a, *y = b;

    if (x->cookie != y->cookie)
        return x->cookie < y->cookie ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Names with equal hashes (which takes an effort) get consecutive cookies; only visible names count. */
void dir_listing_sort(struct dir_listing *listing)
{
    uint64_t last = COOKIE_DOTDOT;

    if (listing->count > 0)
        qsort(listing->items, listing->count, sizeof(*listing->items), cmp_listed);
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->items[i].cookie <= last)
            listing->items[i].cookie = last + 1;
        last = listing->items[i].cookie;
    }
}

/* The kernel's own record: glibc's readdir() only adds an allocation. */
struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

int merge_each_base(struct fence *f, struct inode *dir, merge_fn fn, void *cookie)
{
    autofd int fd = layer_open_listing(f, dir, LAYER_BASE);
    autofree char *bytes = NULL;
    bool may_be_hidden = hidden_links_any(f);
    struct stat st;
    int r = 0;

    if (fd < 0)
        return fd;
    if (may_be_hidden && fstat(fd, &st) < 0)
        return -errno;
    bytes = malloc(GETDENTS_BYTES);
    if (!bytes)
        return -ENOMEM;
    for (;;) {
        long n = syscall(SYS_getdents64, fd, bytes, GETDENTS_BYTES);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (long at = 0; at < n;) {
            const struct linux_dirent64 *d = (const void *) (bytes + at);
            at += d->d_reclen;
            if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 || whiteout_is_reserved(d->d_name))
                continue;
            if (may_be_hidden && d->d_type != DT_DIR && hidden_link_is_known(f, st.st_dev, d->d_ino))
                continue;
            r = fn(d->d_name, d->d_type, cookie);
            if (r)
                return r;
        }
    }
}

struct uncovered {
    struct fence *f;
    struct inode *dir;
    merge_fn fn;
    void *cookie;
};

static int uncovered_on_name(const char *name, uint8_t type, void *cookie)
{
    struct uncovered *u = cookie;

    tree_lock(u->f);
    const struct entry *e = entry_find(u->dir, name, strlen(name));
    bool covered = e && (e->flags & (ENTRY_UP | ENTRY_WHITEOUT));
    tree_unlock(u->f);
    return covered ? 0 : u->fn(name, type, u->cookie);
}

/* The delta's names are in memory. They are copied because `fn` may take the lock. */
static int each_in_delta(struct fence *f, struct inode *dir, merge_fn fn, void *cookie)
{
    autodone(buf) struct buf names = BUF_EMPTY;
    int r = 0;

    tree_lock(f);
    for (const struct entry *e = entry_next(dir, NULL); e; e = entry_next(dir, e)) {
        if ((e->flags & (ENTRY_UP | ENTRY_WHITEOUT)) != ENTRY_UP)
            continue;
        buf_add_char(&names, (char) e->type);
        buf_add(&names, e->name, (size_t) e->len + 1);
    }
    tree_unlock(f);
    for (size_t at = 0; r == 0 && at < names.len;) {
        const char *name = names.data + at + 1;
        r = fn(name, (uint8_t) names.data[at], cookie);
        at += strlen(name) + 2;
    }
    return r;
}

int merge_each(struct fence *f, struct inode *dir, merge_fn fn, void *cookie)
{
    struct uncovered u = { f, dir, fn, cookie };
    int r = 0;

    if (inode_has(dir, INODE_DEAD))
        return 0;
    if (inode_has(dir, INODE_BASE))
        r = merge_each_base(f, dir, uncovered_on_name, &u);
    return r ? r : each_in_delta(f, dir, fn, cookie);
}

struct lister {
    struct fence *f;
    struct inode *dir;
    struct match_state *match; /* owned reference */
    struct dir_listing *listing;
    size_t cap;
};

/* A hidden directory is listed if it is a passage. If no rule can show anything below it, the layers are not searched. */
static bool lister_shows(struct lister *l, const char *name, uint8_t type)
{
    autoptr(match_state) match = ruleset_step(l->f->rules, l->match, name, strlen(name));
    struct inode *inode;

    if (required_level_check(POLICY_OP_LIST, match_state_level(match), false) == 0)
        return true;
    if ((type != DT_DIR && type != DT_UNKNOWN) || !ruleset_may_show_below(l->f->rules, match))
        return false;
    if (resolve_name(l->f, l->dir, name, match, true, &inode, NULL) < 0)
        return false;
    inode_unref(l->f, inode);
    return true;
}

static int lister_add_name(const char *name, uint8_t type, void *cookie)
{
    struct lister *l = cookie;
    struct dir_listing *listing = l->listing;
    size_t len = strlen(name);

    if (!lister_shows(l, name, type))
        return 0;
    if (!listing)
        return 1;
    vec_room(&listing->items, &l->cap, listing->count);
    /* The buffer may move while it grows, so pointers are set at the end. */
    listing->items[listing->count++] = (struct dir_listing_item){
        .cookie = inode_number_of(4, name, len),
        .ino = ino_map_base_ino(l->f, l->dir, name, false),
        .name = (const char *) (uintptr_t) listing->names.len,
        .type = type,
    };
    buf_add(&listing->names, name, len + 1);
    return 0;
}

static int run_lister(struct fence *f, struct inode *dir, struct dir_listing *listing)
{
    struct lister l = { .f = f, .dir = dir, .match = inode_dup_match_state(f, dir), .listing = listing };
    int r = l.match ? merge_each(f, dir, lister_add_name, &l) : 0;

    match_state_unref(l.match);
    return r;
}

bool merge_shows_any(struct fence *f, struct inode *dir)
{
    return run_lister(f, dir, NULL) == 1;
}

static struct dir_listing *get_cached_listing(struct fence *f, struct inode *dir, bool may_be_old)
{
    struct dir_listing *cached;

    autolock(&f->names);
    cached = dir->dir->listing;
    if (cached && (may_be_old || (cached->version == dir->dir->version && !f->is_live)))
        return dir_listing_ref(cached);
    return NULL;
}

int merge_list(struct fence *f, struct inode *dir, bool may_be_old, struct dir_listing **ret_listing)
{
    struct dir_listing *listing = get_cached_listing(f, dir, may_be_old), *old;
    int r;

    if (listing) {
        *ret_listing = listing;
        return 0;
    }
    listing = xnew(struct dir_listing);
    listing->refs = 1;
    tree_lock(f);
    listing->version = dir->dir->version;
    tree_unlock(f);
    r = run_lister(f, dir, listing);
    if (r < 0) {
        dir_listing_unref(listing);
        return r;
    }
    for (size_t i = 0; i < listing->count; i++)
        listing->items[i].name = listing->names.data + (uintptr_t) listing->items[i].name;
    dir_listing_sort(listing);
    tree_lock(f);
    /* Created and renamed entries have inode numbers that do not follow from their name. */
    for (size_t i = 0; i < listing->count; i++) {
        struct dir_listing_item *item = &listing->items[i];
        const struct entry *e = entry_find(dir, item->name, strlen(item->name));
        if (e)
            item->ino = e->inode ? e->inode->ino : e->ino;
    }
    old = dir->dir->listing;
    dir->dir->listing = dir_listing_ref(listing);
    tree_unlock(f);
    dir_listing_unref(old);
    *ret_listing = listing;
    return 0;
}
