/* What the agent changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "api/review_message.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/diff_text.h"
#include "review/patch.h"
#include "service/reviews.h"

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX 100000
#define PAGE_TEXT_MAX ((size_t) 32 << 20) /* a page ends early rather than be longer */
#define PIECE_BYTES ((size_t) 256 << 10)
#define MEASURED_MAX 5000 /* counts the lines for the totals of at most this many files */

struct diff_page {
    struct review_diff *diff;
    size_t *places; /* owned */
    size_t count, total, shown;
    int64_t offset, limit;
    int64_t now_ns;
    bool has_content;  /* with hunks and text */
    bool is_noted;     /* sending it counts as showing it, so it may be approved then */
    bool has_receipts; /* of a stream: marks the end of each change, and the client reports later what it showed */
    struct buf files;  /* the beginning of the answer: the list of files */
    struct buf text;
};

static void diff_page_done(struct diff_page *page)
{
    free(page->places);
    buf_done(&page->files);
    buf_done(&page->text);
}

/* Without content, nothing counts as shown. */
static int diff_read_wishes(struct ws *ws, struct diff_page *page, struct err *err)
{
    int r;

    page->has_content = page->is_noted = true;
    r = compat_read_query(ws, err, { "content", .flag = &page->has_content }, { "note", .flag = &page->is_noted },
                          { "receipts", .flag = &page->has_receipts });
    page->is_noted &= page->has_content && !page->has_receipts;
    return r;
}

/* Finds the changes at or below a path from either root. */
static int diff_read_page(struct ws *ws, struct diff_page *page, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofree char *whole = NULL;
    const char *path = web_query(ws->web, "path"), *prefix = page->diff->prefix;
    struct change_set_query query = { 0 };
    int r;

    r = compat_read_query(ws, err, { "limit", .number = &page->limit, .least = 1, .most = LIMIT_MAX },
                          { "offset", .number = &page->offset, .least = 0, .most = INT32_MAX });
    if (r == 0)
        r = diff_read_wishes(ws, page, err);
    if (r < 0)
        return r;
    query.offset = (size_t) page->offset;
    query.limit = (size_t) page->limit;
    if (path && *path) {
        if (path_clean(path, strlen(path), &clean) < 0)
            return err_reject(err, -EINVAL, path, "is no path");
        query.path = clean.data[1] ? clean.data + 1 : NULL;
    }
    page->places = change_set_page(&page->diff->set, &query, &page->count, &page->total);
    if (page->total > 0 || !query.path || !*prefix)
        return 0;
    whole = xprintf("%s/%s", prefix, query.path);
    query.path = whole;
    free(page->places);
    page->places = change_set_page(&page->diff->set, &query, &page->count, &page->total);
    return 0;
}

static int diff_show_page(struct diff_page *page, struct err *err)
{
    struct review_diff *diff = page->diff;
    struct compat_review_file about = { .sandbox_id = diff->row.id, .acceptance = &diff->acceptance, .now_ns = page->now_ns };

    buf_add_str(&page->files, "{\"files\":[");
    for (; page->shown < page->count && page->text.len < PAGE_TEXT_MAX; page->shown++) {
        struct file_change *change = &diff->set.items[page->places[page->shown]];
        autodone(file_diff) struct file_diff compared = FILE_DIFF_NONE;
        int r = file_diff_make(&diff->set, change, &compared, err);

        if (r < 0)
            return r;
        if (page->shown > 0)
            buf_add_char(&page->files, ',');
        if (!web_add_json(&page->files, compat_review_file(&about, change, page->has_content ? &compared : NULL)))
            return err_set(err, ERR_INTERNAL, -EILSEQ, "a change cannot be told as JSON");
        if (page->has_content)
            diff_text_add_change(&page->text, change, &compared);
    }
    buf_add_char(&page->files, ']');
    return 0;
}

static json_t *make_diff_directories(const struct review_diff *diff)
{
    json_t *list = json_array();

    for (size_t i = 0; i < diff->set.count; i++) {
        const struct file_change *change = &diff->set.items[i];
        if (!change->is_dir)
            continue;
        json_t *one = json_pack("{s:s}", "changeType", file_change_kind_name(change->kind));
        compat_review_set_paths(one, diff->row.id, diff->prefix, change->scope_path);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *make_diff_stats(const struct change_totals *totals)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I}", "filesChanged", (json_int_t) totals->files,
                     "filesAdded", (json_int_t) totals->added, "filesModified", (json_int_t) totals->modified, "filesDeleted",
                     (json_int_t) totals->deleted, "filesRenamed", (json_int_t) totals->renamed, "linesAdded",
                     (json_int_t) totals->lines_added, "linesRemoved", (json_int_t) totals->lines_removed, "totalLines",
                     (json_int_t) totals->lines_added + (json_int_t) totals->lines_removed, "totalBytes",
                     (json_int_t) totals->bytes, "complete", totals->unmeasured == 0, "toAcknowledge",
                     (json_int_t) totals->to_acknowledge);
}

