/*
 * Holding a fence still, for somebody who reads its delta and decides what becomes of it.
 *
 *     fence_quiesce(fence, 10000, &hold, err);          no operation is under way, new ones wait: the delta is the tree at one instant
 *     ... read the delta, write the base ...
 *     fence_resume(hold, drops, count, err);        these paths leave the delta; everything goes on
 *
 * A path that leaves the delta shows the base from then on, for the kernel's caches too when fence_resume() returns. Processes live
 * on. A file that is open stays open: where the base has a file of that kind, it is that file from now on, by the same inode
 * number, and the next write makes a new copy; otherwise it goes on without a name, as after an unlink. A directory
 * that the base has too stays the one that processes stand in.
 *
 * For fences of any kind. Whoever holds may not use the mount: it waits for him. While it is held, fence_set_rules(),
 * fence_base_changed() and a hand-over wait, too.
 */
#pragma once

#include "fence/fence.h"

struct fence_quiesced;

struct fence_revert {
    const char *path; /* absolute within the workspace, clean; with all that lies beneath it. "/": everything */
    int replace_fd;   /* -1, or a regular file, borrowed, whose content replaces that of the delta's file at the path */
};

/* -ETIMEDOUT: an operation did not end in time, and everything goes on. One at a time: others wait, without a limit. */
int fence_quiesce(struct fence *fence, int timeout_ms, struct fence_quiesced **ret, struct err *err);

/* Ends the hold in any case; from the thread that began it. All or nothing against a crash: what was begun is finished by the next
 * fence_new(). With an error nothing has left the delta, or, when the disk failed in the middle, some of it. */
int fence_resume(struct fence_quiesced *quiesced, const struct fence_revert *reverts, size_t count, struct err *err);

/* The same for a delta that no fence uses; -EBUSY for one in use. */
int delta_revert(const char *delta_path, const struct fence_revert *reverts, size_t count, struct err *err);
