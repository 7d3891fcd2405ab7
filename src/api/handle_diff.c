/* What a sandbox changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/review_message.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/diff_text.h"
#include "review/patch.h"

#define DIRECTORIES_MAX 1000
#define MEASURED_MAX 5000 /* counts the lines for the totals of at most this many files */
#define STREAM_BYTES ((size_t) 512 << 10)
#define LINE_BYTES ((size_t) 256 << 10) /* of a line in one message of a stream */
#define CHUNK_BYTES 65536
#define HASHES_MAX 100000

/* Finds the changes at or below a path from either root. */
static int diff_find_places(const struct review_diff *diff, const char *path, size_t **ret, size_t *ret_count, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct change_set_query query = { 0 };
    size_t total;

    if (*path && path_clean(path, strlen(path), &clean) < 0)
        return err_reject(err, -EINVAL, path, "is no path");
    if (*path && clean.data[1])
        query.path = clean.data + 1;
    *ret = change_set_page(&diff->set, &query, ret_count, &total);
    if (*ret_count > 0 || !query.path || !*diff->prefix)
        return 0;
    autofree char *whole = xprintf("%s/%s", diff->prefix, query.path);
    query.path = whole;
    free(*ret);
    *ret = change_set_page(&diff->set, &query, ret_count, &total);
    return 0;
}

/* ---- the whole ---- */

static void diff_set_stats(Sandbox__V1__DiffStats *out, const struct change_set *set)
{
    struct change_totals totals = change_set_totals(set);

    out->files = (int64_t) totals.files;
    out->added = (int64_t) totals.added;
    out->modified = (int64_t) totals.modified;
    out->deleted = (int64_t) totals.deleted;
    out->renamed = (int64_t) totals.renamed;
    out->directories = (int64_t) totals.directories;
    out->lines_added = (int64_t) totals.lines_added;
    out->lines_removed = (int64_t) totals.lines_removed;
    out->bytes = (int64_t) totals.bytes;
    out->unmeasured = (int64_t) totals.unmeasured;
    out->to_acknowledge = (int64_t) totals.to_acknowledge;
    out->git_left_out = (int64_t) set->edits.git_count;
    out->deep_left_out = (int64_t) set->edits.deep_count;
    out->special_left_out = (int64_t) set->edits.special_count;
}

static void diff_add_directories(Sandbox__V1__Diff *out, const struct review_diff *diff)
{
    size_t cap = 0, bytes = 0;

    for (size_t i = 0; i < diff->set.count && out->n_directories < DIRECTORIES_MAX && bytes < STREAM_BYTES; i++) {
        const struct file_change *change = &diff->set.items[i];
        Sandbox__V1__DirectoryChange *directory;

        if (!change->is_dir)
            continue;
        directory = message_new(&sandbox__v1__directory_change__descriptor);
        directory->path = make_string(change->path);
        directory->scope_path = make_string(change->scope_path);
        directory->kind = make_kind(change->kind);
        bytes += protobuf_c_message_get_packed_size(&directory->base);
        vec_room(&out->directories, &cap, out->n_directories);
        out->directories[out->n_directories++] = directory;
    }
}

static Sandbox__V1__Diff *make_diff(const struct review_diff *diff, size_t total)
{
    Sandbox__V1__Diff *out = message_new(&sandbox__v1__diff__descriptor);

    out->sandbox_id = make_string(diff->row.id);
    out->diff_hash = xdup(diff->hash);
    out->directory = make_string(diff->row.scope_path);
    out->project_root = make_string(diff->row.project_root);
    out->scope_prefix = make_string(diff->prefix);
    out->stats = message_new(&sandbox__v1__diff_stats__descriptor);
    diff_set_stats(out->stats, &diff->set);
    out->total = (int64_t) total;
    out->generated_at = make_timestamp(clock_wall_ns());
    return out;
}

static struct review_about review_about_of(const struct review_diff *diff)
{
    return (struct review_about){ diff->row.id, diff->prefix, &diff->acceptance };
}

static int diff_take_view(Sandbox__V1__DiffView view, struct err *err)
{
    if (view < 0 || view > SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_NAMES)
        return err_invalid(err, "view %d is not known", (int) view);
    return 0;
}

static bool view_has_hunks(Sandbox__V1__DiffView view)
{
    return view <= SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FULL;
}

/* Counts the lines of at most `max` files for the totals. */
static int diff_measure(const struct request *request, struct review_diff *diff, Sandbox__V1__DiffView view, size_t max,
                        struct err *err)
{
    bool counts = view != SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_NAMES && diff->set.count <= max;
    int r = counts ? change_set_measure(&diff->set, NULL, 0, err) : 0;

