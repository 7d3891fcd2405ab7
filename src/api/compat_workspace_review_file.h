/* Changes of files as the API shows them. */
#pragma once

#include "api/compat_workspace_call.h"
#include "review/acceptance.h"
#include "review/change_set.h"
#include "review/file_diff.h"
#include "review/threeway.h"

struct compat_review_file {
    const char *sandbox_id;
    const struct acceptance *acceptance;
    int64_t now_ns;
};

/* `diff` may be NULL: without hunks. */
json_t *compat_review_file(const struct compat_review_file *about, const struct file_change *change,
                           const struct file_diff *diff);

/* The change as git would lay it out, for people: what could mislead a terminal is escaped. */
void compat_review_add_text(struct buf *out, const struct file_change *change, const struct file_diff *diff);

/* "0 ID HASH", a line: the change has been sent whole. None for one that could not be read. */
void compat_review_add_receipt(struct buf *out, const char *sandbox_id, const struct file_change *change);

/* Bytes of a stranger's as text, escaped likewise. */
json_t *compat_review_lines(const struct buf *lines);

/* [{"line", "project", "base", "agent"}], texts. */
json_t *compat_review_conflict(const struct threeway *merge);

/* filePath, projectPath and id of a path from the sandbox's root. */
void compat_review_set_paths(json_t *object, const char *sandbox_id, const char *prefix, const char *scope_path);
