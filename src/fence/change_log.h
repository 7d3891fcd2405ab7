/*
 * The delta's change log, <delta>/meta/changes: one JSON object per line, each a single write(2), so acknowledged changes are
 * recorded even if the process is killed the next moment. It records when and by which exec a path changed, and of which base
 * file a copy was made. Reviews read it. When it has grown a good deal, its compacted text (change_log_compact.h) replaces it.
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
    CHANGE_LOG_RENAMED, /* `other` is the new path */
    CHANGE_LOG_LINKED,
};

/* Records a change of a name in a directory. `other` may be NULL. */
void change_log_add_name(struct fence *f, enum change_log_kind kind, struct inode *dir, const char *name, const char *other,
                         const struct op_caller *who);

/* Records a change of an inode. A run of writes by one exec makes one line. */
void change_log_add_inode(struct fence *f, enum change_log_kind kind, struct inode *inode, const struct op_caller *who);

/* Records that a base file was copied up, and its state then. `from` (NULL: not a regular file) is read for the hash. If its
 * content is not what was last read through us, the line says so. `pre_image` names the saved copy of it, or is NULL. */
void change_log_add_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from,
                           const char *pre_image);

/* Saves a copy of a base file that is about to be covered; live bases only. Writes its name in <delta>/meta/pre to `out`. */
int change_log_keep_pre_image(struct fence *f, int base_fd, char out[32]);

/* Earlier lines about these paths (no leading slash) no longer count: the paths left the delta. */
int change_log_add_reverted(struct change_log *change_log, const char *const *paths, size_t count);

/* Replaces a change log that was appended to by its compacted text, if that is worth it. Only for a delta that no fence uses.
 * An error is ignored, as the old text says the same. `log_fd` must be readable. */
void change_log_rewrite_at_rest(int meta_fd, int data_fd, int base_fd, int log_fd, off_t size_before);

/* Empties the log: all its changes are in the base by now. */
void change_log_clear(struct change_log *change_log);

int change_log_sync(struct change_log *change_log);

/* For tests: the size from which on the log is compacted, and the age below which every line stays. */
void change_log_set_rewrite(struct change_log *change_log, off_t from_bytes, int64_t young_ns);
void change_log_await_rewrite(struct change_log *change_log);

/* JSON text. A byte that is not UTF-8 becomes the lone surrogate U+DC00 + byte, as in Python's surrogateescape. */
void change_log_format_string(struct buf *out, const char *s);

/* `,"sha256":"..."` of a file's bytes; nothing if it cannot be read. */
void change_log_format_hash(struct buf *line, int fd);
