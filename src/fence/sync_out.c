#include "fence/sync_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/change_log.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/session.h"
#include "fence/sync_age.h"
#include "fence/sync_out_int.h"

#define GATE_NS (10 * CLOCK_NS_PER_SEC)
#define IMPATIENT_NS (50 * CLOCK_NS_PER_MS) /* for tests */
#define FEW_CHANGES 16

/*
 * The gate makes the instant: behind it no operation is under way. Clients wait at it and keep their locks in the kernel
 * meanwhile (a directory's lock, a page that is being written back); nothing here needs the kernel to take any of those. The
 * backing file systems do not wait for us either: pages that they might want to clean are not pages of our mount.
 *
 * Pages that were changed through a mapping before the call are fetched before the gate closes. syncfs() makes the kernel send
 * them, but does not wait for our answers, so we wait until all are written; behind the gate they could not be. A client that
 * has more under way than the kernel lets through, for as long as we wait, only delays its own: pages that come too late, or
 * are changed again meanwhile, are a later change, and the file is copied up again.
 */
int sync_out_fetch_pages(struct fence *f, int64_t patience_ns, struct err *err)
{
    int64_t until_ns = clock_now_ns() + patience_ns;
    autofd int fd = f->mount_point ? open(f->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd < 0)
        return f->mount_point && errno != ENOTCONN ? err_errno(err, -errno, "fetching mapped pages") : 0;
    syncfs(fd); /* an error means that a page was refused; the others were sent nevertheless */
    session_await_writeback(f->session, fd, until_ns);
    return 0;
}

int sync_out_close_gate(struct fence *f, int64_t patience_ns, struct err *err)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + patience_ns);
    int r = pthread_rwlock_clockwrlock(&f->gate, CLOCK_MONOTONIC, &until);

    if (r == ETIMEDOUT)
        return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "a file operation of the sandbox does not end");
    return r ? err_errno(err, -r, "stopping file operations") : 0;
}

/* A deleted file that is still open may have its content in the base, where it may be removed now. */
static void pin_dead_files(struct fence *f)
{
    struct inode_list dead = { 0 };

    tree_lock(f);
    for (size_t i = 0; i < f->dead_count; i++) {
        struct inode *inode = f->dead[i];
        if (inode_has(inode, INODE_BASE) && !inode_has(inode, INODE_UP) && S_ISREG(atomic_load(&inode->mode)))
            inode_list_add(&dead, inode);
    }
    tree_unlock(f);
    for (size_t i = 0; i < dead.count; i++) {
        struct handle *h;
        if (handle_get(f, dead.items[i], LAYER_BASE, &h) == 0) {
            handle_pin(f, dead.items[i], LAYER_BASE);
            handle_put(f, h);
        }
    }
    inode_list_done(f, &dead);
}

static int sync_out_apply(struct fence *f, struct sync_out_list *list, sync_out_fn apply, void *cookie,
                          struct inval_batch *batch, struct err *err)
{
    int r = sync_out_begin(f, list);

    if (r < 0)
        return err_errno(err, r, "noting the hand-over");
    fault("handover-begun");
    if (list->count > 0) {
        pin_dead_files(f);
        r = apply(list->changes, list->count, cookie, err);
    }
    fault("handover-taken");
    if (r == 0) {
        sync_age_forget(f, list);
        sync_out_prune(f, list, batch);
    } else {
        sync_age_note(f, list);
    }
    sync_out_end(f);
    return r;
}

static void sync_out_count_outcomes(const struct sync_out_list *list, struct sync_out_result *ret)
{
    size_t outcomes[] = { 0, 0, 0 };

    for (size_t i = 0; i < list->count; i++)
        outcomes[list->changes[i].outcome]++;
    *ret = (struct sync_out_result){ outcomes[SYNC_OUT_TAKEN], outcomes[SYNC_OUT_LOST], outcomes[SYNC_OUT_LEFT] };
    for (size_t i = 0; i < list->item_count; i++)
        ret->left += list->items[i].kind == SYNC_OUT_ITEM_FILE && list->items[i].is_blocked;
}

/* Returns true if the delta holds nothing any more. */
static bool delta_is_empty(struct fence *f)
{
    autolock(&f->names);
    for (const struct entry *e = entry_next(f->root, NULL); e; e = entry_next(f->root, e)) {
        if (e->flags)
            return false;
    }
    return true;
}

int fence_sync_out(struct fence *f, sync_out_fn apply, void *cookie, struct sync_out_result *ret, struct err *err)
{
    struct sync_out_list list = { 0 };
    struct inval_batch batch = INVAL_BATCH_NONE;
    int64_t patience_ns = fault_is("handover-impatient") ? IMPATIENT_NS : GATE_NS;
    int r;

    if (!f->syncs_out)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM, "this delta is not for handing over");
    autolock(&f->quiesce_lock);
    r = sync_out_fetch_pages(f, patience_ns, err);
    if (r < 0)
        return r;
    *ret = (struct sync_out_result){ 0 };
    if (atomic_load(&f->changes) == f->synced_changes)
        return 0;
    /* `apply` waits for the disk while clients wait at the gate. If there is much to wait for, it is done before. */
    if (atomic_load(&f->changes) - f->synced_changes > FEW_CHANGES)
        syncfs(f->data_fd);
    r = sync_out_close_gate(f, patience_ns, err);
    if (r < 0)
        return r;
    uint64_t changes = atomic_load(&f->changes);
    r = sync_out_list_fill(f, &list);
    if (r < 0)
        err_errno(err, r, "listing the changes");
    if (r == 0)
        r = sync_out_apply(f, &list, apply, cookie, &batch, err);
    if (r == 0) {
        sync_out_count_outcomes(&list, ret);
        f->synced_changes = changes;
        if (delta_is_empty(f))
            change_log_clear(f->change_log);
    }
    pthread_rwlock_unlock(&f->gate);
    inval_batch_send_if_mounted(f, &batch);
    sync_out_list_done(f, &list);
    return r;
}
