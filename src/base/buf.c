#include "base/buf.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

void buf_done(struct buf *b)
{
    free(b->data);
    *b = BUF_EMPTY;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_room(struct buf *b, size_t more)
{
    size_t need;

    if (__builtin_add_overflow(b->len, more, &need) || __builtin_add_overflow(need, 1, &need))
        abort();
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap += cap / 2 + 1;
    b->data = xgrow(b->data, cap, 1);
    b->cap = cap;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
    buf_room(b, len);
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    buf_room(b, (size_t) n);
    vsnprintf(b->data + b->len, (size_t) n + 1, fmt, again);
    va_end(again);
    b->len += (size_t) n;
}

/* Valid characters that make a line look different from its content: C1 controls, bidi controls (CVE-2021-42574), zero-width
 * joiners, line separators and byte order marks. */
static bool is_misleading_character(uint32_t cp)
{
    return (cp >= 0x80 && cp < 0xA0) || (cp >= 0x200B && cp <= 0x200F) || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2060 && cp <= 0x206F) || cp == 0x061C || cp == 0xFEFF || (cp >= 0xE0000 && cp <= 0xE007F);
}

void buf_add_escaped(struct buf *b, const void *bytes, size_t len)
{
    const char *s = bytes;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        size_t n = utf8_decode(s + i, len - i, &cp);

        if (n == 0)
            buf_addf(b, "\\x%02x", (unsigned char) s[i]);
        else if (cp == '\n')
            buf_add_str(b, "\\n");
        else if (cp == '\t')
            buf_add_str(b, "\\t");
        else if (cp == '\r')
            buf_add_str(b, "\\r");
        else if (cp == '\\')
            buf_add_str(b, "\\\\");
        else if (cp < 0x20 || cp == 0x7F)
            buf_addf(b, "\\x%02x", (unsigned) cp);
        else if (is_misleading_character(cp))
            buf_addf(b, cp > 0xFFFF ? "\\U%08x" : "\\u%04x", (unsigned) cp);
        else
            buf_add(b, s + i, n);
        i += n ? n : 1;
    }
}

#define EXCERPT_LEN 64

void buf_add_excerpt(struct buf *b, const void *bytes, size_t len)
{
    const char *s = bytes;
    size_t cut = 0;
    uint32_t cp;

    /* Cutting inside a character would show bytes that the text does not contain. */
    while (cut < len && cut < EXCERPT_LEN) {
        size_t n = utf8_decode(s + cut, len - cut, &cp);
        cut += n ? n : 1;
    }
    buf_add_escaped(b, s, cut);
    if (cut < len)
        buf_addf(b, "... (%zu bytes)", len);
}

char *buf_dup_take(struct buf *b)
{
    buf_room(b, 0);
    b->data[b->len] = '\0';
    char *data = b->data;
    *b = BUF_EMPTY;
    return data;
}
