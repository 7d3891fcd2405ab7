#include "codebase/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "codebase/tree_path.h"

#define HEAD "agentfense-version 1"
#define NUMBER_MAX (INT64_MAX / 4)
#define SOURCE_MAX 8192

void manifest_entry_done(struct manifest_entry *e)
{
    free(e->path);
    free(e->sha256);
    free(e->source);
}

void manifest_done(struct manifest *m)
{
    for (size_t i = 0; i < m->count; i++)
        manifest_entry_done(&m->entries[i]);
    free(m->entries);
    free(m->by);
    free(m->reason);
    *m = MANIFEST_EMPTY;
}

struct manifest_entry *manifest_add(struct manifest *m)
{
    vec_room(&m->entries, &m->cap, m->count);
    m->entries[m->count] = (struct manifest_entry){ 0 };
    return &m->entries[m->count++];
}

/* Appends a word: characters that could end it are written as %XX, and an empty text as "-". */
static void add_word(struct buf *out, const char *s)
{
    buf_add_char(out, ' ');
    if (!s || !*s) {
        buf_add_char(out, '-');
        return;
    }
    if (*s == '-')
        buf_add_str(out, "%2D");
    for (s += *s == '-'; *s; s++) {
        unsigned char c = (unsigned char) *s;

        if (c <= ' ' || c == '%' || c >= 0x7F)
            buf_addf(out, "%%%02X", c);
        else
            buf_add_char(out, (char) c);
    }
}

static char letter_of(enum tree_kind kind)
{
    return "0fld"[kind];
}

static void add_entry(struct buf *out, const struct manifest_entry *e)
{
    buf_addf(out, "%c %u %c%c %c %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, (char) e->op, e->object,
             letter_of(e->new_kind), letter_of(e->old_kind), e->is_conflict ? 'c' : '.', e->when_ns, e->new_bytes, e->new_files,
             e->old_bytes, e->old_files);
    add_word(out, e->path);
    add_word(out, e->sha256);
    buf_addf(out, " %" PRIu64 " %" PRId64, e->src_ino, e->src_mtime_ns);
    add_word(out, e->source);
    buf_add_char(out, '\n');
}

void manifest_format(const struct manifest *m, struct buf *out)
{
    buf_addf(out, "%s\nversion %" PRIu64 " %" PRId64, HEAD, m->version, m->time_ns);
    add_word(out, m->by);
    add_word(out, m->reason);
    buf_add_char(out, '\n');
    for (size_t i = 0; i < m->count; i++)
        add_entry(out, &m->entries[i]);
    buf_addf(out, "end %zu\n", m->count);
}

/* A line and the position up to which it is parsed. A failed step sets `bad`, and further steps do nothing. */
struct manifest_line {
    const char *at, *end;
    bool bad;
};

static struct field {
    const char *data;
    size_t len;
} take_field(struct manifest_line *l)
{
    struct field field = { .data = l->at };
    const char *space = memchr(l->at, ' ', (size_t) (l->end - l->at));
    const char *stop = space ? space : l->end;

    field.len = (size_t) (stop - l->at);
    if (field.len == 0)
        l->bad = true;
    l->at = space ? space + 1 : l->end;
    return field;
}

static char parse_letter(struct manifest_line *l, const char *allowed)
{
    struct field f = take_field(l);

    if (l->bad || f.len != 1 || f.data[0] == 0 || !strchr(allowed, f.data[0])) {
        l->bad = true;
        return 0;
    }
    return f.data[0];
}

/* Parses plain digits without leading zeros, after a minus where allowed. */
static int64_t parse_number(struct manifest_line *l, bool may_be_negative, uint64_t max)
{
    struct field f = take_field(l);
    size_t i = may_be_negative && f.len > 1 && f.data[0] == '-';
    bool is_negative = i;
    uint64_t n = 0;

    if (l->bad || f.len - i > 19 || (f.len - i > 1 && f.data[i] == '0')) {
        l->bad = true;
        return 0;
    }
    for (; i < f.len; i++) {
        if (!isdigit((unsigned char) f.data[i])) {
            l->bad = true;
            return 0;
        }
        n = n * 10 + (uint64_t) (f.data[i] - '0');
    }
    if (n > max || (is_negative && n == 0))
        l->bad = true;
    return is_negative ? -(int64_t) n : (int64_t) n;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF", *found = c ? strchr(digits, c) : NULL;

    return found ? (int) (found - digits) : -1;
}

/* Parses a word from add_word(); NULL for "-". The caller frees it. */
static char *parse_word(struct manifest_line *l, size_t max)
{
    struct field f = take_field(l);
    autodone(buf) struct buf out = BUF_EMPTY;

    if (f.len > max * 3)
        l->bad = true;
    if (l->bad || (f.len == 1 && f.data[0] == '-'))
        return NULL;
    for (size_t i = 0; i < f.len && !l->bad; i++) {
        if (f.data[i] != '%') {
            l->bad = (unsigned char) f.data[i] <= ' ' || (unsigned char) f.data[i] >= 0x7F;
            buf_add_char(&out, f.data[i]);
            continue;
        }
        int high = i + 2 < f.len ? hex_digit(f.data[i + 1]) : -1, low = i + 2 < f.len ? hex_digit(f.data[i + 2]) : -1;
        l->bad = high < 0 || low < 0 || high * 16 + low == 0;
        if (!l->bad)
            buf_add_char(&out, (char) (high * 16 + low));
        i += 2;
    }
    if (l->bad || out.len > max) {
        l->bad = true;
        return NULL;
    }
    return buf_dup_take(&out);
}

static bool kind_of_letter(char c, enum tree_kind *ret)
{
    for (*ret = TREE_NONE; *ret <= TREE_DIR; ++*ret)
        if (letter_of(*ret) == c)
            return true;
    return false;
}

