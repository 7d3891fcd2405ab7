#include "fence/passage.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/merge.h"

/*
 * The search happens when first needed, and answers are cached by inode number, because the inode of a hidden directory need
 * not stay in memory. Changes made through the fence keep them right: nothing in a directory that is not shown can be reached,
 * so nothing visible can be created there, and a passage that is shown stays shown. A live base changes without us: then
 * negative answers are forgotten, and all of them when a passage itself is replaced (base_watch.c).
 */
struct passage_answer {
    uint64_t ino; /* 0: free */
    bool shown;
};

struct passages {
    pthread_mutex_t lock;
    uint64_t forgotten;             /* counts when answers were forgotten: a search that began before is not cached after it */
    struct passage_answer *answers; /* owned; open addressing */
    size_t cap, count;
};

struct passages *passages_new(void)
{
    struct passages *p = xnew(struct passages);

    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void passages_free(struct passages *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->answers);
    free(p);
}

static struct passage_answer *slot_of(struct passages *p, uint64_t ino)
{
    size_t i = ino & (p->cap - 1);

    while (p->answers[i].ino && p->answers[i].ino != ino)
        i = (i + 1) & (p->cap - 1);
    return &p->answers[i];
}

static void passages_put(struct passages *p, uint64_t ino, bool shown)
{
    if (p->count * 2 >= p->cap) {
        struct passages old = *p;
        p->cap = old.cap ? old.cap * 2 : 16;
        p->answers = xalloc(p->cap * sizeof(*p->answers));
        for (size_t i = 0; i < old.cap; i++) {
            if (old.answers[i].ino)
                *slot_of(p, old.answers[i].ino) = old.answers[i];
        }
        free(old.answers);
    }
    struct passage_answer *slot = slot_of(p, ino);
    p->count += !slot->ino;
    *slot = (struct passage_answer){ ino, slot->shown || shown };
}

static bool passages_find(struct passages *p, uint64_t ino, bool *ret_shown, uint64_t *ret_forgotten)
{
    autolock(&p->lock);
    struct passage_answer *slot = p->cap ? slot_of(p, ino) : NULL;

    *ret_forgotten = p->forgotten;
    if (!slot || !slot->ino)
        return false;
    *ret_shown = slot->shown;
    return true;
}

bool passage_shows(struct fence *f, struct inode *dir)
{
    uint64_t forgotten;
    bool shown = false;

    if (inode_has(dir, INODE_PASSAGE))
        return true;
    if (!passages_find(f->passages, dir->ino, &shown, &forgotten)) {
        shown = merge_shows_any(f, dir);
        pthread_mutex_lock(&f->passages->lock);
        /* A directory that lost its name during the search appears empty; what has the name now may well lead somewhere. */
        if (f->passages->forgotten == forgotten && (shown || !inode_has(dir, INODE_DEAD)))
            passages_put(f->passages, dir->ino, shown);
        pthread_mutex_unlock(&f->passages->lock);
    }
    if (shown)
        inode_set(dir, INODE_PASSAGE);
    return shown;
}

bool passage_was_shown(struct fence *f, uint64_t ino)
{
    uint64_t forgotten;
    bool shown = false;

    return passages_find(f->passages, ino, &shown, &forgotten) && shown;
}

void passages_forget_absent(struct fence *f)
{
    struct passages *p = f->passages;

    autolock(&p->lock);
    p->forgotten++;
    struct passages old = *p;
    p->answers = NULL;
    p->cap = p->count = 0;
    for (size_t i = 0; i < old.cap; i++) {
        if (old.answers[i].ino && old.answers[i].shown)
            passages_put(p, old.answers[i].ino, true);
    }
    free(old.answers);
}

void passages_forget(struct fence *f)
{
    autolock(&f->passages->lock);
    f->passages->forgotten++;
    free(f->passages->answers);
    f->passages->answers = NULL;
    f->passages->cap = f->passages->count = 0;
}