    return r < 0 ? r : reviews_diff_hash(request->service, diff, err);
}

/* ---- in pages ---- */

/* A page ends before a file that does not fit. A file that fits on no page is shown without some hunks and without a hash, because a client that
 * got only a part has not seen the change. */
static int make_page_file(const struct review_diff *diff, struct file_change *change, bool has_hunks, size_t room,
                          Sandbox__V1__FileChange **ret, struct err *err)
{
    autodone(file_diff) struct file_diff compared = FILE_DIFF_NONE;
    const struct review_about about = review_about_of(diff);
    int r = has_hunks ? file_diff_make(&diff->set, change, &compared, err) : 0;

    if (r < 0)
        return r;
    *ret = make_file_change(&about, change, has_hunks);
    if (!has_hunks)
        return 0;
    (*ret)->hunks_truncated = !add_hunks(*ret, &compared.hunks, room);
    if (!(*ret)->hunks_truncated)
        (*ret)->hash = make_change_hash(change);
    return 0;
}

struct page_wish {
    size_t max;
    bool has_hunks;
    char *after; /* owned: the path of the last file on the page before */
};

static int diff_add_page(Sandbox__V1__Diff *out, const struct review_diff *diff, const size_t *places, size_t count,
                         const struct page_wish *wish, struct err *err)
{
    size_t bytes = 0, at = 0;

    while (at < count && *wish->after && strcmp(diff->set.items[places[at]].path, wish->after) <= 0)
        at++;
    out->files = xalloc(wish->max * sizeof(*out->files));
    for (; at < count && out->n_files < wish->max && bytes < REVIEW_ANSWER_BYTES; at++) {
        Sandbox__V1__FileChange *file = NULL;
        int r = make_page_file(diff, &diff->set.items[places[at]], wish->has_hunks, REVIEW_ANSWER_BYTES - bytes, &file, err);

        if (r < 0)
            return r;
        if (file->hunks_truncated && out->n_files > 0) {
            protobuf_c_message_free_unpacked(&file->base, NULL);
            break;
        }
        bytes += protobuf_c_message_get_packed_size(&file->base);
        out->files[out->n_files++] = file;
    }
    if (at < count && out->n_files > 0)
        out->next_page_token = make_page_token(diff->set.items[places[at - 1]].path);
    return 0;
}

int handle_get_diff(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetDiffRequest *in = message;
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autofree size_t *places = NULL;
    autofree char *after = NULL;
    struct page_wish wish = { .max = take_bounded_page_size(in->page_size) };
    char id[SANDBOX_ID_MAX];
    size_t count;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = diff_take_view(in->view, err);
    wish.has_hunks = view_has_hunks(in->view);
    if (r == 0)
        r = take_page_token(in->page_token, &after, err);
    wish.after = after;
    if (r == 0)
        r = reviews_diff(request->service, &request->caller, id, &diff, err);
    if (r == 0)
        r = diff_find_places(&diff, in->path, &places, &count, err);
    if (r == 0)
        r = diff_measure(request, &diff, in->view, MEASURED_MAX, err);
    if (r < 0)
        return r;
    Sandbox__V1__Diff *out = make_diff(&diff, count);
    if (!*in->page_token)
        diff_add_directories(out, &diff);
    *ret = &out->base;
    r = diff_add_page(out, &diff, places, count, &wish, err);
    if (r < 0) {
        protobuf_c_message_free_unpacked(*ret, NULL);
        *ret = NULL;
    }
    return r;
}

/* ---- as a stream ---- */

/* The state of sending one file. */
struct file_stream {
    struct call *call;
    const struct hunk *hunk;          /* whose lines are being added */
    Sandbox__V1__FileChange *message; /* owned: not sent yet */
    Sandbox__V1__Hunk *out;           /* its last hunk */
    size_t hunk_cap, line_cap, bytes;
    bool is_first;
};

static int diff_send_part(struct file_stream *stream)
{
    Sandbox__V1__DiffChunk chunk = SANDBOX__V1__DIFF_CHUNK__INIT;
    int r;

    if (stream->is_first) {
        chunk.content_case = SANDBOX__V1__DIFF_CHUNK__CONTENT_FILE;
        chunk.file = stream->message;
    } else {
        chunk.content_case = SANDBOX__V1__DIFF_CHUNK__CONTENT_MORE;
        chunk.more = stream->message;
    }
    r = call_send(stream->call, &chunk.base);
    return r;
}

static void diff_begin_hunk(struct file_stream *stream, const struct hunk *hunk)
{
    stream->hunk = hunk;
    stream->out = add_hunk(stream->message, &stream->hunk_cap, hunk);
    stream->line_cap = 0;
    stream->bytes += 256;
}

