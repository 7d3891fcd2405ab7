#include "rest/base64.h"

#include <errno.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

ptrdiff_t base64_decode(const char *text, size_t len, uint8_t *out)
{
    size_t count = 0, padding = 0;
    uint32_t bits = 0;
    int held = 0;

    while (len > 0 && padding < 2 && text[len - 1] == '=') {
        len--;
        padding++;
    }
    if (len % 4 == 1 || (padding > 0 && (len + padding) % 4 != 0))
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t) value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[count++] = (uint8_t) (bits >> held);
            bits &= (1u << held) - 1;
        }
    }
    return bits == 0 ? (ptrdiff_t) count : -EINVAL;
}

void base64_add(struct buf *out, const uint8_t *bytes, size_t len)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    buf_room(out, (len + 2) / 3 * 4);
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t) bytes[i] << 16;
        char four[4];

        if (have > 1)
            bits |= (uint32_t) bytes[i + 1] << 8;
        if (have > 2)
            bits |= bytes[i + 2];
        for (size_t j = 0; j < 4; j++)
            four[j] = (char) (j <= have ? alphabet[bits >> (18 - 6 * j) & 63] : '=');
        buf_add(out, four, 4);
    }
}
