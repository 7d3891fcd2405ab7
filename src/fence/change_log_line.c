#include "fence/change_log_line.h"

#include <string.h>

#include "base/utf8.h"

/* Not with jansson, which refuses the lone surrogates that represent bytes that are not UTF-8. */
struct scan {
    const char *at, *end;
};

static bool scan_char(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool scan_hex(struct scan *s, uint32_t *ret)
{
    uint32_t value = 0;

    if (s->end - s->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *s->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        value = value * 16 + (uint32_t) digit;
    }
    *ret = value;
    return true;
}

/* Accepts only the escapes that change_log_format_string() writes. */
static bool scan_escape(struct scan *s, struct buf *out)
{
    char utf8[4];
    uint32_t c;

    if (scan_char(s, '"') || scan_char(s, '\\')) {
        buf_add_char(out, s->at[-1]);
        return true;
    }
    if (!scan_char(s, 'u') || !scan_hex(s, &c) || c == 0)
        return false;
    if (c >= 0xDC80 && c <= 0xDCFF)
        buf_add_char(out, (char) (c & 0xFF));
    else if (c >= 0xD800 && c <= 0xDFFF)
        return false;
    else
        buf_add(out, utf8, utf8_write(c, utf8));
    return true;
}

static bool scan_string(struct scan *s, struct buf *out)
{
    buf_clear(out);
    buf_add(out, "", 0);
    if (!scan_char(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"') {
        if (*s->at == 0)
            return false;
        if (!scan_char(s, '\\'))
            buf_add_char(out, *s->at++);
        else if (!scan_escape(s, out))
            return false;
    }
    return scan_char(s, '"');
}

static bool scan_number(struct scan *s, int64_t *ret)
{
    bool negative = scan_char(s, '-');
    const char *first = s->at;
    int64_t value = 0;

    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s->at - '0', &value))
            return false;
        s->at++;
    }
    *ret = negative ? -value : value;
    return s->at > first;
}

static bool line_set_number(struct scan *s, const char *key, struct change_log_line *e)
{
    int64_t n;

    if (!scan_number(s, &n))
        return false;
    if (strcmp(key, "mtime_ns") == 0)
        e->mtime_ns = n;
    else if (strcmp(key, "time_ns") == 0)
        e->time_ns = n;
    else if (strcmp(key, "size") == 0)
        e->size_bytes = (uint64_t) n;
    else if (strcmp(key, "mode") == 0)
        e->mode = (uint64_t) n;
    return true;
}

static bool line_set_string(struct scan *s, const char *key, struct change_log_line *e)
{
    autodone(buf) struct buf other = BUF_EMPTY;
    struct buf *out = &other;

    if (strcmp(key, "change") == 0)
        out = &e->change;
    else if (strcmp(key, "path") == 0)
        out = &e->path;
    else if (strcmp(key, "to") == 0)
        out = &e->to;
    else if (strcmp(key, "sha256") == 0)
        out = &e->hash;
    else if (strcmp(key, "kept") == 0)
        out = &e->kept;
    return scan_string(s, out);
}

static bool scan_object(struct scan *s, struct change_log_line *e, bool is_inner);

static bool scan_value(struct scan *s, const char *key, struct change_log_line *e, bool is_inner)
{
    if (s->at == s->end)
        return false;
    if (*s->at == '"')
        return line_set_string(s, key, e);
    if (*s->at == 't') {
        e->has_moved_on |= strcmp(key, "moved_on") == 0;
        if (s->end - s->at < 4 || memcmp(s->at, "true", 4) != 0)
            return false;
        s->at += 4;
        return true;
    }
    if (*s->at != '{')
        return line_set_number(s, key, e);
    e->has_base |= strcmp(key, "base") == 0;
    return !is_inner && scan_object(s, e, true);
}

static bool scan_object(struct scan *s, struct change_log_line *e, bool is_inner)
{
    autodone(buf) struct buf key = BUF_EMPTY;

    if (!scan_char(s, '{'))
        return false;
    do {
        if (!scan_string(s, &key) || !scan_char(s, ':') || !scan_value(s, key.data, e, is_inner))
            return false;
    } while (scan_char(s, ','));
    return scan_char(s, '}');
}

bool change_log_line_parse(struct change_log_line *line, const char *text, size_t len)
{
    struct scan s = { text, text + len };

    change_log_line_done(line);
    return scan_object(&s, line, false) && s.at == s.end;
}

void change_log_line_done(struct change_log_line *line)
{
    buf_done(&line->change);
    buf_done(&line->path);
    buf_done(&line->to);
    buf_done(&line->hash);
    buf_done(&line->kept);
    *line = CHANGE_LOG_LINE_EMPTY;
}