static json_t *make_diff_body(struct diff_page *page)
{
    struct review_diff *diff = page->diff;
    struct change_totals totals = change_set_totals(&diff->set);
    json_t *body =
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:s, s:o, s:o, s:o, s:o}", "sandboxId", compat_uuid(diff->row.id),
                  "totalAdded", (json_int_t) totals.added, "totalDeleted", (json_int_t) totals.deleted, "totalModified",
                  (json_int_t) totals.modified, "totalRenamed", (json_int_t) totals.renamed, "stats", make_diff_stats(&totals),
                  "diffHash", diff->hash, "projectRoot", compat_text(diff->row.project_root, strlen(diff->row.project_root)),
                  "scopePath", compat_text(diff->row.scope_path, strlen(diff->row.scope_path)), "scopePrefix",
                  compat_text(diff->prefix, strlen(diff->prefix)), "directories", make_diff_directories(diff));

    if (page->has_content)
        json_object_set_new(body, "unifiedDiff", compat_text(page->text.data ? page->text.data : "", page->text.len));
    compat_set_time(body, "generated", page->now_ns);
    json_object_set_new(body, "total", json_integer((json_int_t) page->total));
    json_object_set_new(body, "offset", json_integer((json_int_t) page->offset));
    json_object_set_new(body, "limit", json_integer((json_int_t) page->limit));
    if ((size_t) page->offset + page->shown < page->total)
        json_object_set_new(body, "nextOffset", json_integer((json_int_t) page->offset + (json_int_t) page->shown));
    if (diff->set.edits.git_count > 0)
        json_object_set_new(body, "gitChangesLeftOut", json_integer((json_int_t) diff->set.edits.git_count));
    if (diff->set.edits.deep_count > 0)
        json_object_set_new(body, "deepDirectoriesLeftOut", json_integer((json_int_t) diff->set.edits.deep_count));
    if (diff->set.edits.special_count > 0)
        json_object_set_new(body, "specialFilesLeftOut", json_integer((json_int_t) diff->set.edits.special_count));
    return body;
}

/* Notes the changes as shown after all but the last byte: a client that loses the connection was not shown them, and one that has received everything
 * can approve at once. */