static void parse_kinds(struct manifest_line *l, struct manifest_entry *e)
{
    struct field f = take_field(l);

    if (l->bad || f.len != 2 || !kind_of_letter(f.data[0], &e->new_kind) || !kind_of_letter(f.data[1], &e->old_kind))
        l->bad = true;
}

/* An unclean path could leave `files`, and one in another spelling would not be found again. */
static bool is_clean(const char *path)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    return path && tree_path_clean_entry(path, strlen(path), &clean, NULL) == 0 && strcmp(clean.data, path) == 0;
}

static bool is_hash(const char *s)
{
    return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static bool entry_is_sane(const struct manifest_entry *e)
{
    if (!is_clean(e->path) || (e->sha256 && !is_hash(e->sha256)) || (e->source && e->source[0] != '/'))
        return false;
    switch (e->op) {
    case MANIFEST_PUT:
        return e->new_kind != TREE_NONE;
    case MANIFEST_REMOVE:
        return e->new_kind == TREE_NONE && e->old_kind != TREE_NONE;
    case MANIFEST_LOST:
        return e->old_kind == TREE_NONE && e->is_conflict;
    }
    return false;
}

static bool parse_entry(struct manifest_line *l, struct manifest_entry *e)
{
    e->op = (enum manifest_op) parse_letter(l, "+-!");
    e->object = (unsigned) parse_number(l, false, INT32_MAX);
    parse_kinds(l, e);
    e->is_conflict = parse_letter(l, ".c") == 'c';
    e->when_ns = parse_number(l, true, INT64_MAX);
    e->new_bytes = (uint64_t) parse_number(l, false, NUMBER_MAX);
    e->new_files = (uint64_t) parse_number(l, false, NUMBER_MAX);
    e->old_bytes = (uint64_t) parse_number(l, false, NUMBER_MAX);
    e->old_files = (uint64_t) parse_number(l, false, NUMBER_MAX);
    e->path = parse_word(l, TREE_PATH_MAX);
    e->sha256 = parse_word(l, 64);
    e->src_ino = (uint64_t) parse_number(l, false, INT64_MAX);
    e->src_mtime_ns = parse_number(l, true, INT64_MAX);
    e->source = parse_word(l, SOURCE_MAX);
    return !l->bad && l->at == l->end && entry_is_sane(e);
}

static bool next_line(const char **cursor, const char *end, struct manifest_line *ret)
{
    const char *newline = memchr(*cursor, '\n', (size_t) (end - *cursor));

    if (!newline)
        return false;
    *ret = (struct manifest_line){ .at = *cursor, .end = newline };
    *cursor = newline + 1;
    return true;
}

static bool line_is(const struct manifest_line *l, const char *text)
{
    return (size_t) (l->end - l->at) == strlen(text) && memcmp(l->at, text, strlen(text)) == 0;
}

/* Consumes the word at the front of the line if it is there. */
static bool line_begins(struct manifest_line *l, const char *word)
{
    size_t len = strlen(word);

    if ((size_t) (l->end - l->at) < len || memcmp(l->at, word, len) != 0)
        return false;
    l->at += len;
    return true;
}

static bool parse_head(struct manifest_line *l, struct manifest *m)
{
    if (!line_begins(l, "version "))
        return false;
    m->version = (uint64_t) parse_number(l, false, NUMBER_MAX);
    m->time_ns = parse_number(l, true, INT64_MAX);
    m->by = parse_word(l, MANIFEST_TEXT_MAX);
    m->reason = parse_word(l, MANIFEST_TEXT_MAX);
    return !l->bad && l->at == l->end && m->version > 0;
}

int manifest_parse(const char *bytes, size_t len, struct manifest *ret)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    const char *at = bytes, *end = bytes + len;
    struct manifest_line l;

    if (len > MANIFEST_SIZE_MAX || !next_line(&at, end, &l) || !line_is(&l, HEAD) || !next_line(&at, end, &l) ||
        !parse_head(&l, &m))
        return -EBADMSG;
    while (next_line(&at, end, &l)) {
        if (line_begins(&l, "end ")) {
            if (at != end || parse_number(&l, false, NUMBER_MAX) != (int64_t) m.count || l.bad || l.at != l.end)
                return -EBADMSG;
            *ret = m;
            m = MANIFEST_EMPTY;
            return 0;
        }
        if (!parse_entry(&l, manifest_add(&m)))
            return -EBADMSG;
    }
    return -EBADMSG;
}

int manifest_read(int version_fd, struct manifest *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(version_fd, MANIFEST_NAME, MANIFEST_SIZE_MAX, &text);

    if (r == -EFBIG)
        return -EBADMSG;
    return r < 0 ? r : manifest_parse(text.data ? text.data : "", text.len, ret);
}

uint64_t manifest_undo_bytes(const struct manifest *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->count; i++)
        sum += m->entries[i].op == MANIFEST_LOST ? m->entries[i].new_bytes : m->entries[i].old_bytes;
    return sum;
}

int64_t manifest_last_ns(const struct manifest *m)
{
    int64_t last = 0;

    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].op != MANIFEST_LOST && m->entries[i].when_ns > last)
            last = m->entries[i].when_ns;
    return last;
}

/* Never goes below zero, even if a manifest is wrong. */
static uint64_t subtract_to_zero(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

void manifest_count(const struct manifest *m, struct codebase_meta *meta)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];

        if (e->op == MANIFEST_LOST)
            continue;
        meta->size_bytes = subtract_to_zero(meta->size_bytes + e->new_bytes, e->old_bytes);
        meta->file_count = subtract_to_zero(meta->file_count + e->new_files, e->old_files);
    }
    meta->undo_bytes += manifest_undo_bytes(m);
}
