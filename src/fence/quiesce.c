#include "fence/quiesce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/change_log.h"
#include "fence/quota.h"
#include "fence/read_log.h"
#include "fence/revert_tree.h"
#include "fence/sync_out_int.h"

/*
 * The closed gate makes the instant, as for a sync-out (sync_out.c), and what is said there of waiting clients holds here too.
 * Dirty pages are fetched before it closes. The order of a resume: stage replacements; record in the change log which lines no
 * longer count; write the intent; remove each path from the disk and then from memory; remove the intent; open the gate; notify
 * the kernel.
 */
struct fence_quiesced {
    struct fence *fence;
};

int fence_quiesce(struct fence *f, int timeout_ms, struct fence_quiesced **ret, struct err *err)
{
    int64_t until_ns;
    int r;

    pthread_mutex_lock(&f->quiesce_lock);
    until_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;
    r = sync_out_fetch_pages(f, timeout_ms * CLOCK_NS_PER_MS / 2, err);
    if (r == 0)
        r = sync_out_close_gate(f, until_ns - clock_now_ns(), err);
    if (r < 0) {
        pthread_mutex_unlock(&f->quiesce_lock);
        return r;
    }
    *ret = xnew(struct fence_quiesced);
    (*ret)->fence = f;
    return 0;
}

/* Records the paths that leave, with all beneath them. */
static int log_reverted(struct fence *f, const struct revert_list *list)
{
    struct revert_items items = { 0 };
    int r;

    for (size_t i = 0; i < list->count; i++) {
        if (!list->items[i].replaces)
            revert_tree_collect(f, list->items[i].path, &items);
    }
    autofree const char **paths = xalloc((items.count + 1) * sizeof(*paths));
    for (size_t i = 0; i < items.count; i++)
        paths[i] = items.items[i].path;
    r = change_log_add_reverted(f->change_log, paths, items.count);
    revert_items_done(f, &items);
    return r;
}

static int64_t bytes_at(struct fence *f, const char *path)
{
    autofd int fd = path_open_beneath(f->data_fd, path, O_PATH, 0);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? (int64_t) quota_bytes_of(&st) : 0;
}

static int replace_one(struct fence *f, const struct revert_dirs *at, const struct revert_list *list, size_t i,
                       struct inval_batch *batch)
{
    const char *path = list->items[i].path;
    struct revert_trace trace;
    int64_t before = bytes_at(f, path);
    int r = revert_perform(at, list, i, &trace);

    revert_tree_replaced(f, path, batch);
    quota_add(&f->quota, bytes_at(f, path) - before, 0);
    return r;
}

static int revert_one(struct fence *f, const struct revert_dirs *at, const struct revert_list *list, size_t i,
                      struct inval_batch *batch)
{
    struct revert_items items = { 0 };
    struct revert_trace trace;
    int r;

    revert_tree_collect(f, list->items[i].path, &items);
    for (size_t k = 0; k < items.count; k++)
        read_log_before_revert(f, items.items[k].path);
    r = revert_perform(at, list, i, &trace);
    if (trace.opened_from != REVERT_NONE)
        revert_tree_update_opened(f, list->items[i].path, &trace, batch);
    if (r == 0)
        revert_tree_forget(f, &items, batch);
    if (trace.removed_from != REVERT_NONE)
        revert_tree_update_removed(f, list->items[i].path, trace.removed_from, batch);
    revert_items_done(f, &items);
    return r;
}

static int revert_paths(struct fence *f, const struct fence_revert *reverts, size_t count, struct inval_batch *batch,
                        struct err *err)
{
    struct revert_dirs at = { f->base_fd, f->data_fd, f->work_fd, f->meta_fd };
    struct revert_list list = { 0 };
    int ended, r = revert_list_make(&at, reverts, count, &list, err);

    if (r < 0)
        return r;
    r = log_reverted(f, &list);
    if (r == 0)
        r = revert_begin(&at, &list);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = list.items[i].replaces ? replace_one(f, &at, &list, i, batch) : revert_one(f, &at, &list, i, batch);
    ended = revert_end(&at, &list);
    atomic_fetch_add(&f->changes, 1);
    revert_list_done(&list);
    r = r < 0 ? r : ended;
    return r < 0 ? err_errno(err, r, "taking changes out of the delta") : 0;
}

int fence_resume(struct fence_quiesced *quiesced, const struct fence_revert *reverts, size_t count, struct err *err)
{
    struct fence *f = quiesced->fence;
    struct inval_batch batch = INVAL_BATCH_NONE;
    int r = count > 0 ? revert_paths(f, reverts, count, &batch, err) : 0;

    free(quiesced);
    pthread_rwlock_unlock(&f->gate);
    pthread_mutex_unlock(&f->quiesce_lock);
    inval_batch_send_if_mounted(f, &batch);
    return r;
}
