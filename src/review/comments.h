/*
 * Reviewers' comments on the changes of a sandbox: each is about a file, or about one hunk or line of it.
 *
 * They are kept in the file `comments` of the sandbox's directory, which is replaced as a whole and synced: a saved comment
 * survives a kill and a power cut, and a full disk leaves the old comments. A writer holds the sandbox's lock from
 * comment_list_load() to comment_list_save().
 *
 * A comment stays when its change is gone. It is then outdated: a comment on a hunk if the file no longer has the hunk, a
 * comment on a file if the agent has changed the file since.
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

/* All texts are owned, never NULL, without NULs. Times are wall-clock nanoseconds. */
struct comment {
    char id[ID_TEXT_MAX];
    char *scope_path; /* from the sandbox's root */
    char *author;     /* the authenticated name */
    char *claimed;    /* the name that the author claimed; "": none */
    char *text;
    char *resolved_by;               /* "": not resolved */
    char hunk_id[HUNK_ID_LEN + 1];   /* "": the whole file */
    char hash[CHANGE_HASH_TEXT_MAX]; /* of the file's change when the comment was written; "": the file could not be read */
    uint32_t line;                   /* from 1, in the new text; 0: none */
    bool is_old_line;                /* `line` is in the old text */
    int64_t time_ns, resolved_ns;    /* resolved_ns 0: open */
    bool is_outdated;                /* by comment_list_judge(); not saved */
};

struct comment_list {
    struct comment *items; /* owned; the oldest first */
    size_t count, cap;
};

void comment_list_done(struct comment_list *list);

/* A missing file is an empty list. ERR_DATA_LOSS: the file is damaged, and must not be overwritten. */
int comment_list_load(int sandbox_fd, struct comment_list *ret, struct err *err);
int comment_list_save(int sandbox_fd, const struct comment_list *list, struct err *err);

/* Adds a copy with a new id. ERR_RESOURCE_EXHAUSTED (TOO_MANY_COMMENTS). */
int comment_list_add(struct comment_list *list, const struct comment *comment, struct comment **ret, struct err *err);
/* ERR_NOT_FOUND (COMMENT_UNKNOWN). */
int comment_list_find(struct comment_list *list, const char *id, struct comment **ret, struct err *err);
void comment_list_remove(struct comment_list *list, struct comment *comment);

/* Stores the state of the change in `comment`, to detect later that the comment is outdated. ERR_NOT_FOUND (HUNK_UNKNOWN):
 * the change has no such hunk. */
int comment_anchor(struct comment *comment, const struct change_set *set, struct file_change *change, struct err *err);

/* Determines which comments are outdated. Reads the files that have comments. */
int comment_list_judge(struct comment_list *list, struct change_set *set, struct err *err);
