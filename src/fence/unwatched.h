/*
 * Directories of a live base without a watch: the kernel grants no more watches, or the files change in a way that it does not
 * see. The kernel caches what lies in them for a second only, and we compare it with the base when it asks again.
 *
 * Workers call the checks with the gate held and no other lock. Without unwatched directories they cost a look at a counter.
 */
#pragma once

#include "fence/fence_int.h"

/* Marks the directory as unwatched until it gets a watch or is destroyed. */
void unwatched_add(struct fence *f, struct inode *dir);
void unwatched_remove(struct fence *f, struct inode *dir);

static inline bool unwatched_any(const struct fence *f)
{
    return atomic_load_explicit(&f->unwatched_dirs, memory_order_relaxed) > 0;
}

/* Call before a loaded name is answered. Returns false if it led to another file and was detached: look it up again. */
bool unwatched_check_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode);

/* Call before attributes of the inode are answered, or its content is copied up. */
void unwatched_check(struct fence *f, struct inode *inode);

/* Call before content of the file is read. A process that keeps it open causes no other request, and if the poller has dropped
 * the file since the last one, the descriptor may be one of old content. */
void unwatched_before_read(struct fence *f, struct inode *inode);

/* Call when the kernel gets content of the file, symlink or directory and caches it: the poller visits it from now on. */
void unwatched_after_read(struct fence *f, struct inode *inode);

/* Looks again at a file that had changed too recently to be compared: it becomes stale whatever the result.
 * [unwatched_is_within()] */
void unwatched_recheck(struct fence *f, struct inode *inode);

/* Checks every loaded name in the directory, and its times. */
void unwatched_check_all(struct fence *f, struct inode *dir);

/* Returns true if what the base has for this inode lies in an unwatched directory. */
bool unwatched_is_within(struct fence *f, const struct inode *inode);

/* How long the kernel may cache a name in the directory, and an inode's attributes. */
double unwatched_name_timeout_s(struct fence *f, const struct inode *dir);
double unwatched_attr_timeout_s(struct fence *f, const struct inode *inode);

/* ---- unwatched_poll.c ---- */

/* A thread that visits what the kernel caches of unwatched directories without asking again: listings, and pages
 * of files. It sleeps while there is none. */
struct unwatched_poll;

struct unwatched_poll *unwatched_poll_new(struct fence *f);
int unwatched_poll_start(struct unwatched_poll *poll);
void unwatched_poll_stop(struct unwatched_poll *poll);
void unwatched_poll_free(struct unwatched_poll *poll);

/* Visits the inode in a second. A directory gets a watch if one is available now, and its listing is dropped. A file's pages
 * are dropped if it changed, or after some rounds. INODE_POLLED is set until then. */
void unwatched_poll_add(struct unwatched_poll *poll, struct inode *inode);
