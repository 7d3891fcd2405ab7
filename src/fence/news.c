#include "fence/news.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/merge.h"
#include "fence/notify.h"

static struct inode *take_ref(struct fence *f, struct inode *inode)
{
    tree_lock(f);
    inode_ref(inode);
    tree_unlock(f);
    return inode;
}

void news_add_name(struct fence *f, struct news *news, struct inode *dir, const char *name, bool only_expires)
{
    vec_room(&news->names, &news->name_cap, news->name_count);
    news->names[news->name_count++] = (struct news_name){ take_ref(f, dir), xdup(name), only_expires };
}

void news_add_pages(struct fence *f, struct news *news, struct inode *inode)
{
    vec_room(&news->inodes, &news->inode_cap, news->inode_count);
    news->inodes[news->inode_count++] = take_ref(f, inode);
}

/* A directory whose names are told one by one comes again and again. */
void news_add_listing(struct fence *f, struct news *news, struct inode *dir)
{
    if (news->dir_count > 0 && news->dirs[news->dir_count - 1] == dir)
        return;
    vec_room(&news->dirs, &news->dir_cap, news->dir_count);
    news->dirs[news->dir_count++] = take_ref(f, dir);
}

/* Before Linux 6.16 names cannot be renewed all at once. What was remembered as absent is not known to us; what is there now is. */
static void expire_what_is_there(struct fence *f, struct inode *dir)
{
    struct listing *listing;
    int r;

    pthread_rwlock_rdlock(&f->gate);
    r = merge_list(f, dir, false, &listing);
    pthread_rwlock_unlock(&f->gate);
    if (r < 0)
        return;
    for (size_t i = 0; i < listing->count; i++)
        notify_entry(f, dir, listing->items[i].name, true);
    listing_unref(listing);
}

void news_drop(struct fence *f, struct news *news)
{
    for (size_t i = 0; i < news->name_count; i++) {
        inode_unref(f, news->names[i].dir);
        free(news->names[i].name);
    }
    for (size_t i = 0; i < news->inode_count; i++)
        inode_unref(f, news->inodes[i]);
    for (size_t i = 0; i < news->dir_count; i++)
        inode_unref(f, news->dirs[i]);
    free(news->names);
    free(news->inodes);
    free(news->dirs);
    *news = NEWS_NONE;
}

/* Names first, because a name decides who gets to an inode at all; last what waits for clients. */
void news_send(struct fence *f, struct news *news, bool and_waits)
{
    if (news->is_wide && notify_all_names(f) < 0) {
        for (size_t i = 0; i < news->dir_count; i++)
            expire_what_is_there(f, news->dirs[i]);
    }
    for (size_t i = 0; i < news->name_count; i++)
        notify_entry(f, news->names[i].dir, news->names[i].name, news->names[i].only_expires);
    for (size_t i = 0; i < news->inode_count; i++)
        notify_pages(f, news->inodes[i]);
    for (size_t i = 0; i < news->dir_count; i++) {
        if (and_waits)
            notify_listing(f, news->dirs[i]);
        else
            notify_pages(f, news->dirs[i]);
    }
    news_drop(f, news);
}
