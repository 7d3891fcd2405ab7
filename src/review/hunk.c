#include "review/hunk.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/libgit.h"
#include "review/line_distance.h"

struct hunk_digest {
    uint8_t bytes[SHA256_DIGEST_SIZE];
    size_t index; /* of its hunk */
};

struct hunk_maker {
    struct hunk_list list;
    struct hunk_digest *digests; /* owned; one for each hunk */
    size_t digest_cap;
    struct sha256_ctx sha; /* of the hunk being read */
};

/* ---- ids ---- */

static int by_digest(const void *a, const void *b)
{
    const struct hunk_digest *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, sizeof(x->bytes));

    if (order != 0)
        return order;
    return (x->index > y->index) - (x->index < y->index);
}

static void write_id(const struct hunk_digest *digest, size_t occurrence, char out[HUNK_ID_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t number[8], id[HUNK_ID_LEN / 2];
    struct sha256_ctx sha;

    for (size_t i = 0; i < sizeof(number); i++)
        number[i] = (uint8_t) ((uint64_t) occurrence >> (8 * i));
    sha256_init(&sha);
    sha256_update(&sha, sizeof(digest->bytes), digest->bytes);
    sha256_update(&sha, sizeof(number), number);
    sha256_digest(&sha, sizeof(id), id);
    for (size_t i = 0; i < sizeof(id); i++) {
        out[2 * i] = hex[id[i] >> 4];
        out[2 * i + 1] = hex[id[i] & 15];
    }
    out[HUNK_ID_LEN] = 0;
}

/* Sorted, so that a text of a hundred thousand equal hunks is not slow. */
static void assign_ids(struct hunk_maker *m)
{
    size_t occurrence = 0;

    if (m->list.count == 0)
        return;
    qsort(m->digests, m->list.count, sizeof(*m->digests), by_digest);
    for (size_t i = 0; i < m->list.count; i++) {
        const struct hunk_digest *d = &m->digests[i];
        occurrence = i > 0 && memcmp(d->bytes, d[-1].bytes, sizeof(d->bytes)) == 0 ? occurrence + 1 : 0;
        write_id(d, occurrence, m->list.items[d->index].id);
    }
}

static void end_hunk(struct hunk_maker *m)
{
    if (m->list.count == 0)
        return;
    struct hunk_digest *d = &m->digests[m->list.count - 1];
    sha256_digest(&m->sha, sizeof(d->bytes), d->bytes);
    d->index = m->list.count - 1;
}

/* ---- libgit2's callbacks ---- */

/* Leaves out git's function name: the numbers suffice, and it is one more untrusted text. */
static char *header_text(const struct hunk *h)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    buf_addf(&out, "@@ -%" PRIu32, h->old_start);
    if (h->old_lines != 1)
        buf_addf(&out, ",%" PRIu32, h->old_lines);
    buf_addf(&out, " +%" PRIu32, h->new_start);
    if (h->new_lines != 1)
        buf_addf(&out, ",%" PRIu32, h->new_lines);
    buf_add_str(&out, " @@");
    return buf_dup_take(&out);
}

static int on_hunk(const git_diff_delta *delta, const git_diff_hunk *h, void *cookie)
{
    struct hunk_maker *m = cookie;

    (void) delta;
    end_hunk(m);
    vec_room(&m->digests, &m->digest_cap, m->list.count);
    vec_room(&m->list.items, &m->list.cap, m->list.count);
    struct hunk *hunk = &m->list.items[m->list.count++];
    *hunk = (struct hunk){
        .old_start = (uint32_t) h->old_start,
        .old_lines = (uint32_t) h->old_lines,
        .new_start = (uint32_t) h->new_start,
        .new_lines = (uint32_t) h->new_lines,
    };
    hunk->header = header_text(hunk);
    sha256_init(&m->sha);
    return 0;
}

static int on_line(const git_diff_delta *delta, const git_diff_hunk *h, const git_diff_line *line, void *cookie)
{
    struct hunk_maker *m = cookie;
    struct hunk *hunk = &m->list.items[m->list.count - 1];
    bool is_change = line->origin == GIT_DIFF_LINE_ADDITION || line->origin == GIT_DIFF_LINE_DELETION;

    (void) delta;
    (void) h;
    hunk->added += line->origin == GIT_DIFF_LINE_ADDITION;
    hunk->removed += line->origin == GIT_DIFF_LINE_DELETION;
    if (is_change || line->origin == GIT_DIFF_LINE_CONTEXT)
        buf_add_char(&hunk->lines, line->origin);
    buf_add(&hunk->lines, line->content, line->content_len);
    /* A last line without a newline differs from one with it; its marker begins with the missing newline. The origin
     * separates the lines in the hash: no line contains a newline. */
    if (is_change || line->origin == GIT_DIFF_LINE_ADD_EOFNL || line->origin == GIT_DIFF_LINE_DEL_EOFNL) {
        sha256_update(&m->sha, 1, (const uint8_t *) &line->origin);
        sha256_update(&m->sha, line->content_len, (const uint8_t *) line->content);
    }
    return 0;
}

struct line_count {
    size_t added, removed;
};

static int on_counted_line(const git_diff_delta *delta, const git_diff_hunk *h, const git_diff_line *line, void *cookie)
{
    struct line_count *count = cookie;

    (void) delta;
    (void) h;
    count->added += line->origin == GIT_DIFF_LINE_ADDITION;
    count->removed += line->origin == GIT_DIFF_LINE_DELETION;
    return 0;
}

/* ---- comparing ---- */

static bool is_too_large(const char *text, size_t len)
{
    size_t lines = 0;

    if (len > HUNK_BYTES_MAX)
        return true;
    for (const char *p = text, *end = text + len; p < end && lines <= HUNK_LINES_MAX; lines++) {
        const char *newline = memchr(p, '\n', (size_t) (end - p));
        p = newline ? newline + 1 : end;
    }
    return lines > HUNK_LINES_MAX;
}

