#include "base/uuid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/id.h"

#define DIGITS 32

static void uuid_format(const char digits[DIGITS], char out[UUID_TEXT_MAX])
{
    snprintf(out, UUID_TEXT_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12, digits + 16, digits + 20);
}

void uuid_new(char out[UUID_TEXT_MAX])
{
    unsigned char bytes[16];
    char digits[DIGITS + 1];

    if (id_random(bytes, sizeof(bytes)) < 0)
        abort();
    bytes[6] = (unsigned char) ((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char) ((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
    uuid_format(digits, out);
}

/* Accepts hyphens at their four positions, or none at all. */
static int parse_digits(const char *text, size_t len, char digits[DIGITS])
{
    static const char hex[] = "0123456789abcdef";
    size_t count = 0;

    if (len != DIGITS && len != DIGITS + 4)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (len > DIGITS && (i == 8 || i == 13 || i == 18 || i == 23)) {
            if (text[i] != '-')
                return -EINVAL;
            continue;
        }
        int c = text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i];
        if (c == '\0' || !strchr(hex, c))
            return -EINVAL;
        digits[count++] = (char) c;
    }
    return 0;
}

int uuid_parse(const char *text, char out[UUID_TEXT_MAX])
{
    static const char urn[] = "urn:uuid:";
    char digits[DIGITS];
    size_t len = strlen(text);

    if (strncasecmp(text, urn, strlen(urn)) == 0) {
        text += strlen(urn);
        len -= strlen(urn);
    } else if (len > 2 && text[0] == '{' && text[len - 1] == '}') {
        text++;
        len -= 2;
    }
    if (parse_digits(text, len, digits) < 0)
        return -EINVAL;
    uuid_format(digits, out);
    return 0;
}

bool uuid_may_begin(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len < UUID_TEXT_MAX && strspn(text, "0123456789abcdefABCDEF-") == len;
}
