/*
 * Directories of a live base that nobody watches for us: the kernel grants no more watches, or others change the files by a way it
 * does not see. What lies in them is told for a second only, and compared with the base when it is asked for again.
 *
 * The checks come from workers, with the gate held and no other lock. Where nothing is blind they cost a look at a counter.
 */
#pragma once

#include "fence/fence_int.h"

/* The directory is blind until it gets a watch, or is destroyed. */
void unwatched_add(struct fence *f, struct inode *dir);
void unwatched_remove(struct fence *f, struct inode *dir);

static inline bool unwatched_any(const struct fence *f)
{
    return atomic_load_explicit(&f->unwatched_dirs, memory_order_relaxed) > 0;
}

/* A loaded name is about to be told: is it still that inode? False: it was cut from it, what is there now is to be looked up. */
bool unwatched_check_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode);

/* Attributes of the inode are about to be told, or its content copied up. */
void unwatched_check(struct fence *f, struct inode *inode);

/* The kernel asks for content of the file. Who keeps it open asks for nothing else, and if the poller has left it since the last time,
 * the descriptor may be one of old content. */
void unwatched_before_read(struct fence *f, struct inode *inode);

/* The kernel gets content of the file, the link or the directory, and will keep it: it is looked after from now on. */
void unwatched_after_read(struct fence *f, struct inode *inode);

/* A file that had changed too lately to be judged is looked at again: stale, whatever is found. [unwatched_is_within()] */
void unwatched_recheck(struct fence *f, struct inode *inode);

/* Checks every loaded name in the directory, and its times. */
void unwatched_check_all(struct fence *f, struct inode *dir);

/* Whether what the base has for this inode lies in a blind directory. */
bool unwatched_is_within(struct fence *f, const struct inode *inode);

/* How long the kernel may keep a name in the directory, and an inode's attributes. */
double unwatched_name_timeout_s(struct fence *f, const struct inode *dir);
double unwatched_attr_timeout_s(struct fence *f, const struct inode *inode);
