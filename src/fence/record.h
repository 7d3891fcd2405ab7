/*
 * The delta's diary, <delta>/meta/changes: one JSON object per line, each one write(2), so what was acknowledged is told even
 * if the process is killed the next moment. It says when and by which exec a path changed, and of what base file a copy was
 * made. The reader is whoever reviews the delta. When it has grown a good deal, what is left to tell (gist.h) is written in its place.
 */
#pragma once

#include "fence/fence_int.h"

struct record;

int record_new(struct fence *f, struct record **ret_record);
void record_free(struct record *record);

enum record_kind {
    RECORD_CREATED,
    RECORD_WRITTEN,
    RECORD_ATTRS,
    RECORD_DELETED,
    RECORD_RENAMED, /* `other` is where to */
    RECORD_LINKED,
};

/* A name in a directory. `other` may be NULL. */
void record_name(struct fence *f, enum record_kind kind, struct inode *dir, const char *name, const char *other,
                 const struct caller *who);

/* A run of writes by one exec is one line. */
void record_inode(struct fence *f, enum record_kind kind, struct inode *inode, const struct caller *who);

/* A base file was copied up: what it was then. `from` (NULL: not a regular file) is read for the hash; if it is not any more what
 * was last served of it, the line says so. `pre_image` names the copy kept of it, or is NULL. */
void record_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from, const char *pre_image);

/* Keeps a copy of a base file that is about to be covered; live bases only. Writes its name in <delta>/meta/pre to `out`. */
int record_keep_pre_image(struct fence *f, int base_fd, char out[32]);

/* What was told of these paths, no leading slash, does not count from here on: they left the delta. */
int record_dropped(struct record *record, const char *const *paths, size_t count);

/* Writes the gist of a diary that was appended to, whose descriptor may read it, in its place. Nobody else uses the delta; and as the one
 * before tells the same, nobody minds if it cannot be. */
void record_gist_at_rest(int meta_fd, int data_fd, int base_fd, int diary_fd, off_t size_before);

/* What it tells of is in the base by now. */
void record_clear(struct record *record);

int record_sync(struct record *record);

/* For the tests: from which size on the gist is written, and how young a line is that stays in any case. */
void record_set_gist(struct record *record, off_t from_bytes, int64_t young_ns);
void record_await_gist(struct record *record);

/* JSON text; a byte that is no UTF-8 becomes the lone surrogate U+DC00 + byte, as Python's surrogateescape has it. */
void record_add_string(struct buf *out, const char *s);

/* `,"sha256":"..."` of a file's bytes; nothing when it cannot be read. */
void record_add_hash(struct buf *line, int fd);
