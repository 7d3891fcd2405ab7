#include "fence/inval_batch.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/merge.h"
#include "fence/notify.h"

void inval_batch_add_name(struct fence *f, struct inval_batch *batch, struct inode *dir, const char *name, bool only_expires)
{
    vec_room(&batch->names, &batch->name_cap, batch->name_count);
    batch->names[batch->name_count++] = (struct inval_name){ inode_dup(f, dir), xdup(name), only_expires };
}

void inval_batch_add_pages(struct fence *f, struct inval_batch *batch, struct inode *inode)
{
    autolock(&f->names);
    inode_list_add(&batch->inodes, inode);
}

/* Consecutive names of one directory need only one entry. */
void inval_batch_add_listing(struct fence *f, struct inval_batch *batch, struct inode *dir)
{
    autolock(&f->names);
    if (batch->dirs.count == 0 || batch->dirs.items[batch->dirs.count - 1] != dir)
        inode_list_add(&batch->dirs, dir);
}

/* Before Linux 6.16 names cannot be expired all at once. We do not know which absent names are cached; existing ones we do. */
static void expire_listed_names(struct fence *f, struct inode *dir)
{
    struct dir_listing *listing;
    int r;

    pthread_rwlock_rdlock(&f->gate);
    r = merge_list(f, dir, false, &listing);
    pthread_rwlock_unlock(&f->gate);
    if (r < 0)
        return;
    for (size_t i = 0; i < listing->count; i++)
        notify_entry(f, dir, listing->items[i].name, true);
    dir_listing_unref(listing);
}

void inval_batch_discard(struct fence *f, struct inval_batch *batch)
{
    for (size_t i = 0; i < batch->name_count; i++) {
        inode_unref(f, batch->names[i].dir);
        free(batch->names[i].name);
    }
    inode_list_done(f, &batch->inodes);
    inode_list_done(f, &batch->dirs);
    free(batch->names);
    *batch = INVAL_BATCH_NONE;
}

/* Names first, because a name decides which inode is reached; last what waits for clients. */
void inval_batch_send(struct fence *f, struct inval_batch *batch, bool and_waits)
{
    if (batch->is_wide && notify_all_names(f) < 0) {
        for (size_t i = 0; i < batch->dirs.count; i++)
            expire_listed_names(f, batch->dirs.items[i]);
    }
    for (size_t i = 0; i < batch->name_count; i++)
        notify_entry(f, batch->names[i].dir, batch->names[i].name, batch->names[i].only_expires);
    for (size_t i = 0; i < batch->inodes.count; i++)
        notify_pages(f, batch->inodes.items[i]);
    for (size_t i = 0; i < batch->dirs.count; i++) {
        if (and_waits)
            notify_listing(f, batch->dirs.items[i]);
        else
            notify_pages(f, batch->dirs.items[i]);
    }
    inval_batch_discard(f, batch);
}