static int compare_texts(const char *was, size_t was_len, const char *now, size_t now_len, git_diff_hunk_cb hunk_fn,
                         git_diff_line_cb line_fn, void *cookie, struct err *err)
{
    const struct libgit *git;
    git_diff_options options;

    if (was_len == now_len && memcmp(was, now, was_len) == 0)
        return 0;
    if (is_too_large(was, was_len) || is_too_large(now, now_len) || !line_distance_is_small(was, was_len, now, now_len))
        return err_set(err, ERR_OUT_OF_RANGE, -EFBIG, "the text is too large to compare line by line");
    int r = libgit_get(&git, err);
    if (r < 0)
        return r;
    git->git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
    options.flags |= GIT_DIFF_FORCE_TEXT;
    r = git->git_diff_buffers(was, was_len, "a", now, now_len, "b", &options, NULL, NULL, hunk_fn, line_fn, cookie);
    return r < 0 ? libgit_failed(git, "comparing", err) : 0;
}

int hunk_list_make(const void *was, size_t was_len, const void *now, size_t now_len, struct hunk_list *ret, struct err *err)
{
    struct hunk_maker m = { .list = HUNK_LIST_EMPTY };
    /* libgit2 takes NULL for a missing file. */
    int r = compare_texts(was_len ? was : "", was_len, now_len ? now : "", now_len, on_hunk, on_line, &m, err);

    if (r == 0) {
        end_hunk(&m);
        assign_ids(&m);
        *ret = m.list;
    } else {
        hunk_list_done(&m.list);
    }
    free(m.digests);
    return r;
}

int hunk_count_lines(const void *was, size_t was_len, const void *now, size_t now_len, size_t *ret_added, size_t *ret_removed,
                     struct err *err)
{
    struct line_count count = { 0 };
    int r = compare_texts(was_len ? was : "", was_len, now_len ? now : "", now_len, NULL, on_counted_line, &count, err);

    if (r < 0)
        return r;
    *ret_added = count.added;
    *ret_removed = count.removed;
    return 0;
}

/* ---- applying chosen hunks ---- */

/* Reads a text line by line. */
struct line_reader {
    const char *at, *end;
    size_t line; /* lines read */
};

/* Advances until `line` lines are read. Returns the old position, or NULL if there are fewer lines. */
static const char *skip_to(struct line_reader *reader, size_t line)
{
    const char *from = reader->at;

    for (; reader->line < line; reader->line++) {
        if (reader->at == reader->end)
            return NULL;
        const char *newline = memchr(reader->at, '\n', (size_t) (reader->end - reader->at));
        reader->at = newline ? newline + 1 : reader->end;
    }
    return reader->line == line ? from : NULL;
}

/* The number of lines before the hunk. A range without lines is given by the line before it. */
static size_t lines_before(uint32_t start, uint32_t lines)
{
    return lines > 0 ? (size_t) start - 1 : start;
}

static bool copy_hunk(struct line_reader *was, struct line_reader *now, const struct hunk *hunk, bool is_chosen,
                      struct buf *out)
{
    size_t old_before = lines_before(hunk->old_start, hunk->old_lines), new_before;
    const char *from = skip_to(was, old_before);

    if (!from)
        return false;
    buf_add(out, from, (size_t) (was->at - from));
    new_before = lines_before(hunk->new_start, hunk->new_lines);
    if (!skip_to(now, new_before))
        return false;
    const char *old_from = skip_to(was, old_before + hunk->old_lines), *new_from = skip_to(now, new_before + hunk->new_lines);
    if (!old_from || !new_from)
        return false;
    if (is_chosen)
        buf_add(out, new_from, (size_t) (now->at - new_from));
    else
        buf_add(out, old_from, (size_t) (was->at - old_from));
    return true;
}

/*
 * Between hunks both texts have the same bytes, and a hunk's lines come completely from one or the other. A last line without
 * a newline cannot come before another line: it equals only the last line of the other text, so any difference at or after it
 * is in the last hunk.
 */
int hunk_list_pick(const void *was, size_t was_len, const void *now, size_t now_len, const struct hunk_list *list,
                   const bool *chosen, struct buf *ret, struct err *err)
{
    const char *old_text = was_len ? was : "", *new_text = now_len ? now : "";
    struct line_reader old = { old_text, old_text + was_len, 0 }, new = { new_text, new_text + now_len, 0 };
    autodone(buf) struct buf out = BUF_EMPTY;

    for (size_t i = 0; i < list->count; i++) {
        if (!copy_hunk(&old, &new, &list->items[i], chosen[i], &out))
            return err_invalid(err, "hunk %zu is not of this text", i + 1);
    }
    buf_add(&out, old.at, (size_t) (old.end - old.at));
    buf_add(ret, out.data ? out.data : "", out.len);
    return 0;
}

int hunk_list_shift(struct hunk_list *list, uint64_t lines)
{
    if (lines > INT32_MAX - HUNK_LINES_MAX)
        return -EFBIG;
    for (size_t i = 0; i < list->count; i++) {
        struct hunk *hunk = &list->items[i];
        hunk->old_start += (uint32_t) lines;
        hunk->new_start += (uint32_t) lines;
        free(hunk->header);
        hunk->header = header_text(hunk);
    }
    return 0;
}

const struct hunk *hunk_list_find(const struct hunk_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].id, id) == 0)
            return &list->items[i];
    }
    return NULL;
}

void hunk_list_done(struct hunk_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].header);
        buf_done(&list->items[i].lines);
    }
    free(list->items);
    *list = HUNK_LIST_EMPTY;
}
