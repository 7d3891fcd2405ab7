#include "fence/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/handover_int.h"
#include "fence/hold_int.h"
#include "fence/quota.h"
#include "fence/record.h"
#include "fence/served.h"

/*
 * The moment is the gate's, as for a hand-over (handover.c), and what is said there of clients that wait holds here too. Dirty pages
 * are fetched before it closes. The order of a release: content to come is staged, the diary says what does not count any
 * more, the note is written, each path goes from the disk and then from memory, the note goes; then the gate opens and the
 * kernel hears of it.
 */
struct fence_hold {
    struct fence *fence;
};

int fence_hold(struct fence *f, int timeout_ms, struct fence_hold **ret, struct err *err)
{
    int64_t until_ns;
    int r;

    pthread_mutex_lock(&f->handing);
    until_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;
    r = handover_fetch_pages(f, timeout_ms * CLOCK_NS_PER_MS / 2, err);
    if (r == 0)
        r = handover_close_gate(f, until_ns - clock_now_ns(), err);
    if (r < 0) {
        pthread_mutex_unlock(&f->handing);
        return r;
    }
    *ret = xnew(struct fence_hold);
    (*ret)->fence = f;
    return 0;
}

/* Those that leave, with all beneath them. */
static int tell_diary(struct fence *f, const struct drop_list *list)
{
    struct held_items items = { 0 };
    int r;

    for (size_t i = 0; i < list->count; i++) {
        if (!list->items[i].replaces)
            held_collect(f, list->items[i].path, &items);
    }
    autofree const char **paths = xalloc((items.count + 1) * sizeof(*paths));
    for (size_t i = 0; i < items.count; i++)
        paths[i] = items.items[i].path;
    r = record_dropped(f->record, paths, items.count);
    held_items_done(f, &items);
    return r;
}

static int64_t bytes_at(struct fence *f, const char *path)
{
    autofd int fd = path_open_beneath(f->data_fd, path, O_PATH, 0);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? (int64_t) quota_bytes_of(&st) : 0;
}

static int replace_one(struct fence *f, const struct drop_place *at, const struct drop_list *list, size_t i, struct news *news)
{
    const char *path = list->items[i].path;
    struct drop_trace trace;
    int64_t before = bytes_at(f, path);
    int r = drop_perform(at, list, i, &trace);

    held_replaced(f, path, news);
    quota_add(&f->quota, bytes_at(f, path) - before, 0);
    return r;
}

static int drop_one(struct fence *f, const struct drop_place *at, const struct drop_list *list, size_t i, struct news *news)
{
    struct held_items items = { 0 };
    struct drop_trace trace;
    int r;

    held_collect(f, list->items[i].path, &items);
    for (size_t k = 0; k < items.count; k++)
        served_will_drop(f, items.items[k].path);
    r = drop_perform(at, list, i, &trace);
    if (trace.opened_from != DROP_NONE)
        held_follow_opened(f, list->items[i].path, &trace, news);
    if (r == 0)
        held_forget(f, &items, news);
    if (trace.gone_from != DROP_NONE)
        held_follow_gone(f, list->items[i].path, trace.gone_from, news);
    held_items_done(f, &items);
    return r;
}

static int let_go(struct fence *f, const struct fence_drop *drops, size_t count, struct news *news, struct err *err)
{
    struct drop_place at = { f->base_fd, f->data_fd, f->work_fd, f->meta_fd };
    struct drop_list list = { 0 };
    int ended, r = drop_list_make(&at, drops, count, &list, err);

    if (r < 0)
        return r;
    r = tell_diary(f, &list);
    if (r == 0)
        r = drop_begin(&at, &list);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = list.items[i].replaces ? replace_one(f, &at, &list, i, news) : drop_one(f, &at, &list, i, news);
    ended = drop_end(&at, &list);
    atomic_fetch_add(&f->changes, 1);
    drop_list_done(&list);
    r = r < 0 ? r : ended;
    return r < 0 ? err_errno(err, r, "taking changes out of the delta") : 0;
}

int fence_release(struct fence_hold *hold, const struct fence_drop *drops, size_t count, struct err *err)
{
    struct fence *f = hold->fence;
    struct news news = NEWS_NONE;
    int r = count > 0 ? let_go(f, drops, count, &news, err) : 0;

    free(hold);
    pthread_rwlock_unlock(&f->gate);
    pthread_mutex_unlock(&f->handing);
    if (f->session && f->mount_point)
        news_send(f, &news, true);
    else
        news_drop(f, &news);
    return r;
}
