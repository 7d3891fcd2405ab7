/*
 * Converts between reviews and messages. Escapes untrusted text for display. Callers bound counts and lists, so that an answer fits into the maximum
 * message size of clients.
 */
#pragma once

#include "api/request.h"
#include "review/file_diff.h"
#include "service/reviews.h"
#include <sandbox/v1/review.pb-c.h>

/* An answer, or a message of a stream, ends when it has this many bytes. */
#define REVIEW_ANSWER_BYTES ((size_t) 2 << 20)

struct review_about {
    const char *sandbox_id;
    const char *prefix; /* path of the sandbox's root in the project */
    const struct acceptance *acceptance;
};

/* Leaves out hunks and hash. `is_read`: file_diff_make() has filled in `change`. */
Sandbox__V1__FileChange *make_file_change(const struct review_about *about, const struct file_change *change, bool is_read);
/* The hash by which an approval names what its client has seen; NULL for a change that was not read. */
char *make_change_hash(const struct file_change *change);
/* Adds "0 ID HASH", a line: the change has been sent whole. Nothing for a change that could not be read. */
void add_change_receipt(struct buf *out, const char *sandbox_id, const struct file_change *change);

/* Appends a hunk without its lines to the change. */
Sandbox__V1__Hunk *add_hunk(Sandbox__V1__FileChange *change, size_t *cap, const struct hunk *hunk);

/* Adds all hunks, or as many as fit into `room` bytes and returns false. */
bool add_hunks(Sandbox__V1__FileChange *change, const struct hunk_list *hunks, size_t room);

/* Sets a file's id and its two paths, from the project's root and from the sandbox's. */
void set_change_paths(char **id, char **path, char **scope_path, const char *sandbox_id, const char *prefix,
                      const char *change_path);

/* Returns none if they would take too large a part of an answer. */
Sandbox__V1__ConflictHunk **make_conflicts(const struct threeway *merge, size_t *ret_count);

/* The verdict about the change at `place`. `is_brief`: leaves out what a ReviewFailure has no room for. */
Sandbox__V1__FileVerdict *make_verdict(const struct review_approved *approved, size_t place, bool is_brief);
Sandbox__V1__HookResult **make_hooks(const struct hook_results *results, bool is_brief, size_t *ret_count);

Sandbox__V1__ChangeKind make_kind(enum file_change_kind kind);
Sandbox__V1__ChangeKind make_kind_of_name(const char *name); /* "added" */

/* ---- requests ---- */

/* What a request selects; borrows from the message. */
struct review_selection {
    struct review_choice choice;
    struct review_hunks *hunks;      /* owned */
    struct selection_range **ranges; /* owned, each too; one for each of the hunks */
};

void review_selection_done(struct review_selection *selection);
/* "nothing is selected". */
int review_selection_take(const Sandbox__V1__Selection *message, struct review_selection *ret, struct err *err);
