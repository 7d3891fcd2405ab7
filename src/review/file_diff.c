#include "review/file_diff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Reasons to go on without this file. Others, such as no more descriptors, end the whole. */
static bool is_its_own(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESTALE || r == -EACCES || r == -EPERM || r == -ENXIO ||
           r == -EXDEV || r == -EISDIR;
}

static mode_t file_mode(mode_t mode)
{
    return S_ISREG(mode) || S_ISLNK(mode) ? mode : 0;
}

/* ---- the hash ---- */

/*
 * A letter and a mode for what comes to be, before its bytes: so that a link's target is not a file's text, and a file with another
 * mode is another change. Where only the mode changes the bytes are the base's, and no part of it.
 */
static void begin_hash(const struct file_change *change, struct sha256_ctx *sha)
{
    char head[16] = { 0 };
    mode_t now = change->edit->now;
    char letter = 'f';

    if (!now)
        letter = '-';
    else if (change->edit->kind == CHANGE_MODE)
        letter = 'm';
    else if (S_ISLNK(now))
        letter = 'l';
    else if (S_ISDIR(now))
        letter = 'd';
    snprintf(head, sizeof(head), "1 %c %04o", letter, S_ISLNK(now) || !now ? 0 : (unsigned) now & 0777);
    sha256_init(sha);
    sha256_update(sha, sizeof(head), (const uint8_t *) head);
}

static void end_hash(struct file_change *change, struct sha256_ctx *sha)
{
    sha256_digest(sha, sizeof(change->hash), change->hash);
    change->is_hashed = true;
}

/* ---- reading ---- */

static int read_now(const struct change_set *set, struct file_change *change, uint64_t max, struct side *ret)
{
    const struct edit *edit = change->edit;
    struct sha256_ctx sha;
    int r = 0;

    begin_hash(change, &sha);
    if (edit->kind != CHANGE_MODE)
        r = side_read(set->edits.delta.data_fd, edit->path, file_mode(edit->now), max, &sha, ret);
    if (r == 0)
        end_hash(change, &sha);
    return r;
}

static int read_was(const struct change_set *set, const struct file_change *change, struct side *ret)
{
    const struct edit *edit = change->from ? change->from : change->edit;

    if (edit->kind == CHANGE_MODE)
        return 0;
    return side_read(set->edits.base_fd, edit->path, file_mode(edit->was.st_mode), FILE_DIFF_MAX, NULL, ret);
}

static int failed(struct file_change *change, int r, struct err *err)
{
    change->is_hashed = false;
    change->failure = r;
    if (is_its_own(r))
        return 0;
    autodone(buf) struct buf shown = BUF_EMPTY;
    buf_add_excerpt(&shown, change->path, strlen(change->path));
    return err_errno(err, r, "reading '%s'", shown.data);
}

static int read_sides(const struct change_set *set, struct file_change *change, struct file_diff *diff, struct err *err)
{
    int r = read_now(set, change, FILE_DIFF_MAX, &diff->now);

    if (r == 0)
        r = read_was(set, change, &diff->was);
    if (r < 0) {
        failed(change, r, err);
        return is_its_own(r) ? 1 : r;
    }
    change->failure = 0;
    if (diff->was.mode)
        change->old_bytes = diff->was.size_bytes;
    if (diff->now.mode)
        change->new_bytes = diff->now.size_bytes;
    diff->is_retyped = diff->was.mode && diff->now.mode && ((diff->was.mode ^ diff->now.mode) & S_IFMT);
    return 0;
}

/* ---- comparing ---- */

static size_t lines_of(const struct side *side)
{
    size_t lines = side->bytes.len > 0 && side->bytes.data[side->bytes.len - 1] != '\n';

    for (const char *at = side->bytes.data, *end = at + side->bytes.len; side->bytes.len > 0 && at < end; lines++) {
        at = memchr(at, '\n', (size_t) (end - at));
        if (!at)
            break;
        at++;
    }
    return lines;
}

static bool is_link(const struct file_diff *diff)
{
    return S_ISLNK(diff->was.mode) || S_ISLNK(diff->now.mode);
}

static int compare(struct file_change *change, struct file_diff *diff, bool with_hunks, struct err *err)
{
    const struct buf *was = &diff->was.bytes, *now = &diff->now.bytes;
    int r = 0;

    change->added = change->removed = 0;
    change->is_binary = !is_link(diff) && (side_is_binary(&diff->was) || side_is_binary(&diff->now));
    change->is_too_large = diff->was.is_too_large || diff->now.is_too_large;
    change->is_measured = true;
    if (change->is_binary || change->is_too_large)
        return 0;
    if (is_link(diff) || (!with_hunks && (was->len == 0 || now->len == 0))) {
        if (side_equals(&diff->was, &diff->now) && !diff->is_retyped)
            return 0;
        change->added = lines_of(&diff->now);
        change->removed = lines_of(&diff->was);
        return 0;
    }
    if (with_hunks)
        r = hunk_list_make(was->data, was->len, now->data, now->len, &diff->hunks, err);
    else
        r = hunk_count_lines(was->data, was->len, now->data, now->len, &change->added, &change->removed, err);
    change->is_too_large = r == -EFBIG;
    for (size_t i = 0; i < diff->hunks.count; i++) {
        change->added += diff->hunks.items[i].added;
        change->removed += diff->hunks.items[i].removed;
    }
    return r == -EFBIG ? 0 : r;
}

static int make(const struct change_set *set, struct file_change *change, bool with_hunks, struct file_diff *ret,
                struct err *err)
{
    struct file_diff diff = FILE_DIFF_NONE;
    int r = read_sides(set, change, &diff, err);

    if (r == 0)
        r = compare(change, &diff, with_hunks, err);
    if (r != 0) {
        file_diff_done(&diff);
        return r < 0 ? r : 0;
    }
    *ret = diff;
    return 0;
}

int file_diff_make(const struct change_set *set, struct file_change *change, struct file_diff *ret, struct err *err)
{
    struct file_diff diff = FILE_DIFF_NONE;
    int r = make(set, change, true, &diff, err);

    if (r == 0)
        *ret = diff;
    return r;
}

int file_diff_measure(const struct change_set *set, struct file_change *change, struct err *err)
{
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;

    return make(set, change, false, &diff, err);
}

int file_diff_hash(const struct change_set *set, struct file_change *change, struct err *err)
{
    autodone(side) struct side now = SIDE_NONE;
    int r = read_now(set, change, 0, &now);

    change->failure = 0;
    return r < 0 ? failed(change, r, err) : 0;
}

void file_diff_done(struct file_diff *diff)
{
    side_done(&diff->was);
    side_done(&diff->now);
    hunk_list_done(&diff->hunks);
    *diff = FILE_DIFF_NONE;
}
