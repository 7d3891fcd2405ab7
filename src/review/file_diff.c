#include "review/file_diff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "review/diff_range.h"

/* Errors that concern only this file. Others, such as a lack of descriptors, end the operation. */
static bool is_file_error(int r)
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
 * A letter and the new mode come before the bytes, so that a link's target does not equal a file's text, and a file with
 * another mode is another change. If only the mode changes, the bytes are the base's and are left out.
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

static int read_new_side(const struct change_set *set, struct file_change *change, uint64_t max, struct blob *ret)
{
    const struct edit *edit = change->edit;
    struct sha256_ctx sha;
    int r = 0;

    begin_hash(change, &sha);
    if (edit->kind != CHANGE_MODE)
        r = blob_read(set->edits.delta.data_fd, edit->path, file_mode(edit->now), max, &sha, ret);
    if (r == 0)
        end_hash(change, &sha);
    return r;
}

/* The edit whose file in the project is the old side. */
static const struct edit *old_edit(const struct file_change *change)
{
    return change->from ? change->from : change->edit;
}

static int read_old_side(const struct change_set *set, const struct file_change *change, struct blob *ret)
{
    const struct edit *edit = old_edit(change);

    if (edit->kind == CHANGE_MODE)
        return 0;
    return blob_read(set->edits.base_fd, edit->path, file_mode(edit->was.st_mode), FILE_DIFF_MAX, NULL, ret);
}

static int set_failure(struct file_change *change, int r, struct err *err)
{
    change->is_hashed = false;
    change->failure = r;
    if (is_file_error(r))
        return 0;
    autodone(buf) struct buf shown = BUF_EMPTY;
    buf_add_excerpt(&shown, change->path, strlen(change->path));
    return err_errno(err, r, "reading '%s'", shown.data);
}

/* ---- drift ---- */

/* For a rename both paths count. */
static void join_drifts(struct drift *drift, const struct drift *other)
{
    struct sha256_ctx sha;

    if (!other->is_noted)
        return;
    sha256_init(&sha);
    sha256_update(&sha, sizeof(drift->hash), drift->hash);
    sha256_update(&sha, sizeof(other->hash), other->hash);
    sha256_digest(&sha, sizeof(drift->hash), drift->hash);
    drift->has_moved |= other->has_moved;
    drift->is_noted = true;
}

/* `was` is NULL if it was not read. */
static int find_drift(const struct change_set *set, struct file_change *change, const struct blob *was)
{
    struct drift old = DRIFT_NONE;
    int r = was && !change->from ? drift_of_blob(&set->edits, change->edit, was, &change->drift)
                                 : drift_detect(&set->edits, change->edit, &change->drift);

    if (r < 0 || !change->from)
        return r;
    r = was ? drift_of_blob(&set->edits, change->from, was, &old) : drift_detect(&set->edits, change->from, &old);
    if (r == 0)
        join_drifts(&change->drift, &old);
    return r;
}

/* ---- the result of an approval ---- */

static void show_bytes(struct blob *blob, const struct file_state *state)
{
    buf_clear(&blob->bytes);
    buf_add(&blob->bytes, state->bytes.data ? state->bytes.data : "", state->bytes.len);
    blob->size_bytes = state->bytes.len;
    blob->is_too_large = false;
}

/* Hashes the agent's bytes again, as they were reconciled. */
static void hash_again(struct file_change *change, const struct file_state *agent)
{
    struct sha256_ctx sha;

    begin_hash(change, &sha);
    blob_hash(agent->st.st_mode, &agent->bytes, &sha);
    end_hash(change, &sha);
}

static void show_reconciled(struct file_change *change, const struct reconcile *re, struct file_diff *diff)
{
    bool has_old =
        re->has_merge_base && re->merge_base.has_bytes && S_ISREG(re->merge_base.st.st_mode) && S_ISREG(diff->was.mode);

    if (re->agent.has_bytes && diff->now.mode) {
        hash_again(change, &re->agent);
        show_bytes(&diff->now, re->state == RECONCILE_CONFLICT ? &re->agent : &re->result);
    }
    if (re->state == RECONCILE_CONFLICT && has_old) {
        diff->is_aside = !file_state_equals(&re->merge_base, &re->project);
        show_bytes(&diff->was, &re->merge_base);
    } else if (re->state != RECONCILE_CONFLICT && re->project.has_bytes && diff->was.mode)
        show_bytes(&diff->was, &re->project);
}

/* Reads all three versions again: the first reading only showed that the project has changed. */
static int show_with_project(const struct change_set *set, struct file_change *change, struct file_diff *diff, struct err *err)
{
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = reconcile_make(&set->edits, change->edit, THREEWAY_NONE, &re, err);

    if (r == 0 && change->from) {
        enum reconcile_state state = re.state;
        const char *reason = re.reason;
        reconcile_done(&re);
        r = reconcile_make(&set->edits, change->from, THREEWAY_NONE, &re, err);
        if (r == 0 && re.state != RECONCILE_CONFLICT) {
            re.state = state;
            re.reason = reason;
        }
    }
    if (r < 0)
        return r;
    change->state = re.state;
    change->reason = re.reason;
    if (!change->from)
        drift_of_file_state(&set->edits, change->edit, &re.project, &change->drift);
    if (change->edit->kind != CHANGE_MODE)
        show_reconciled(change, &re, diff);
    return 0;
}

