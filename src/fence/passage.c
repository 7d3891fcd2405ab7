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
    struct hash_link link; /* the hash is the inode number */
    bool shown;
};

struct passages {
    pthread_mutex_t lock;
    uint64_t forgotten;        /* counts when answers were forgotten: a search that began before is not cached after it */
    struct hash_table answers; /* of owned struct passage_answer */
};

struct passages *passages_new(void)
{
    struct passages *p = xnew(struct passages);

    pthread_mutex_init(&p->lock, NULL);
    return p;
}

static void passages_clear(struct passages *p, bool keeps_shown)
{
    for (struct hash_link *link = hash_table_next(&p->answers, NULL), *next; link; link = next) {
        struct passage_answer *answer = hash_link_in(link, struct passage_answer, link);

        next = hash_table_next(&p->answers, link);
        if (keeps_shown && answer->shown)
            continue;
        hash_table_remove(&p->answers, link);
        free(answer);
    }
}

void passages_free(struct passages *p)
{
    if (!p)
        return;
    passages_clear(p, false);
    hash_table_done(&p->answers);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static struct passage_answer *passages_find(const struct passages *p, uint64_t ino)
{
    struct hash_link *link = hash_table_first(&p->answers, ino);

    return link ? hash_link_in(link, struct passage_answer, link) : NULL;
}

bool passage_shows(struct fence *f, struct inode *dir)
{
    struct passages *p = f->passages;
    struct passage_answer *answer;
    bool shown = false;

    if (inode_has(dir, INODE_PASSAGE))
        return true;
    pthread_mutex_lock(&p->lock);
    uint64_t forgotten = p->forgotten;
    answer = passages_find(p, dir->ino);
    bool is_known = answer;
    if (is_known)
        shown = answer->shown;
    pthread_mutex_unlock(&p->lock);
    if (!is_known) {
        shown = merge_shows_any(f, dir);
        pthread_mutex_lock(&p->lock);
        /* A directory that lost its name during the search appears empty; what has the name now may well lead somewhere. */
        if (p->forgotten == forgotten && (shown || !inode_has(dir, INODE_DEAD))) {
            answer = passages_find(p, dir->ino);
            if (!answer) {
                answer = xnew(struct passage_answer);
                hash_table_add(&p->answers, &answer->link, dir->ino);
            }
            answer->shown |= shown;
        }
        pthread_mutex_unlock(&p->lock);
    }
    if (shown)
        inode_set(dir, INODE_PASSAGE);
    return shown;
}

bool passage_was_shown(struct fence *f, uint64_t ino)
{
    autolock(&f->passages->lock);
    const struct passage_answer *answer = passages_find(f->passages, ino);

    return answer && answer->shown;
}

void passages_forget_absent(struct fence *f)
{
    autolock(&f->passages->lock);
    f->passages->forgotten++;
    passages_clear(f->passages, true);
}

void passages_forget(struct fence *f)
{
    autolock(&f->passages->lock);
    f->passages->forgotten++;
    passages_clear(f->passages, false);
}
