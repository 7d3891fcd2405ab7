/*
 * Files that are written past the kernel's page cache by whoever made them.
 *
 * A program that makes a file to fill it writes each byte once and reads none. Its writes come to us straight from its memory:
 * one copy less, no pages taken, and the kernel does not ask for security.capability first, as it does before the first write
 * through the page cache. Everybody else has the file in the page cache as ever, so what a write makes stale there is ours
 * to drop, before the write is acknowledged: Linux drops pages before such a write, and some versions not even that.
 *
 *     made --READ, or a WRITE by another--> seen --WRITE by the maker, pages dropped--> made --RELEASE--> as any file
 */
#pragma once

#include <fcntl.h>

#include "fence/fence_int.h"

/* Only what can't be read, mapped or waited for by the same descriptor; one that appends is a log, which others follow. */
static inline bool direct_suits(int open_flags)
{
    return (open_flags & O_ACCMODE) == O_WRONLY && !(open_flags & (O_APPEND | O_DSYNC | O_SYNC | O_DIRECT));
}

static inline void direct_begin(struct inode *inode)
{
    inode_set(inode, INODE_DIRECT);
}

static inline void direct_end(struct inode *inode)
{
    inode_clear(inode, INODE_DIRECT | INODE_SEEN);
}

/* Pages of it are about to be in the page cache. To be said before the content is looked at. */
static inline void direct_note_seen(struct inode *inode)
{
    if (inode_has(inode, INODE_DIRECT))
        inode_set(inode, INODE_SEEN);
}

/* The maker has written: whether pages may be stale now, which is the caller's to end. */
static inline bool direct_take_seen(struct inode *inode)
{
    if (!inode_has(inode, INODE_SEEN))
        return false;
    inode_clear(inode, INODE_SEEN);
    return true;
}
