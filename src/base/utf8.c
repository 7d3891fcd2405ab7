#include "base/utf8.h"

#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t utf8_decode(const char *bytes, size_t len, uint32_t *ret_code_point)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = (const unsigned char *) bytes;
    uint32_t cp;
    size_t n;

    if (len == 0)
        return 0;
    if (s[0] < 0x80) {
        *ret_code_point = s[0];
        return 1;
    }
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        n = 2;
        cp = s[0] & 0x1Fu;
    } else if ((s[0] & 0xF0) == 0xE0) {
        n = 3;
        cp = s[0] & 0x0Fu;
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        n = 4;
        cp = s[0] & 0x07u;
    } else {
        return 0;
    }
    if (len < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (!is_continuation(s[i]))
            return 0;
        cp = cp << 6 | (s[i] & 0x3Fu);
    }
    if (cp < smallest[n] || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return 0;
    *ret_code_point = cp;
    return n;
}

size_t utf8_write(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char) code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char) (0xC0 | code_point >> 6);
        out[1] = (char) (0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char) (0xE0 | code_point >> 12);
        out[1] = (char) (0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char) (0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char) (0xF0 | code_point >> 18);
    out[1] = (char) (0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char) (0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char) (0x80 | (code_point & 0x3F));
    return 4;
}

/* A fast path: most text is ASCII. */
static size_t count_ascii(const char *bytes, size_t len)
{
    size_t i = 0;
    uint64_t eight;

    for (; len - i >= sizeof(eight); i += sizeof(eight)) {
        memcpy(&eight, bytes + i, sizeof(eight));
        if (eight & UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

bool utf8_is_valid(const char *bytes, size_t len)
{
    uint32_t cp;

    for (size_t i = 0; i < len;) {
        i += count_ascii(bytes + i, len - i);
        if (i == len)
            break;
        size_t n = utf8_decode(bytes + i, len - i, &cp);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}
