#include "review/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/binary_patch.h"
#include "review/diff_text.h"
#include "review/file_diff.h"
#include "review/parallel.h"

/* Limits for the changes whose texts are in memory at once: their number, and the bytes of their files. */
#define WINDOW 128
#define WINDOW_BYTES ((uint64_t) 16 << 20)
#define PIECE ((size_t) 256 << 10)

#define NO_OID "0000000000000000000000000000000000000000"

/* Where the text of one change goes: to memory, or, if it is large, directly to the patch's receiver. */
struct piece {
    struct buf text;
    bool is_large;
};

struct patch_writer {
    struct change_set *set;
    const size_t *places; /* borrowed; NULL: all */
    size_t first;         /* the start of the window */
    struct piece pieces[WINDOW];
    patch_fn fn;
    patch_end_fn end;
    void *cookie;
};

static struct file_change *change_at(const struct patch_writer *w, size_t i)
{
    return &w->set->items[w->places ? w->places[i] : i];
}

static const char *old_path(const struct file_change *change)
{
    return change->old_path ? change->old_path : change->path;
}

static bool is_file(mode_t mode)
{
    return S_ISREG(mode) || S_ISLNK(mode);
}

/* ---- headers ---- */

static void add_head(struct buf *out, const struct file_change *change, mode_t old_mode, mode_t new_mode)
{
    diff_text_add_finer_mode(out, old_mode, new_mode);
    diff_text_add_git_line(out, old_path(change), change->path);
    diff_text_add_modes(out, old_mode, new_mode);
    if (change->old_path) {
        buf_addf(out, "similarity index %u%%\nrename from ", change->percent);
        diff_text_add_name(out, "", change->old_path);
        buf_add_str(out, "\nrename to ");
        diff_text_add_name(out, "", change->path);
        buf_add_char(out, '\n');
    }
}

/* A tab follows a name with a space: programs other than git would take the rest of the line for a timestamp. */
static void add_side_name(struct buf *out, const char *sign, const char *prefix, const char *name, mode_t mode)
{
    buf_add_str(out, sign);
    if (mode)
        diff_text_add_name(out, prefix, name);
    else
        buf_add_str(out, "/dev/null");
    buf_add_str(out, mode && strchr(name, ' ') ? "\t\n" : "\n");
}

static void add_index(struct buf *out, const char *old_oid, const char *new_oid)
{
    buf_addf(out, "index %s..%s\nGIT binary patch\n", old_oid, new_oid);
}

/* ---- changes in memory ---- */

static int add_binary(struct buf *out, const struct blob *was, const struct blob *now, struct err *err)
{
    char old_oid[BINARY_PATCH_OID_MAX] = NO_OID, new_oid[BINARY_PATCH_OID_MAX] = NO_OID;

    if (was->mode)
        binary_patch_oid(was->bytes.data, was->bytes.len, old_oid);
    if (now->mode)
        binary_patch_oid(now->bytes.data, now->bytes.len, new_oid);
    add_index(out, old_oid, new_oid);
    return binary_patch_add(out, was->bytes.data, was->bytes.len, now->bytes.data, now->bytes.len, err);
}

static int add_text(struct buf *out, const struct file_change *change, const struct blob *was, const struct blob *now,
                    const struct hunk_list *made, struct err *err)
{
    autodone(hunk_list) struct hunk_list own = HUNK_LIST_EMPTY;
    const struct hunk_list *list = made;

    if (!made) {
        int r = hunk_list_make(was->bytes.data, was->bytes.len, now->bytes.data, now->bytes.len, &own, err);
        if (r == -EFBIG)
            return add_binary(out, was, now, err);
        if (r < 0)
            return r;
        list = &own;
    }
    if (list->count == 0)
        return 0;
    add_side_name(out, "--- ", "a/", old_path(change), was->mode);
    add_side_name(out, "+++ ", "b/", change->path, now->mode);
    for (size_t i = 0; i < list->count; i++) {
        buf_addf(out, "%s\n", list->items[i].header);
        buf_add(out, list->items[i].lines.data, list->items[i].lines.len);
    }
    return 0;
}

static int add_change(struct buf *out, const struct file_change *change, const struct blob *was, const struct blob *now,
                      const struct hunk_list *made, struct err *err)
{
    add_head(out, change, was->mode, now->mode);
    if (was->mode && now->mode && blob_equals(was, now))
        return 0;
    /* For an empty file git expects only its mode. */
    if (was->bytes.len == 0 && now->bytes.len == 0)
        return 0;
    if ((S_ISREG(was->mode) && blob_is_binary(was)) || (S_ISREG(now->mode) && blob_is_binary(now)))
        return add_binary(out, was, now, err);
    return add_text(out, change, was, now, made, err);
}

static int add_mode(struct buf *out, const struct file_change *change)
{
    if (is_file(change->old_mode) && is_file(change->new_mode) &&
        strcmp(diff_text_mode(change->old_mode), diff_text_mode(change->new_mode)) != 0)
        add_head(out, change, change->old_mode, change->new_mode);
    else
        diff_text_add_finer_mode(out, change->old_mode, change->new_mode);
    return 0;
}

