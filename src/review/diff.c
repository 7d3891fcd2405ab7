#include "review/diff.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "review/diff_text.h"
#include "review/file_diff.h"

struct diff_writer {
    const struct edit_list *list;
    const struct edit *edit;
    bool is_exact;
    struct diff out;
};

/* ---- hunks ---- */

static void add_hunks(struct diff_writer *m, const struct hunk_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct hunk *hunk = &list->items[i];
        m->out.added += hunk->added;
        m->out.removed += hunk->removed;
        buf_addf(&m->out.text, "%s\n", hunk->header);
        if (m->is_exact)
            buf_add(&m->out.text, hunk->lines.data, hunk->lines.len);
        else
            diff_text_add_safe(&m->out.text, hunk->lines.data, hunk->lines.len);
    }
}

static void add_head(struct diff_writer *m, const struct blob *old, const struct blob *new)
{
    struct buf *out = &m->out.text;

    if (m->is_exact) /* within a change git would not skip it */
        diff_text_add_finer_mode(out, old->mode, new->mode);
    diff_text_add_git_line(out, m->edit->path, m->edit->path);
    if (!diff_text_add_modes(out, old->mode, new->mode) && !m->is_exact)
        diff_text_add_finer_mode(out, old->mode, new->mode);
}

static void add_names(struct diff_writer *m, const struct blob *old, const struct blob *new, const char *before_old,
                      const char *between, const char *after)
{
    struct buf *out = &m->out.text;

    buf_add_str(out, before_old);
    if (old->mode)
        diff_text_add_name(out, "a/", m->edit->path);
    else
        buf_add_str(out, "/dev/null");
    buf_add_str(out, between);
    if (new->mode)
        diff_text_add_name(out, "b/", m->edit->path);
    else
        buf_add_str(out, "/dev/null");
    buf_add_str(out, after);
}

static int write_sizes(struct diff_writer *m, const struct blob *old, const struct blob *new)
{
    m->out.is_too_large = true;
    add_names(m, old, new, "Files ", " and ", " are too large to show");
    buf_addf(&m->out.text, ": %" PRIu64 " and %" PRIu64 " bytes\n", old->size_bytes, new->size_bytes);
    return 0;
}

/* `made` are the hunks, if they are known. */
static int write_diff(struct diff_writer *m, const struct blob *old, const struct blob *new, const struct hunk_list *made,
                      struct err *err)
{
    autodone(hunk_list) struct hunk_list own = HUNK_LIST_EMPTY;
    const struct hunk_list *list = made && made->count > 0 ? made : &own;
    int r = 0;

    add_head(m, old, new);
    if (list == &own && (old->is_too_large || new->is_too_large))
        return write_sizes(m, old, new);
    if (blob_equals(old, new))
        return 0;
    if (blob_is_binary(old) || blob_is_binary(new)) {
        m->out.is_binary = true;
        add_names(m, old, new, "Binary files ", " and ", " differ\n");
        return 0;
    }
    if (list == &own)
        r = hunk_list_make(old->bytes.data, old->bytes.len, new->bytes.data, new->bytes.len, &own, err);
    if (r == -EFBIG) /* too many lines */
        return write_sizes(m, old, new);
    if (r < 0)
        return r;
    add_names(m, old, new, "--- ", "\n+++ ", "\n");
    add_hunks(m, list);
    return 0;
}

/* The mode alone: no content is read for that. */
static void compare_modes(struct diff_writer *m, const struct blob *old, const struct blob *new)
{
    if (!m->is_exact || strcmp(diff_text_mode(old->mode), diff_text_mode(new->mode)) != 0)
        add_head(m, old, new);
    else
        diff_text_add_finer_mode(&m->out.text, old->mode, new->mode);
}

static int report_read_failure(const struct edit *edit, int r, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, edit->path, strlen(edit->path));
    return err_errno(err, r, "reading '%s'", shown.data);
}

/* Nothing that `git apply` would take: an approval refuses it, too. What leads from another text than the project's does not apply anyway. */
static bool is_withheld(const struct diff_writer *m, const struct file_diff *diff)
{
    return m->is_exact && m->out.state == RECONCILE_CONFLICT && !(diff->is_aside && diff->hunks.count > 0);
}

static void write_conflict(struct diff_writer *m)
{
    if (m->out.state == RECONCILE_CONFLICT)
        buf_addf(&m->out.text, "# in conflict: it %s\n", m->out.reason);
}

static void write_withheld(struct diff_writer *m, const struct file_diff *diff)
{
    const struct blob there = { .mode = S_IFREG | 0644 };

    m->out.is_binary = true;
    add_head(m, diff->was.mode ? &diff->was : &there, diff->now.mode ? &diff->now : &there);
    add_names(m, &there, &there, "Binary files ", " and ", " differ\n");
}

/* A file that became a link is one file deleted and another added, as git has it. */
static int diff_edit(struct diff_writer *m, struct err *err)
{
    const struct change_set set = { .edits = *m->list };
    struct file_change change = { .edit = m->edit, .path = m->edit->path };
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    const struct blob nothing = BLOB_NONE;
    int r = file_diff_make(&set, &change, &diff, err);

    if (r < 0 || change.failure)
        return r < 0 ? r : report_read_failure(m->edit, change.failure, err);
    m->out.state = change.state;
    m->out.reason = change.reason;
    write_conflict(m);
    if (is_withheld(m, &diff)) {
        write_withheld(m, &diff);
        return 0;
    }
    if (!diff.is_retyped)
        return diff.was.mode || diff.now.mode ? write_diff(m, &diff.was, &diff.now, &diff.hunks, err) : 0;
    r = write_diff(m, &diff.was, &nothing, NULL, err);
    return r == 0 ? write_diff(m, &nothing, &diff.now, NULL, err) : r;
}

/* Git knows no directories. */
static mode_t file_mode(mode_t mode)
{
    return S_ISREG(mode) || S_ISLNK(mode) ? mode : 0;
}

int diff_make(const struct edit_list *list, const struct edit *edit, bool is_exact, struct diff *ret, struct err *err)
{
    struct diff_writer m = { list, edit, is_exact, DIFF_NONE };
    mode_t was = file_mode(edit->was.st_mode), now = file_mode(edit->now);
    int r = 0;

    if (edit->kind != CHANGE_MODE)
        r = diff_edit(&m, err);
    else if (was && now)
        compare_modes(&m, &(struct blob){ .mode = was }, &(struct blob){ .mode = now });
    if (r < 0) {
        diff_done(&m.out);
        return r;
    }
    *ret = m.out;
    return 0;
}

void diff_done(struct diff *diff)
{
    buf_done(&diff->text);
    *diff = DIFF_NONE;
}
