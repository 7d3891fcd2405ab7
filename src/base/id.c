#include "base/id.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HEX_LEN 16

int id_random(void *bytes, size_t len)
{
    char *at = bytes;

    /* Up to 256 bytes arrive at once; a signal may shorten larger requests. */
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t) n;
    }
    return 0;
}

void id_new(const char *prefix, char out[ID_TEXT_MAX])
{
    uint64_t bits;

    assert(strlen(prefix) <= ID_PREFIX_MAX);
    if (id_random(&bits, sizeof(bits)) < 0)
        abort();
    snprintf(out, ID_TEXT_MAX, "%s%016llx", prefix, (unsigned long long) bits);
}

bool id_is_valid(const char *prefix, const char *s)
{
    size_t len = strlen(prefix);

    if (strncmp(s, prefix, len) != 0)
        return false;
    s += len;
    return strspn(s, "0123456789abcdef") == HEX_LEN && s[HEX_LEN] == '\0';
}