static int report_stale(const struct file_change *change, int r, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, change->path, strlen(change->path));
    return err_set(err, ERR_ABORTED, -ESTALE, "'%s' changed while it was read: %s", shown.data, strerror(-r));
}

/* An approval refuses a conflict, and so must `git apply`: a text whose old side is not the project's does not apply, and
 * otherwise the object id of the old side is an invalid one. */
static int add_conflict(struct buf *out, const struct file_change *change, const struct file_diff *diff, struct err *err)
{
    const struct blob *was = &diff->was, *now = &diff->now;
    char new_oid[BINARY_PATCH_OID_MAX] = NO_OID;

    if (diff->is_aside && diff->hunks.count > 0)
        return add_change(out, change, was, now, &diff->hunks, err);
    add_head(out, change, was->mode ? was->mode : now->mode, now->mode);
    if (now->mode)
        binary_patch_oid(now->bytes.data, now->bytes.len, new_oid);
    add_index(out, NO_OID, new_oid);
    return binary_patch_add(out, NULL, 0, now->bytes.data, now->bytes.len, err);
}

/* Like git, shows a file that became a link as one deleted and one added file. */
static int make_piece(struct change_set *set, struct file_change *change, struct piece *piece, struct err *err)
{
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    const struct blob nothing = BLOB_NONE;
    int r;

    if (change->is_dir)
        return 0;
    if (change->edit->kind == CHANGE_MODE)
        return add_mode(&piece->text, change);
    r = file_diff_make(set, change, &diff, err);
    if (r < 0 || change->failure)
        return r < 0 ? r : report_stale(change, change->failure, err);
    piece->is_large = diff.was.is_too_large || diff.now.is_too_large;
    if (piece->is_large)
        return 0;
    if (change->state == RECONCILE_CONFLICT)
        return add_conflict(&piece->text, change, &diff, err);
    if (!diff.is_retyped)
        return add_change(&piece->text, change, &diff.was, &diff.now, diff.hunks.count > 0 ? &diff.hunks : NULL, err);
    r = add_change(&piece->text, change, &diff.was, &nothing, NULL, err);
    return r == 0 ? add_change(&piece->text, change, &nothing, &diff.now, NULL, err) : r;
}

/* ---- large files ---- */

static int flush_text(struct patch_writer *w, struct buf *text)
{
    int r = text->len > 0 ? w->fn(text->data, text->len, w->cookie) : 0;

    buf_clear(text);
    return r;
}

struct patch_source {
    int fd; /* borrowed */
    uint64_t size_bytes;
};

/* Computes git's id of the file, and passes its bytes to the stream, if there is one. -ESTALE if it has shrunk since it was
 * opened. */
static int hash_and_encode(struct patch_writer *w, const struct patch_source *source, struct binary_patch_stream *stream,
                           char oid[BINARY_PATCH_OID_MAX])
{
    autofree uint8_t *bytes = xalloc(PIECE);
    uint8_t digest[SHA1_DIGEST_SIZE];
    struct sha1_ctx sha;
    char head[40];
    int r = 0;

    sha1_init(&sha);
    sha1_update(&sha, (size_t) snprintf(head, sizeof(head), "blob %llu", (unsigned long long) source->size_bytes) + 1,
                (const uint8_t *) head);
    for (uint64_t at = 0; at < source->size_bytes && r == 0;) {
        uint64_t left = source->size_bytes - at;
        ssize_t n = fd_pread_full(source->fd, bytes, left < PIECE ? (size_t) left : PIECE, (off_t) at);
        if (n <= 0)
            return n < 0 ? (int) n : -ESTALE;
        sha1_update(&sha, (size_t) n, bytes);
        at += (uint64_t) n;
        if (stream) {
            binary_patch_feed(stream, bytes, (size_t) n);
            r = flush_text(w, stream->out);
        }
    }
    sha1_digest(&sha, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        sprintf(oid + 2 * i, "%02x", digest[i]);
    return r;
}

/* Reads the file twice, because git wants the id before the bytes. A different id the second time means that it was written
 * to. */
static int write_direction(struct patch_writer *w, const struct patch_source *source, const char *expected, struct buf *text)
{
    struct binary_patch_stream stream;
    char oid[BINARY_PATCH_OID_MAX] = NO_OID;
    int r = 0;

    binary_patch_begin(&stream, text, source->size_bytes);
    if (source->fd >= 0)
        r = hash_and_encode(w, source, &stream, oid);
    if (r == 0 && strcmp(oid, expected) != 0)
        r = -ESTALE;
    binary_patch_end(&stream);
    return r;
}

static int open_source(int dirfd, const char *path, mode_t mode, struct patch_source *ret)
{
    autofd int fd = -1;
    struct stat st;

    if (!S_ISREG(mode))
        return 0;
    fd = path_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -ESTALE;
    *ret = (struct patch_source){ steal_fd(&fd), (uint64_t) st.st_size };
    return 0;
}

/* The old object id of a conflict is an invalid one, so that git refuses the patch as an approval would. */
static int write_large_part(struct patch_writer *w, const struct file_change *change, mode_t old_mode, mode_t new_mode,
                            const struct patch_source *was, const struct patch_source *now)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char old_oid[BINARY_PATCH_OID_MAX] = NO_OID, new_oid[BINARY_PATCH_OID_MAX] = NO_OID;
    bool is_conflict = change->state == RECONCILE_CONFLICT;
    int r = was->fd < 0 || is_conflict ? 0 : hash_and_encode(w, was, NULL, old_oid);

    if (r == 0 && now->fd >= 0)
        r = hash_and_encode(w, now, NULL, new_oid);
    if (r < 0)
        return r;
    add_head(&text, change, old_mode, new_mode);
    if (strcmp(old_oid, new_oid) != 0) {
        add_index(&text, old_oid, new_oid);
        r = write_direction(w, now, new_oid, &text);
        if (r == 0 && !is_conflict)
            r = write_direction(w, was, old_oid, &text);
    }
    return r == 0 ? flush_text(w, &text) : r;
}