/* Sends the message so far; the next one continues the same hunk. */
static int diff_begin_part(struct file_stream *stream)
{
    Sandbox__V1__FileChange *next = message_new(&sandbox__v1__file_change__descriptor);
    int r = diff_send_part(stream);

    next->id = xdup(stream->message->id);
    protobuf_c_message_free_unpacked(&stream->message->base, NULL);
    stream->message = next;
    stream->is_first = false;
    stream->hunk_cap = stream->bytes = 0;
    diff_begin_hunk(stream, stream->hunk);
    return r;
}

static int diff_add_line(struct file_stream *stream, const char *line, size_t len)
{
    autodone(buf) struct buf safe = BUF_EMPTY;
    int r = 0;

    diff_text_add_safe(&safe, line, len);
    for (size_t at = 0, piece; r == 0 && (at < safe.len || at == 0); at += piece) {
        piece = safe.len - at < LINE_BYTES ? safe.len - at : LINE_BYTES;
        while (piece > 0 && at + piece < safe.len && ((unsigned char) safe.data[at + piece] & 0xC0) == 0x80)
            piece--;
        if (stream->bytes + piece > STREAM_BYTES || at > 0) {
            stream->out->continues = at > 0;
            r = diff_begin_part(stream);
        }
        vec_room(&stream->out->lines, &stream->line_cap, stream->out->n_lines);
        stream->out->lines[stream->out->n_lines++] = make_text(safe.data ? safe.data + at : "", piece);
        stream->bytes += piece + 8;
        if (safe.len == 0)
            break;
    }
    return r;
}

static int diff_add_stream_hunk(struct file_stream *stream, const struct hunk *hunk)
{
    const struct buf *lines = &hunk->lines;
    int r = 0;

    diff_begin_hunk(stream, hunk);
    for (size_t at = 0; r == 0 && at < lines->len;) {
        const char *line = lines->data + at, *end = memchr(line, '\n', lines->len - at);
        size_t len = end ? (size_t) (end - line) : lines->len - at;

        r = diff_add_line(stream, line, len);
        at += len + (end != NULL);
    }
    return r;
}

static int diff_stream_file(struct call *call, const struct review_diff *diff, struct file_change *change, struct err *err)
{
    autodone(file_diff) struct file_diff compared = FILE_DIFF_NONE;
    const struct review_about about = review_about_of(diff);
    struct file_stream stream = { .call = call, .is_first = true };
    int r = file_diff_make(&diff->set, change, &compared, err);

    if (r < 0)
        return r;
    stream.message = make_file_change(&about, change, true);
    for (size_t i = 0; r == 0 && i < compared.hunks.count; i++)
        r = diff_add_stream_hunk(&stream, &compared.hunks.items[i]);
    if (r == 0) {
        stream.message->hash = make_change_hash(change);
        r = diff_send_part(&stream);
    }
    protobuf_c_message_free_unpacked(&stream.message->base, NULL);
    return r;
}

/* A file without its hunks. */
static int diff_send_brief(struct call *call, const struct review_diff *diff, const struct file_change *change)
{
    const struct review_about about = review_about_of(diff);
    Sandbox__V1__DiffChunk chunk = SANDBOX__V1__DIFF_CHUNK__INIT;
    int r;

    chunk.content_case = SANDBOX__V1__DIFF_CHUNK__CONTENT_FILE;
    chunk.file = make_file_change(&about, change, change->is_measured);
    r = call_send(call, &chunk.base);
    protobuf_c_message_free_unpacked(&chunk.file->base, NULL);
    return r;
}

static int diff_send_head(struct call *call, const struct review_diff *diff, size_t count)
{
    Sandbox__V1__DiffChunk chunk = SANDBOX__V1__DIFF_CHUNK__INIT;
    int r;

    chunk.content_case = SANDBOX__V1__DIFF_CHUNK__CONTENT_DIFF;
    chunk.diff = make_diff(diff, count);
    diff_add_directories(chunk.diff, diff);
    r = call_send(call, &chunk.base);
    protobuf_c_message_free_unpacked(&chunk.diff->base, NULL);
    return r;
}

int handle_stream_diff(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__StreamDiffRequest *in = message;
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autofree size_t *places = NULL;
    char id[SANDBOX_ID_MAX];
    size_t count = 0;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    (void) ret;
    if (r == 0)
        r = diff_take_view(in->view, err);
    if (r == 0)
        r = reviews_diff(request->service, &request->caller, id, &diff, err);
    if (r == 0)
        r = diff_find_places(&diff, in->path, &places, &count, err);
    if (r == 0)
        r = diff_measure(request, &diff, in->view, view_has_hunks(in->view) ? MEASURED_MAX : SIZE_MAX, err);
    if (r == 0)
        r = diff_send_head(request->call, &diff, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct file_change *change = &diff.set.items[places[i]];
        r = view_has_hunks(in->view) ? diff_stream_file(request->call, &diff, change, err)
                                     : diff_send_brief(request->call, &diff, change);
    }
    return r;
}

