/*
 * Reviewers' comments on the changes of a sandbox (review/comments.h), for callers who may see the sandbox. Each change of a
 * comment is audited: sandbox_commented, sandbox_comment_resolved, sandbox_comment_reopened, sandbox_comment_deleted.
 */
#pragma once

#include "base/sandbox_id.h"
#include "review/comments.h"
#include "service/caller.h"

struct service;

/* The target of a comment; all borrowed. */
struct review_comment_request {
    const char *path, *file_id; /* of a changed file, from the project's root or the sandbox's; "": use the other */
    const char *hunk_id;        /* "": the whole file */
    uint32_t line;
    bool is_old_line;
    const char *text;
    const char *actor; /* the claimed name; "": none */
};

/* The result; call its done function also after a failure. */
struct review_comments {
    char sandbox_id[SANDBOX_ID_MAX];
    char *prefix; /* owned: the sandbox's root from the project's */
    struct comment_list list;
};

void review_comments_done(struct review_comments *comments);

/* ERR_NOT_FOUND: FILE_UNKNOWN, HUNK_UNKNOWN. `ret` has only the new comment. */
int reviews_comment_add(struct service *service, const struct caller *caller, const char *id,
                        const struct review_comment_request *request, struct review_comments *ret, struct err *err);
/* Lists all comments, the oldest first, and whether they are outdated. */
int reviews_comment_list(struct service *service, const struct caller *caller, const char *id, struct review_comments *ret,
                         struct err *err);
/* Resolves a comment or reopens it. Does nothing if it is in that state already. */
int reviews_comment_resolve(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                            bool reopens, const char *actor, struct review_comments *ret, struct err *err);
int reviews_comment_delete(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                           const char *actor, struct err *err);
