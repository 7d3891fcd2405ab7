#include "rest/json_text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "rest/decimal.h"

static int json_text_reject(const struct json_text *text, const char *what, struct err *err)
{
    return err_invalid(err, "not JSON at byte %zu: %s", (size_t) (text->at - text->start), what);
}

enum json_kind json_text_peek(struct json_text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t' || *text->at == '\n' || *text->at == '\r'))
        text->at++;
    if (text->at == text->end)
        return JSON_KIND_END;
    switch (*text->at) {
    case '{':
        return JSON_KIND_OBJECT;
    case '[':
        return JSON_KIND_LIST;
    case '"':
        return JSON_KIND_STRING;
    case 't':
    case 'f':
        return JSON_KIND_BOOL;
    case 'n':
        return JSON_KIND_NULL;
    default:
        return *text->at == '-' || (*text->at >= '0' && *text->at <= '9') ? JSON_KIND_NUMBER : JSON_KIND_BAD;
    }
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = { "the end of the text", "an object", "a list",         "a string", "a number",
                                         "true or false",       "null",      "what is no JSON" };

    return names[kind];
}

static bool parse_hex(struct json_text *text, uint32_t *ret)
{
    uint32_t value = 0;

    if (text->end - text->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *text->at++;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t) (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value << 4 | (uint32_t) ((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* Behind "\u". What is beyond 16 bits comes as two halves. */
static int parse_code_point(struct json_text *text, struct buf *out, struct err *err)
{
    uint32_t code, low;
    char bytes[4];

    if (!parse_hex(text, &code))
        return json_text_reject(text, "\\u without four hex digits", err);
    if (code == 0)
        return json_text_reject(text, "a NUL character", err);
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (text->end - text->at < 2 || text->at[0] != '\\' || text->at[1] != 'u')
            return json_text_reject(text, "half a surrogate pair", err);
        text->at += 2;
        if (!parse_hex(text, &low) || low < 0xDC00 || low > 0xDFFF)
            return json_text_reject(text, "half a surrogate pair", err);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return json_text_reject(text, "half a surrogate pair", err);
    }
    buf_add(out, bytes, utf8_write(code, bytes));
    return 0;
}

static int parse_escape(struct json_text *text, struct buf *out, struct err *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    if (text->at == text->end)
        return json_text_reject(text, "a string without end", err);
    char c = *text->at++;
    if (c == 'u')
        return parse_code_point(text, out, err);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found)
        return json_text_reject(text, "an escape that JSON does not have", err);
    buf_add_char(out, to[found - from]);
    return 0;
}

#define EIGHT(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether a byte of eight is 0. */
static uint64_t find_zero(uint64_t eight)
{
    return (eight - EIGHT(1)) & ~eight & EIGHT(0x80);
}

/* Where what stands for itself ends: at a quote, a backslash, a control character, or the end of the text. Content of files comes as long
 * strings, so eight at a time. */
static const char *end_of_plain(const char *at, const char *end)
{
    uint64_t eight;

    for (; (size_t) (end - at) >= sizeof(eight); at += sizeof(eight)) {
        memcpy(&eight, at, sizeof(eight));
        if (find_zero(eight ^ EIGHT('"')) | find_zero(eight ^ EIGHT('\\')) | ((eight - EIGHT(0x20)) & ~eight & EIGHT(0x80)))
            break;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char) *at >= 0x20)
        at++;
    return at;
}

int json_text_string(struct json_text *text, struct buf *out, struct err *err)
{
    int r;

    text->at++;
    for (;;) {
        const char *run = text->at;

        text->at = end_of_plain(text->at, text->end);
        if (!utf8_is_valid(run, (size_t) (text->at - run)))
            return json_text_reject(text, "a string that is not UTF-8", err);
        buf_add(out, run, (size_t) (text->at - run));
        if (text->at == text->end)
            return json_text_reject(text, "a string without end", err);
        if ((unsigned char) *text->at < 0x20)
            return json_text_reject(text, "a control character in a string", err);
        if (*text->at++ == '"')
            return 0;
        r = parse_escape(text, out, err);
        if (r < 0)
            return r;
    }
}

int json_text_number(struct json_text *text, const char **ret, size_t *ret_len, struct err *err)
{
    const char *from = text->at;

    while (text->at < text->end && *text->at && strchr("+-.0123456789eE", *text->at))
        text->at++;
    if (!decimal_is_number(from, (size_t) (text->at - from)))
        return json_text_reject(text, "a number that is written wrongly", err);
    *ret = from;
    *ret_len = (size_t) (text->at - from);
    return 0;
}

static bool parse_word(struct json_text *text, const char *word)
{
    size_t len = strlen(word);

    if ((size_t) (text->end - text->at) < len || memcmp(text->at, word, len) != 0)
        return false;
    text->at += len;
    return true;
}

int json_text_bool(struct json_text *text, bool *ret, struct err *err)
{
    if (parse_word(text, "true"))
        *ret = true;
    else if (parse_word(text, "false"))
        *ret = false;
    else
        return json_text_reject(text, "a word that JSON does not have", err);
    return 0;
}

int json_text_null(struct json_text *text, struct err *err)
{
    return parse_word(text, "null") ? 0 : json_text_reject(text, "a word that JSON does not have", err);
}

int json_text_enter(struct json_text *text, struct err *err)
{
    if (++text->depth > JSON_DEPTH_MAX)
        return err_invalid(err, "nested more than %d deep", JSON_DEPTH_MAX);
    text->at++;
    return 0;
}

int json_text_next(struct json_text *text, bool is_first, char close, struct err *err)
{
    enum json_kind kind = json_text_peek(text);

    if (kind == JSON_KIND_END)
        return json_text_reject(text, "the text ends too early", err);
    if (*text->at == close) {
        text->at++;
        text->depth--;
        return 0;
    }
    if (!is_first) {
        if (*text->at != ',')
            return json_text_reject(text, "a comma is missing", err);
        text->at++;
        kind = json_text_peek(text);
    }
    if (kind == JSON_KIND_END || kind == JSON_KIND_BAD)
        return json_text_reject(text, kind == JSON_KIND_END ? "the text ends too early" : "no value begins like this", err);
    return 1;
}

int json_text_key(struct json_text *text, struct buf *out, struct err *err)
{
    int r;

    if (json_text_peek(text) != JSON_KIND_STRING)
        return json_text_reject(text, "a key must be a string", err);
    r = json_text_string(text, out, err);
    if (r < 0)
        return r;
    json_text_peek(text);
    if (text->at == text->end || *text->at != ':')
        return json_text_reject(text, "a colon is missing", err);
    text->at++;
    return 0;
}

static int skip_members(struct json_text *text, struct err *err)
{
    bool is_object = *text->at == '{';
    int r = json_text_enter(text, err);

    for (bool is_first = true; r >= 0; is_first = false) {
        r = json_text_next(text, is_first, is_object ? '}' : ']', err);
        if (r <= 0)
            return r;
        if (is_object) {
            autodone(buf) struct buf key = BUF_EMPTY;
            r = json_text_key(text, &key, err);
            if (r < 0)
                return r;
        }
        r = json_text_skip(text, err);
    }
    return r;
}

int json_text_skip(struct json_text *text, struct err *err)
{
    autodone(buf) struct buf string = BUF_EMPTY;
    const char *number;
    size_t len;
    bool truth;

    switch (json_text_peek(text)) {
    case JSON_KIND_OBJECT:
    case JSON_KIND_LIST:
        return skip_members(text, err);
    case JSON_KIND_STRING:
        return json_text_string(text, &string, err);
    case JSON_KIND_NUMBER:
        return json_text_number(text, &number, &len, err);
    case JSON_KIND_BOOL:
        return json_text_bool(text, &truth, err);
    case JSON_KIND_NULL:
        return json_text_null(text, err);
    case JSON_KIND_END:
        return json_text_reject(text, "the text ends too early", err);
    case JSON_KIND_BAD:
        break;
    }
    return json_text_reject(text, "no value begins like this", err);
}

int json_text_finish(struct json_text *text, struct err *err)
{
    return json_text_peek(text) == JSON_KIND_END ? 0 : json_text_reject(text, "something follows the end", err);
}
