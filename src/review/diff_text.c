#include "review/diff_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "review/file_diff.h"

static bool is_plain(const char *name)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;

    buf_add_escaped(&escaped, name, strlen(name));
    return strcmp(escaped.data, name) == 0 && !strpbrk(name, "\"\\");
}

void diff_text_add_name(struct buf *out, const char *prefix, const char *name)
{
    if (is_plain(name)) {
        buf_addf(out, "%s%s", prefix, name);
        return;
    }
    buf_addf(out, "\"%s", prefix);
    for (const unsigned char *p = (const unsigned char *) name; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_addf(out, "\\%c", *p);
        else if (*p == '\n' || *p == '\t')
            buf_add_str(out, *p == '\n' ? "\\n" : "\\t");
        else if (*p < 0x20 || *p >= 0x7F)
            buf_addf(out, "\\%03o", *p);
        else
            buf_add_char(out, (char) *p);
    }
    buf_add_char(out, '"');
}

/* Runs of plain ASCII are copied at once. A backslash is not escaped, because nothing parses this text. */
void diff_text_add_safe(struct buf *out, const char *s, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        uint32_t c;

        while (n < len && ((s[n] >= 0x20 && s[n] < 0x7F) || s[n] == '\t' || s[n] == '\n'))
            n++;
        buf_add(out, s, n);
        s += n;
        len -= n;
        if (len == 0)
            return;
        n = utf8_decode(s, len, &c);
        n = n ? n : 1;
        if (len >= 2 && s[0] == '\r' && s[1] == '\n')
            buf_add_char(out, '\r');
        else
            buf_add_escaped(out, s, n);
        s += n;
        len -= n;
    }
}

void diff_text_add_finer_mode(struct buf *out, mode_t old_mode, mode_t new_mode)
{
    if (S_ISREG(old_mode) && S_ISREG(new_mode) && ((old_mode ^ new_mode) & 0777) &&
        strcmp(diff_text_mode(old_mode), diff_text_mode(new_mode)) == 0)
        buf_addf(out, "# mode %04o, was %04o\n", (unsigned) new_mode & 0777, (unsigned) old_mode & 0777);
}

const char *diff_text_mode(mode_t mode)
{
    if (S_ISLNK(mode))
        return "120000";
    return mode & 0111 ? "100755" : "100644";
}

void diff_text_add_git_line(struct buf *out, const char *old_path, const char *new_path)
{
    buf_add_str(out, "diff --git ");
    diff_text_add_name(out, "a/", old_path);
    buf_add_char(out, ' ');
    diff_text_add_name(out, "b/", new_path);
    buf_add_char(out, '\n');
}

bool diff_text_add_modes(struct buf *out, mode_t old_mode, mode_t new_mode)
{
    if (!old_mode)
        buf_addf(out, "new file mode %s\n", diff_text_mode(new_mode));
    else if (!new_mode)
        buf_addf(out, "deleted file mode %s\n", diff_text_mode(old_mode));
    else if (strcmp(diff_text_mode(old_mode), diff_text_mode(new_mode)) != 0)
        buf_addf(out, "old mode %s\nnew mode %s\n", diff_text_mode(old_mode), diff_text_mode(new_mode));
    else
        return false;
    return true;
}

/* ---- formatting a change ---- */

static void diff_text_add_line(struct buf *out, const char *before, const char *prefix, const char *name)
{
    buf_add_str(out, before);
    if (name)
        diff_text_add_name(out, prefix, name);
    else
        buf_add_str(out, "/dev/null");
    buf_add_char(out, '\n');
}

static void diff_text_add_rename(struct buf *out, const struct file_change *change)
{
    buf_addf(out, "similarity index %u%%\n", change->percent);
    diff_text_add_line(out, "rename from ", "", change->old_path);
    diff_text_add_line(out, "rename to ", "", change->path);
}

static void diff_text_add_target(struct buf *out, char sign, const char *target)
{
    buf_add_char(out, sign);
    diff_text_add_safe(out, target, strlen(target));
    buf_add_str(out, "\n\\ No newline at end of file\n");
}

static void diff_text_add_targets(struct buf *out, const struct file_change *change)
{
    buf_addf(out, "@@ -%s +%s @@\n", change->old_target ? "1" : "0,0", change->new_target ? "1" : "0,0");
    if (change->old_target)
        diff_text_add_target(out, '-', change->old_target);
    if (change->new_target)
        diff_text_add_target(out, '+', change->new_target);
}

/* For changes without lines: there are none, or too many. */
static void diff_text_add_differ(struct buf *out, const struct file_change *change)
{
    bool is_text = change->is_too_large && !change->is_binary;

    buf_add_str(out, is_text ? "Files " : "Binary files ");
    diff_text_add_name(out, "a/", change->old_path ? change->old_path : change->path);
    buf_add_str(out, " and ");
    diff_text_add_name(out, "b/", change->path);
    if (is_text)
        buf_addf(out, " are too large to show: %" PRIu64 " and %" PRIu64 " bytes\n", change->old_bytes, change->new_bytes);
    else
        buf_add_str(out, " differ\n");
}

void diff_text_add_change(struct buf *out, const struct file_change *change, const struct file_diff *diff)
{
    const char *old = change->old_path ? change->old_path : change->path;
    bool has_link = change->old_target || change->new_target;

    diff_text_add_git_line(out, old, change->path);
    if (change->old_mode && change->new_mode && change->old_mode != change->new_mode)
        buf_addf(out, "old mode %06o\nnew mode %06o\n", (unsigned) change->old_mode, (unsigned) change->new_mode);
    else
        diff_text_add_modes(out, change->old_mode, change->new_mode);
    if (change->kind == FILE_CHANGE_RENAMED)
        diff_text_add_rename(out, change);
    if (change->failure) {
        buf_addf(out, "(not readable: %s)\n", strerror(-change->failure));
        return;
    }
    if (change->state == RECONCILE_CONFLICT)
        buf_addf(out, "(in conflict: it %s)\n", change->reason);
    if (change->is_binary || change->is_too_large || diff->is_retyped) {
        diff_text_add_differ(out, change);
        return;
    }
    if (diff->hunks.count == 0 && !has_link)
        return;
    diff_text_add_line(out, "--- ", "a/", change->old_mode ? old : NULL);
    diff_text_add_line(out, "+++ ", "b/", change->new_mode ? change->path : NULL);
    if (has_link)
        diff_text_add_targets(out, change);
    for (size_t i = 0; i < diff->hunks.count; i++) {
        const struct hunk *hunk = &diff->hunks.items[i];
        buf_addf(out, "%s\n", hunk->header);
        diff_text_add_safe(out, hunk->lines.data ? hunk->lines.data : "", hunk->lines.len);
    }
}