static int read_both_sides(const struct change_set *set, struct file_change *change, struct file_diff *diff, struct err *err)
{
    struct err why = ERR_NONE;
    int r = read_new_side(set, change, FILE_DIFF_MAX, &diff->now);

    change->state = RECONCILE_CLEAN;
    change->reason = NULL;
    if (r == 0)
        r = read_old_side(set, change, &diff->was);
    if (r == 0)
        r = find_drift(set, change, &diff->was);
    if (r == 0 && change->drift.has_moved)
        r = show_with_project(set, change, diff, &why);
    if (r < 0 && !is_file_error(r) && *why.text) {
        *err = why;
        return r;
    }
    if (r < 0) {
        set_failure(change, r, err);
        return is_file_error(r) ? 1 : r;
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

static size_t count_blob_lines(const struct blob *blob)
{
    size_t lines = blob->bytes.len > 0 && blob->bytes.data[blob->bytes.len - 1] != '\n';

    for (const char *at = blob->bytes.data, *end = at + blob->bytes.len; blob->bytes.len > 0 && at < end; lines++) {
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

static void count_lines(struct file_change *change, const struct file_diff *diff)
{
    for (size_t i = 0; i < diff->hunks.count; i++) {
        change->added += diff->hunks.items[i].added;
        change->removed += diff->hunks.items[i].removed;
    }
}

static int compare_sides(struct file_change *change, struct file_diff *diff, bool with_hunks, struct err *err)
{
    const struct buf *was = &diff->was.bytes, *now = &diff->now.bytes;
    int r = 0;

    change->added = change->removed = 0;
    change->is_binary = !is_link(diff) && (blob_is_binary(&diff->was) || blob_is_binary(&diff->now));
    change->is_too_large = diff->was.is_too_large || diff->now.is_too_large;
    change->is_whole_only = false;
    change->is_measured = true;
    if (change->is_binary || change->is_too_large)
        return 0;
    if (is_link(diff) || (!with_hunks && (was->len == 0 || now->len == 0))) {
        if (blob_equals(&diff->was, &diff->now) && !diff->is_retyped)
            return 0;
        change->added = count_blob_lines(&diff->now);
        change->removed = count_blob_lines(&diff->was);
        return 0;
    }
    if (with_hunks)
        r = hunk_list_make(was->data, was->len, now->data, now->len, &diff->hunks, err);
    else
        r = hunk_count_lines(was->data, was->len, now->data, now->len, &change->added, &change->removed, err);
    change->is_too_large = r == -EFBIG;
    count_lines(change, diff);
    return r == -EFBIG ? 0 : r;
}

/* ---- large texts ---- */

static bool may_have_diff_range(const struct file_change *change, const struct file_diff *diff)
{
    return change->is_too_large && !change->is_binary && !change->from && change->state == RECONCILE_CLEAN &&
           S_ISREG(diff->was.mode) && S_ISREG(diff->now.mode);
}

static int open_file(int dirfd, const char *path)
{
    autofd int fd = path_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -ESTALE : steal_fd(&fd);
}

/* Returns 1 if the file remains too large. */
static int find_diff_range(const struct change_set *set, struct file_change *change, struct hunk_list *ret, struct err *err)
{
    autodone(diff_range) struct diff_range range = DIFF_RANGE_NONE;
    autofd int was = open_file(set->edits.base_fd, change->edit->path),
               now = open_file(set->edits.delta.data_fd, change->edit->path);
    struct sha256_ctx sha;
    int r = was < 0 ? was : now < 0 ? now : diff_range_find(was, now, FILE_DIFF_MAX, &range);

    if (r == 0)
        r = hunk_list_make(range.was.data, range.was.len, range.now.data, range.now.len, ret, err);
    if (r == 0)
        r = hunk_list_shift(ret, range.lines_before);
    if (r != 0)
        return r == -EFBIG ? 1 : r;
    begin_hash(change, &sha);
    r = diff_range_hash(&range, was, &sha);
    if (r == 0)
        end_hash(change, &sha);
    change->old_bytes = range.was_size;
    change->new_bytes = range.now_size;
    return r;
}

static int compare_diff_range(const struct change_set *set, struct file_change *change, struct file_diff *diff, struct err *err)
{
    int r = find_diff_range(set, change, &diff->hunks, err);

    if (r < 0 && is_file_error(r)) {
        set_failure(change, r, err);
        return 1;
    }
    if (r != 0) {
        hunk_list_done(&diff->hunks);
        return r < 0 ? r : 0;
    }
    change->is_too_large = false;
    change->is_whole_only = true;
    count_lines(change, diff);
    return 0;
}

static int diff_change(const struct change_set *set, struct file_change *change, bool with_hunks, struct file_diff *ret,
                       struct err *err)
{
    struct file_diff diff = FILE_DIFF_NONE;
    int r = read_both_sides(set, change, &diff, err);

    if (r == 0)
        r = compare_sides(change, &diff, with_hunks, err);
    if (r == 0 && with_hunks && may_have_diff_range(change, &diff))
        r = compare_diff_range(set, change, &diff, err);
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
    int r = diff_change(set, change, true, &diff, err);

    if (r == 0)
        *ret = diff;
    return r;
}

int file_diff_measure(const struct change_set *set, struct file_change *change, struct err *err)
{
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;

    return diff_change(set, change, false, &diff, err);
}

int file_diff_hash(const struct change_set *set, struct file_change *change, struct err *err)
{
    autodone(blob) struct blob now = BLOB_NONE;
    int r = read_new_side(set, change, 0, &now);

    change->failure = 0;
    if (r == 0)
        r = find_drift(set, change, NULL);
    return r < 0 ? set_failure(change, r, err) : 0;
}

void file_diff_done(struct file_diff *diff)
{
    blob_done(&diff->was);
    blob_done(&diff->now);
    hunk_list_done(&diff->hunks);
    *diff = FILE_DIFF_NONE;
}
