/* How names, modes and lines are written in a diff that is laid out as git does it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* "a/src/x.c", or in quotes with C escapes as git writes names it finds unusual. */
void diff_text_add_name(struct buf *out, const char *prefix, const char *name);

/* Lines of a stranger's, for people: whatever could mislead a terminal (control characters, bidi overrides, bytes that are no UTF-8)
 * becomes an escape, except tabs, newlines, and a carriage return at the end of a line. */
void diff_text_add_safe(struct buf *out, const char *s, size_t len);

/* Git knows three modes of files. */
const char *diff_text_mode(mode_t mode);

/* "# mode 0600, was 0644", a line, if they differ in what git does not know. */
void diff_text_add_finer_mode(struct buf *out, mode_t old_mode, mode_t new_mode);

/* "diff --git a/OLD b/NEW", a line. */
void diff_text_add_git_line(struct buf *out, const char *old_path, const char *new_path);

/* "new file mode", "deleted file mode", or "old mode" and "new mode", lines; 0: no file. False: git sees no difference, nothing was added. */
bool diff_text_add_modes(struct buf *out, mode_t old_mode, mode_t new_mode);

struct file_change;
struct file_diff;
/* The change as git would lay it out, for people: what could mislead a terminal is escaped. */
void diff_text_add_change(struct buf *out, const struct file_change *change, const struct file_diff *diff);
