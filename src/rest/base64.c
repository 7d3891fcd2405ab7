#include "rest/base64.h"

#include <errno.h>
#include <stdbool.h>

/* Each character's value and one; 0: it is none. Both alphabets. */
static const uint8_t values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10,
    ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20,
    ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,
    ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50,
    ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60,
    ['8'] = 61, ['9'] = 62, ['+'] = 63, ['-'] = 63, ['/'] = 64, ['_'] = 64,
};

static bool decode_bits(const char *text, size_t count, uint32_t *ret)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < count; i++) {
        unsigned value = values[(unsigned char) text[i]];
        if (value == 0)
            return false;
        bits = bits << 6 | (value - 1);
    }
    *ret = bits;
    return true;
}

/* Two or three characters that end a text; bits that make no byte must be zero. */
static ptrdiff_t decode_rest(const char *text, size_t len, uint8_t *out)
{
    uint32_t bits;

    if (!decode_bits(text, len, &bits) || bits & (len == 2 ? 0xFu : 0x3u))
        return -EINVAL;
    if (len == 2) {
        out[0] = (uint8_t) (bits >> 4);
        return 1;
    }
    out[0] = (uint8_t) (bits >> 10);
    out[1] = (uint8_t) (bits >> 2);
    return 2;
}

ptrdiff_t base64_decode(const char *text, size_t len, uint8_t *out)
{
    size_t count = 0, padding = 0;
    uint32_t bits;

    while (len > 0 && padding < 2 && text[len - 1] == '=') {
        len--;
        padding++;
    }
    if (len % 4 == 1 || (padding > 0 && (len + padding) % 4 != 0))
        return -EINVAL;
    for (; len >= 4; text += 4, len -= 4) {
        if (!decode_bits(text, 4, &bits))
            return -EINVAL;
        out[count++] = (uint8_t) (bits >> 16);
        out[count++] = (uint8_t) (bits >> 8);
        out[count++] = (uint8_t) bits;
    }
    ptrdiff_t rest = len > 0 ? decode_rest(text, len, out + count) : 0;
    return rest < 0 ? rest : (ptrdiff_t) count + rest;
}

void base64_add(struct buf *out, const uint8_t *bytes, size_t len)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to;

    buf_room(out, (len + 2) / 3 * 4);
    to = out->data + out->len;
    for (; len >= 3; bytes += 3, len -= 3) {
        uint32_t bits = (uint32_t) bytes[0] << 16 | (uint32_t) bytes[1] << 8 | bytes[2];
        *to++ = alphabet[bits >> 18];
        *to++ = alphabet[bits >> 12 & 63];
        *to++ = alphabet[bits >> 6 & 63];
        *to++ = alphabet[bits & 63];
    }
    if (len > 0) {
        uint32_t bits = (uint32_t) bytes[0] << 16 | (len > 1 ? (uint32_t) bytes[1] << 8 : 0);
        *to++ = alphabet[bits >> 18];
        *to++ = alphabet[bits >> 12 & 63];
        *to++ = (char) (len > 1 ? alphabet[bits >> 6 & 63] : '=');
        *to++ = '=';
    }
    *to = '\0';
    out->len = (size_t) (to - out->data);
}
