/*
 * Pauses a fence while a review reads its delta and decides.
 *
 *     fence_quiesce(fence, 10000, &quiesced, err);    no operation is under way, new ones wait: the delta is one instant
 *     ... read the delta, write the base ...
 *     fence_resume(quiesced, reverts, count, err);    these paths leave the delta; everything goes on
 *
 * A path that leaves the delta shows the base from then on, also in the kernel's caches when fence_resume() returns. Processes
 * live on. An open file stays open: if the base has a file of that kind, it becomes that file, with the same inode number, and
 * the next write makes a new copy; otherwise it goes on without a name, as after an unlink. A directory that the base has too
 * remains the working directory of the processes in it.
 *
 * For all fences. While a fence is quiesced, its caller must not use the mount, which waits for it, and fence_set_rules(),
 * fence_base_changed() and fence_sync_out() wait too.
 */
#pragma once

#include "fence/fence.h"

struct fence_quiesced;

struct fence_revert {
    const char *path; /* absolute within the workspace, clean; includes all beneath it. "/": everything */
    int replace_fd;   /* -1, or a borrowed regular file whose content replaces that of the delta's file at the path */
};

/* -ETIMEDOUT: an operation did not end in time, and everything goes on. One caller at a time: others wait without a limit. */
int fence_quiesce(struct fence *fence, int timeout_ms, struct fence_quiesced **ret, struct err *err);

/* Resumes in any case. Call it in the thread that quiesced. A crash leaves all or nothing: the next fence_new() completes what
 * was begun. After an error nothing has left the delta or, if the disk failed meanwhile, some of it. */
int fence_resume(struct fence_quiesced *quiesced, const struct fence_revert *reverts, size_t count, struct err *err);

/* The same for a delta that no fence uses; -EBUSY for one in use. */
int delta_revert(const char *delta_path, const struct fence_revert *reverts, size_t count, struct err *err);
