/*
 * Reviewers' comments on the changes of a sandbox (review/comments.h), for those who see the sandbox. Each change of them is in the audit:
 * sandbox_commented, sandbox_comment_resolved, sandbox_comment_reopened, sandbox_comment_deleted.
 */
#pragma once

#include "base/sandbox_id.h"
#include "review/comments.h"
#include "service/caller.h"

struct service;

/* What a comment is to be about; all borrowed. */
struct review_comment_request {
    const char *path, *file_id; /* of a changed file, from the project's root or the sandbox's; "": the other */
    const char *hunk_id;        /* "": of the whole file */
    uint32_t line;
    bool is_old_line;
    const char *text;
    const char *actor; /* "": who they say that they are, they do not say */
};

/* What came of it; to be done with, also after a failure. */
struct review_comments {
    char sandbox_id[SANDBOX_ID_MAX];
    char *prefix; /* owned: the sandbox's root from the project's */
    struct comment_list list;
};

void review_comments_done(struct review_comments *comments);

/* ERR_NOT_FOUND: FILE_UNKNOWN, HUNK_UNKNOWN. `ret` has the new one alone. */
int reviews_comment_add(struct service *service, const struct caller *caller, const char *id,
                        const struct review_comment_request *request, struct review_comments *ret, struct err *err);
/* All of them, the oldest first, with whether they are outdated. */
int reviews_comment_list(struct service *service, const struct caller *caller, const char *id, struct review_comments *ret,
                         struct err *err);
/* Resolves it, or opens it again. One that is so already stays as it is. */
int reviews_comment_resolve(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                            bool reopens, const char *actor, struct review_comments *ret, struct err *err);
int reviews_comment_delete(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                           const char *actor, struct err *err);
