/*
 * Open backing files. Opens and closes never reach us (see reply.c), so descriptors belong to inodes, not to clients: at most
 * one per inode and layer, shared, kept in a cache of bounded size.
 *
 * A regular file's is O_RDONLY in the base and O_RDWR in the delta; a directory's is for *at() calls, and in the delta good
 * for fsync and fchmod. Nothing else is ever opened: a FIFO would wait, a device would act.
 */
#pragma once

#include "fence/fence_int.h"

void handles_init(struct handles *handles);
void handles_done(struct handles *handles);

/* A counted reference; the descriptor stays open until handle_put(), whatever happens to the name. Must not be called while
 * holding a dir stripe. */
int handle_get(struct fence *f, struct inode *inode, enum layer_kind layer, struct handle **ret_handle);
void handle_put(struct fence *f, struct handle *handle); /* NULL is fine */

/* The same, but NULL where it would have to be opened first. */
struct handle *handle_get_cached(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Makes an open descriptor the inode's; when there is one already, that one stays and `fd` is closed. */
struct handle *handle_take(struct fence *f, struct inode *inode, enum layer_kind layer, int take_fd);

/* Keeps the inode's handle of that layer for good. False when there is none cached. */
bool handle_pin(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Out of the cache: the next user opens again. */
void handle_evict(struct fence *f, struct inode *inode, enum layer_kind layer);
void handle_evict_all(struct fence *f, struct inode *inode);

/* One that is cached is opened again by name. */
void handle_reopen(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Closes what nobody uses, all of it. */
void handles_trim(struct fence *f);
