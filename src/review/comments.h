/*
 * What reviewers wrote about the changes of a sandbox: each comment is about a file, and maybe about one hunk or line of it.
 *
 * They are in the file `comments` of the sandbox's directory, which is replaced whole and synced: a comment that was acknowledged survives a
 * kill and a power cut, and a full disk leaves the comments as they were. Whoever changes them holds the sandbox's lock from comment_list_load()
 * to comment_list_save().
 *
 * A comment stays when the change that it is about goes. It is outdated then: a comment on a hunk when the file has no such hunk any more, one on
 * a file when the agent has changed the file since.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "review/change_set.h"
#include "review/hunk.h"

#define COMMENT_ID_PREFIX "cm_"
#define COMMENTS_MAX 1000
#define COMMENT_TEXT_MAX 8192
#define COMMENT_AUTHOR_MAX 256

/* All texts owned, never NULL, without NULs. Times are wall-clock nanoseconds. */
struct comment {
    char id[ID_TEXT_MAX];
    char *scope_path; /* from the sandbox's root */
    char *author;     /* as authentication found */
    char *claimed;    /* who they said that they are; "" when they said nothing */
    char *text;
    char *resolved_by;               /* "" unless it is resolved */
    char hunk_id[HUNK_ID_LEN + 1];   /* "": of the whole file */
    char hash[CHANGE_HASH_TEXT_MAX]; /* of the file's change when the comment was written; "": it could not be read */
    uint32_t line;                   /* from 1, of the new text; 0: none */
    bool is_old_line;                /* `line` is of the text before the change */
    int64_t time_ns, resolved_ns;    /* resolved_ns 0: it is open */
    bool is_outdated;                /* by comment_list_judge(); not kept */
};

struct comment_list {
    struct comment *items; /* owned; the oldest first */
    size_t count, cap;
};

void comment_list_done(struct comment_list *list);

/* None is no error. ERR_DATA_LOSS: the file is damaged, and nothing should be written over it. */
int comment_list_load(int sandbox_fd, struct comment_list *ret, struct err *err);
int comment_list_save(int sandbox_fd, const struct comment_list *list, struct err *err);

/* Adds a copy with an id of its own. ERR_RESOURCE_EXHAUSTED (TOO_MANY_COMMENTS). */
int comment_list_add(struct comment_list *list, const struct comment *comment, struct comment **ret, struct err *err);
/* ERR_NOT_FOUND (COMMENT_UNKNOWN). */
int comment_list_find(struct comment_list *list, const char *id, struct comment **ret, struct err *err);
void comment_list_remove(struct comment_list *list, struct comment *comment);

/* Notes in `comment` what the change is now, by which it is outdated later. ERR_NOT_FOUND (HUNK_UNKNOWN): the change has no such hunk. */
int comment_anchor(struct comment *comment, const struct change_set *set, struct file_change *change, struct err *err);

/* Finds out which comments are outdated. Reads the files that have comments. */
int comment_list_judge(struct comment_list *list, struct change_set *set, struct err *err);