/* ---- as text ---- */

struct patch_stream {
    struct call *call;
    const struct review_diff *diff;
    bool has_receipts;
};

static int patch_send_bytes(const struct patch_stream *stream, const void *bytes, size_t len)
{
    Sandbox__V1__FileChunk chunk = SANDBOX__V1__FILE_CHUNK__INIT;
    int r = 0;

    for (size_t at = 0; r == 0 && at < len; at += chunk.data.len) {
        chunk.data.len = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
        chunk.data.data = (uint8_t *) bytes + at;
        r = call_send(stream->call, &chunk.base);
    }
    return r;
}

static int patch_send_piece(const void *bytes, size_t len, void *cookie)
{
    const struct patch_stream *stream = cookie;
    char head[32];
    int r = 0;

    if (len > 0 && stream->has_receipts)
        r = patch_send_bytes(stream, head, (size_t) snprintf(head, sizeof(head), "%zu\n", len));
    return r < 0 ? r : patch_send_bytes(stream, bytes, len);
}

static int patch_end_change(const struct file_change *change, void *cookie)
{
    const struct patch_stream *stream = cookie;
    autodone(buf) struct buf line = BUF_EMPTY;

    if (!stream->has_receipts)
        return 0;
    add_change_receipt(&line, stream->diff->row.id, change);
    return patch_send_bytes(stream, line.data, line.len);
}

static int patch_send_text(struct patch_stream *stream, struct file_change *change, struct err *err)
{
    autodone(file_diff) struct file_diff compared = FILE_DIFF_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_diff_make(&stream->diff->set, change, &compared, err);

    if (r < 0)
        return r;
    diff_text_add_change(&text, change, &compared);
    r = patch_send_piece(text.data, text.len, stream);
    return r < 0 ? r : patch_end_change(change, stream);
}

static int patch_send_left_out(const struct patch_stream *stream)
{
    size_t count = stream->diff->set.edits.deep_count;
    char line[64];

    if (!stream->has_receipts || count == 0)
        return 0;
    return patch_send_bytes(stream, line, (size_t) snprintf(line, sizeof(line), "0 deep %zu\n", count));
}

int handle_download_patch(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DownloadPatchRequest *in = message;
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    struct patch_stream stream = { .call = request->call, .diff = &diff, .has_receipts = in->receipts };
    autofree size_t *places = NULL;
    char id[SANDBOX_ID_MAX];
    size_t count = 0;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    (void) ret;
    if (r == 0 && (in->format < 0 || in->format > SANDBOX__V1__PATCH_FORMAT__PATCH_FORMAT_TEXT))
        r = err_invalid(err, "format %d is not known", (int) in->format);
    if (r == 0)
        r = reviews_diff(request->service, &request->caller, id, &diff, err);
    if (r == 0)
        r = diff_find_places(&diff, in->path, &places, &count, err);
    if (r == 0 && in->format != SANDBOX__V1__PATCH_FORMAT__PATCH_FORMAT_TEXT)
        r = patch_write(&diff.set, places, count, patch_send_piece, patch_end_change, &stream, err);
    for (size_t i = 0; r == 0 && in->format == SANDBOX__V1__PATCH_FORMAT__PATCH_FORMAT_TEXT && i < count; i++)
        r = patch_send_text(&stream, &diff.set.items[places[i]], err);
    return r < 0 ? r : patch_send_left_out(&stream);
}

/* ---- what was shown ---- */

int handle_mark_diff_shown(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__MarkDiffShownRequest *in = message;
    char id[SANDBOX_ID_MAX];
    json_t *hashes;
    size_t count = 0;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0 && in->n_hashes > HASHES_MAX)
        r = err_invalid(err, "hashes has more than %d entries", HASHES_MAX);
    if (r < 0)
        return r;
    hashes = json_object();
    for (size_t i = 0; i < in->n_hashes; i++)
        json_object_set_new(hashes, in->hashes[i]->key, json_string(in->hashes[i]->value));
    r = reviews_diff_shown(request->service, &request->caller, id, hashes, &count, err);
    json_decref(hashes);
    if (r < 0)
        return r;
    Sandbox__V1__MarkDiffShownResponse *out = message_new(&sandbox__v1__mark_diff_shown_response__descriptor);
    out->shown = (int32_t) count;
    *ret = &out->base;
    return 0;
}