static int diff_send_noted(struct ws *ws, struct diff_page *page, struct err *err)
{
    const struct buf *body = &page->files;
    int r = 0;

    ws->web->response.size_bytes = (int64_t) body->len;
    for (size_t at = 0; r == 0 && at < body->len - 1; at += PIECE_BYTES) {
        size_t left = body->len - 1 - at;
        r = web_write(ws->web, body->data + at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    if (r == 0)
        r = web_drain(ws->web);
    if (r == 0)
        r = reviews_diff_note(ws->service, page->diff, page->places, page->shown, err);
    return r == 0 ? web_write(ws->web, body->data + body->len - 1, 1) : r;
}

/* The list of files is already text; the other keys follow it in the same object. */
static int diff_answer_page(struct ws *ws, struct diff_page *page, struct err *err)
{
    size_t at = page->files.len;

    if (!web_add_json(&page->files, make_diff_body(page)))
        return err_set(err, ERR_INTERNAL, -EILSEQ, "the changes cannot be told as JSON");
    page->files.data[at] = ',';
    if (page->is_noted && page->shown > 0)
        return diff_send_noted(ws, page, err);
    web_answer_json_text(ws->web, 200, &page->files);
    return 0;
}

static bool diff_is_known(struct ws *ws, const char *tag)
{
    const char *known = web_header(ws->web, "if-none-match");

    return known && (strstr(known, tag) || strcmp(known, "*") == 0);
}

static int diff_answer_json(struct ws *ws, struct diff_page *page, struct err *err)
{
    struct review_diff *diff = page->diff;
    int r = diff_show_page(page, err);
    char tag[CHANGE_SET_HASH_MAX + 2];

    if (r == 0 && diff->set.count <= MEASURED_MAX)
        r = change_set_measure(&diff->set, NULL, 0, err);
    if (r == 0)
        r = reviews_diff_hash(ws->service, diff, err);
    if (r < 0)
        return r;
    snprintf(tag, sizeof(tag), "\"%s\"", diff->hash);
    web_add_header(ws->web, "ETag", tag);
    return diff_is_known(ws, tag) ? compat_answer_empty(ws, 304) : diff_answer_page(ws, page, err);
}

/* ---- streams ---- */

struct diff_stream {
    struct ws *ws;
    const struct diff_page *page;
};

/* With receipts, a line with the length precedes each piece, and "0", id and hash follow each change. */
static int diff_send_piece(const void *bytes, size_t len, void *cookie)
{
    const struct diff_stream *stream = cookie;
    char head[32];
    int r = 0;

    if (len > 0 && stream->page->has_receipts)
        r = web_write(stream->ws->web, head, (size_t) snprintf(head, sizeof(head), "%zu\n", len));
    return r < 0 ? r : web_write(stream->ws->web, bytes, len);
}

static int diff_end_change(const struct file_change *change, void *cookie)
{
    const struct diff_stream *stream = cookie;
    autodone(buf) struct buf line = BUF_EMPTY;

    if (!stream->page->has_receipts)
        return 0;
    add_change_receipt(&line, stream->page->diff->row.id, change);
    return line.len > 0 ? web_write(stream->ws->web, line.data, line.len) : 0;
}

static int diff_send_text(struct diff_stream *stream, struct diff_page *page, struct err *err)
{
    struct change_set *set = &page->diff->set;
    int r = 0;

    for (size_t i = 0; r == 0 && i < page->count; i++) {
        struct file_change *change = &set->items[page->places[i]];
        autodone(file_diff) struct file_diff compared = FILE_DIFF_NONE;

        r = file_diff_make(set, change, &compared, err);
        buf_clear(&page->text);
        if (r == 0)
            diff_text_add_change(&page->text, change, &compared);
        if (r == 0)
            r = diff_send_piece(page->text.data, page->text.len, stream);
        if (r == 0)
            r = diff_end_change(change, stream);
    }
    return r;
}

/* Reads the changes while it sends them. The header's hash is from the moment before, and what is noted as shown is what was sent. */
static int diff_answer_stream(struct ws *ws, struct diff_page *page, bool is_patch, struct err *err)
{
    struct review_diff *diff = page->diff;
    struct diff_stream stream = { ws, page };
    char tag[CHANGE_SET_HASH_MAX + 2];
    int r = reviews_diff_hash(ws->service, diff, err);

    if (r < 0)
        return r;
    snprintf(tag, sizeof(tag), "\"%s\"", diff->hash);
    web_add_header(ws->web, "ETag", tag);
    if (diff_is_known(ws, tag))
        return compat_answer_empty(ws, 304);
    ws->web->response.content_type = page->has_receipts ? "application/octet-stream"
                                     : is_patch         ? "text/x-diff; charset=utf-8"
                                                        : "text/plain; charset=utf-8";
    web_add_header(ws->web, "X-Content-Type-Options", "nosniff");
    r = web_begin(ws->web);
    if (r == 0)
        r = is_patch ? patch_write(&diff->set, page->places, page->count, diff_send_piece, diff_end_change, &stream, err)
                     : diff_send_text(&stream, page, err);
    if (r < 0 || !page->is_noted || page->count == 0)
        return r;
    /* Note before the end of the stream, so that a client that has it can approve. */
    r = web_drain(ws->web);
    return r < 0 ? r : reviews_diff_note(ws->service, diff, page->places, page->count, err);
}

int compat_diff_shown(struct ws *ws, struct err *err)
{
    const json_t *hashes = json_object_get(ws->body, "fileHashes");
    size_t count = 0;
    int r = json_is_object(hashes) ? reviews_diff_shown(ws->service, &ws->caller, ws->id, hashes, &count, err)
                                   : err_invalid(err, "fileHashes has to be an object, of hashes by the ids or paths of files");

    return r < 0 ? compat_explain(ws, r, err, NULL) : compat_answer(ws, 200, json_pack("{s:I}", "shown", (json_int_t) count));
}

int compat_diff(struct ws *ws, struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autodone(diff_page) struct diff_page page = { .diff = &diff, .now_ns = clock_wall_ns() };
    const char *format = web_query(ws->web, "format");
    bool is_patch = format && strcmp(format, "patch") == 0, is_stream = is_patch || (format && strcmp(format, "text") == 0);
    int64_t began_ns = clock_now_ns();
    int r = !format || !*format || is_stream || strcmp(format, "json") == 0
                ? 0
                : err_reject(err, -EINVAL, format, "is no format; there are json, text and patch");

    page.limit = is_stream ? 0 : LIMIT_DEFAULT;
    if (r == 0)
        r = reviews_diff(ws->service, &ws->caller, ws->id, &diff, err);
    if (r == 0)
        r = diff_read_page(ws, &page, err);
    if (r == 0)
        r = is_stream ? diff_answer_stream(ws, &page, is_patch, err) : diff_answer_json(ws, &page, err);
    sandboxes_totals(ws->service)->diff_ns += (uint64_t) (clock_now_ns() - began_ns);
    return r < 0 ? compat_explain(ws, r, err, NULL) : 0;
}
