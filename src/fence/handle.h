/*
 * Open backing files. The kernel opens and closes files without telling us (see reply.c), so descriptors belong to inodes and
 * not to clients: at most one per inode and layer, shared, in a cache of bounded size.
 *
 * A regular file is opened O_RDONLY in the base and O_RDWR in the delta. A directory's descriptor is for *at() calls; in the
 * delta it also works for fsync and fchmod. Nothing else is ever opened: opening a FIFO would block, opening a device would
 * have effects.
 */
#pragma once

#include "fence/fence_int.h"

void handles_init(struct handles *handles);
void handles_done(struct handles *handles);

/* Returns a counted reference; the descriptor stays open until handle_put(), whatever happens to the name. Must not be called
 * while holding a dir stripe. */
int handle_get(struct fence *f, struct inode *inode, enum layer_kind layer, struct handle **ret_handle);
void handle_put(struct fence *f, struct handle *handle); /* NULL is fine */

/* The same, but returns NULL if the file is not open. */
struct handle *handle_get_cached(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Makes `take_fd` the inode's descriptor. If there is one already, that one stays and `take_fd` is closed. */
struct handle *handle_take(struct fence *f, struct inode *inode, enum layer_kind layer, int take_fd);

/* Keeps the inode's handle of that layer open for good. Returns false if there is none. */
bool handle_pin(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Removes the handle from the cache: the next user opens the file again. */
void handle_evict(struct fence *f, struct inode *inode, enum layer_kind layer);
void handle_evict_all(struct fence *f, struct inode *inode);

/* Replaces a cached handle by one that is opened by name. */
void handle_reopen(struct fence *f, struct inode *inode, enum layer_kind layer);

/* Closes all handles that are not in use. */
void handles_trim(struct fence *f);
