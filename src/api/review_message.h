/*
 * What reviews show and are told, as messages. Text of a stranger's is escaped for people; counts and lists are bounded by whoever asks, so
 * that an answer fits into what clients take.
 */
#pragma once

#include "api/request.h"
#include "review/file_diff.h"
#include "service/reviews.h"
#include <sandbox/v1/review.pb-c.h>

/* Bytes of an answer, or of one message of a stream, before it ends. */
#define REVIEW_ANSWER_BYTES ((size_t) 2 << 20)

struct review_about {
    const char *sandbox_id;
    const char *prefix; /* the sandbox's root from the project's */
    const struct acceptance *acceptance;
};

/* Without hunks and hash. `is_read`: what file_diff_make() finds is in `change`. */
Sandbox__V1__FileChange *make_file_change(const struct review_about *about, const struct file_change *change, bool is_read);
/* What an approval says to have seen; NULL for what was not read. */
char *make_change_hash(const struct file_change *change);
/* Adds "0 ID HASH", a line: the change has been sent whole. Nothing for a change that could not be read. */
void add_change_receipt(struct buf *out, const char *sandbox_id, const struct file_change *change);

/* A hunk without its lines, at the end of the change's. */
Sandbox__V1__Hunk *add_hunk(Sandbox__V1__FileChange *change, size_t *cap, const struct hunk *hunk);

/* All of them, if they are no more than `room` bytes; otherwise as many as that, and false. */
bool add_hunks(Sandbox__V1__FileChange *change, const struct hunk_list *hunks, size_t room);

/* The same text for each of them: an id, and both paths. */
void set_change_paths(char **id, char **path, char **scope_path, const char *sandbox_id, const char *prefix,
                      const char *change_path);

/* None, where they would be more than a part of an answer. */
Sandbox__V1__ConflictHunk **make_conflicts(const struct threeway *merge, size_t *ret_count);

/* Of the change at `place`. `is_brief`: as in a ReviewFailure. */
Sandbox__V1__FileVerdict *make_verdict(const struct review_approved *approved, size_t place, bool is_brief);
Sandbox__V1__HookResult **make_hooks(const struct hook_results *results, bool is_brief, size_t *ret_count);

Sandbox__V1__ChangeKind make_kind(enum file_change_kind kind);
Sandbox__V1__ChangeKind make_kind_of_name(const char *name); /* "added" */

/* ---- requests ---- */

/* What is meant; borrows from the message. */
struct review_selection {
    struct review_choice choice;
    struct review_hunks *hunks;      /* owned */
    struct selection_range **ranges; /* owned, each too; one for each of the hunks */
};

void review_selection_done(struct review_selection *selection);
/* "nothing is selected". */
int review_selection_take(const Sandbox__V1__Selection *message, struct review_selection *ret, struct err *err);
