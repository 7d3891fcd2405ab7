/* Writes names, modes and lines for diffs in git's format. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* Adds "a/src/x.c", or in quotes with C escapes if git considers the name unusual. */
void diff_text_add_name(struct buf *out, const char *prefix, const char *name);

/* Adds a stranger's lines for people: whatever could mislead a terminal (control characters, bidi overrides, bytes that are
 * not UTF-8) is escaped, except tabs, newlines, and a carriage return at the end of a line. */
void diff_text_add_safe(struct buf *out, const char *s, size_t len);

/* Maps a mode to one of git's three for files. */
const char *diff_text_mode(mode_t mode);

/* Adds a line "# mode 0600, was 0644" if the modes differ in bits that git does not know. */
void diff_text_add_finer_mode(struct buf *out, mode_t old_mode, mode_t new_mode);

/* Adds the line "diff --git a/OLD b/NEW". */
void diff_text_add_git_line(struct buf *out, const char *old_path, const char *new_path);

/* Adds the lines "new file mode", "deleted file mode", or "old mode" and "new mode"; 0: no file. Returns false if git sees
 * no difference and nothing was added. */
bool diff_text_add_modes(struct buf *out, mode_t old_mode, mode_t new_mode);

struct file_change;
struct file_diff;
/* Adds the change in git's format, for people: whatever could mislead a terminal is escaped. */
void diff_text_add_change(struct buf *out, const struct file_change *change, const struct file_diff *diff);