/* Writes the link's part, if a large file became a link or was one. */
static int write_link_part(struct patch_writer *w, const struct file_change *change, mode_t old_mode, mode_t new_mode,
                           struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *target = old_mode ? change->old_target : change->new_target;
    struct blob link = { .mode = S_IFLNK }, nothing = BLOB_NONE;
    int r;

    (void) new_mode;
    if (!target)
        return -ESTALE;
    buf_add_str(&link.bytes, target);
    r = add_change(&text, change, old_mode ? &link : &nothing, old_mode ? &nothing : &link, NULL, err);
    blob_done(&link);
    return r == 0 ? flush_text(w, &text) : r;
}

static int write_large(struct patch_writer *w, const struct file_change *change, struct err *err)
{
    const struct edit_list *edits = &w->set->edits;
    const char *from = change->from ? change->from->path : change->edit->path;
    mode_t old_mode = is_file(change->old_mode) ? change->old_mode : 0,
           new_mode = is_file(change->new_mode) ? change->new_mode : 0;
    struct patch_source was = { -1, 0 }, now = { -1, 0 }, nothing = { -1, 0 };
    int r = open_source(edits->base_fd, from, old_mode, &was);

    if (r == 0)
        r = open_source(edits->delta.data_fd, change->edit->path, new_mode, &now);
    if (r < 0 || !(S_ISLNK(old_mode) || S_ISLNK(new_mode))) {
        r = r < 0 ? r : write_large_part(w, change, old_mode, new_mode, &was, &now);
    } else if (S_ISLNK(old_mode)) {
        r = write_link_part(w, change, old_mode, 0, err);
        r = r == 0 ? write_large_part(w, change, 0, new_mode, &nothing, &now) : r;
    } else {
        r = write_large_part(w, change, old_mode, 0, &was, &nothing);
        r = r == 0 ? write_link_part(w, change, 0, new_mode, err) : r;
    }
    cleanup_fd(&was.fd);
    cleanup_fd(&now.fd);
    return r == -ESTALE || r == -ENOENT || r == -ELOOP || r == -ENOTDIR || r == -EXDEV ? report_stale(change, r, err) : r;
}

/* ---- the whole patch ---- */

static int on_piece(size_t i, void *cookie, struct err *err)
{
    struct patch_writer *w = cookie;

    return make_piece(w->set, change_at(w, w->first + i), &w->pieces[i], err);
}

static int write_window(struct patch_writer *w, size_t count, struct err *err)
{
    int r = parallel_run(count, on_piece, w, err);

    for (size_t i = 0; i < count; i++) {
        struct piece *piece = &w->pieces[i];
        if (r == 0)
            r = piece->is_large ? write_large(w, change_at(w, w->first + i), err) : flush_text(w, &piece->text);
        if (r == 0 && w->end)
            r = w->end(change_at(w, w->first + i), w->cookie);
        buf_done(&piece->text);
        *piece = (struct piece){ .is_large = false };
    }
    return r;
}

static size_t window_size(const struct patch_writer *w, size_t count)
{
    uint64_t bytes = 0;
    size_t n = 0;

    while (n < WINDOW && w->first + n < count && (n == 0 || bytes < WINDOW_BYTES)) {
        const struct file_change *change = change_at(w, w->first + n++);
        bytes += change->old_bytes + change->new_bytes;
    }
    return n;
}

int patch_write(struct change_set *set, const size_t *places, size_t count, patch_fn fn, patch_end_fn end, void *cookie,
                struct err *err)
{
    autofree struct patch_writer *w = xnew(struct patch_writer);
    int r = 0;

    *w = (struct patch_writer){ .set = set, .places = places, .fn = fn, .end = end, .cookie = cookie };
    if (!places)
        count = set->count;
    while (w->first < count && r == 0) {
        size_t n = window_size(w, count);
        r = write_window(w, n, err);
        w->first += n;
    }
    return r;
}
