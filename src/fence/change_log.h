/*
 * The delta's change log, <delta>/meta/changes: one JSON object per line, each one write(2), so what was acknowledged is told even
 * if the process is killed the next moment. It says when and by which exec a path changed, and of what base file a copy was
 * made. The reader is whoever reviews the delta. When it has grown a good deal, what is left to tell (change_log_compact.h) is written in its place.
 */
#pragma once

#include "fence/fence_int.h"

struct change_log;

int change_log_new(struct fence *f, struct change_log **ret_change_log);
void change_log_free(struct change_log *change_log);

enum change_log_kind {
    CHANGE_LOG_CREATED,
    CHANGE_LOG_WRITTEN,
    CHANGE_LOG_ATTRS,
    CHANGE_LOG_DELETED,
    CHANGE_LOG_RENAMED, /* `other` is where to */
    CHANGE_LOG_LINKED,
};

/* A name in a directory. `other` may be NULL. */
void change_log_add_name(struct fence *f, enum change_log_kind kind, struct inode *dir, const char *name, const char *other,
                         const struct op_caller *who);

/* A run of writes by one exec is one line. */
void change_log_add_inode(struct fence *f, enum change_log_kind kind, struct inode *inode, const struct op_caller *who);

/* A base file was copied up: what it was then. `from` (NULL: not a regular file) is read for the hash; if it is not any more what
 * was last served of it, the line says so. `pre_image` names the copy kept of it, or is NULL. */
void change_log_add_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from,
                           const char *pre_image);

/* Keeps a copy of a base file that is about to be covered; live bases only. Writes its name in <delta>/meta/pre to `out`. */
int change_log_keep_pre_image(struct fence *f, int base_fd, char out[32]);

/* What was told of these paths, no leading slash, does not count from here on: they left the delta. */
int change_log_add_reverted(struct change_log *change_log, const char *const *paths, size_t count);

/* Writes the compacted text of a change log that was appended to, whose descriptor may read it, in its place. Nobody else uses the delta; and as the one
 * before tells the same, nobody minds if it cannot be. */
void change_log_rewrite_at_rest(int meta_fd, int data_fd, int base_fd, int log_fd, off_t size_before);

/* What it tells of is in the base by now. */
void change_log_clear(struct change_log *change_log);

int change_log_sync(struct change_log *change_log);

/* For the tests: from which size on the compacted text is written, and how young a line is that stays in any case. */
void change_log_set_rewrite(struct change_log *change_log, off_t from_bytes, int64_t young_ns);
void change_log_await_rewrite(struct change_log *change_log);

/* JSON text; a byte that is no UTF-8 becomes the lone surrogate U+DC00 + byte, as Python's surrogateescape has it. */
void change_log_format_string(struct buf *out, const char *s);

/* `,"sha256":"..."` of a file's bytes; nothing when it cannot be read. */
void change_log_format_hash(struct buf *line, int fd);
