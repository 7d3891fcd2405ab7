#include "review/file_id.h"

#include <errno.h>
#include <nettle/sha1.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/sandbox_id.h"

#define UUID_BYTES 16

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_uuid(const char *text, uint8_t out[UUID_BYTES])
{
    size_t digits = 0;

    if (strlen(text) != FILE_ID_LEN)
        return -EINVAL;
    for (size_t i = 0; i < FILE_ID_LEN; i++) {
        int digit = digit_of(text[i]);
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i] != '-')
                return -EINVAL;
            continue;
        }
        if (digit < 0)
            return -EINVAL;
        out[digits / 2] = (uint8_t) (digits % 2 ? out[digits / 2] | digit : digit << 4);
        digits++;
    }
    return 0;
}

int file_id_make(const char *sandbox_id, const char *scope_path, char out[FILE_ID_LEN + 1])
{
    uint8_t uuid[UUID_BYTES];
    char spelled[UUID_TEXT_MAX];
    struct sha1_ctx sha;
    char *at = out;
    int r;

    sandbox_id_to_uuid(sandbox_id, spelled);
    r = parse_uuid(*spelled ? spelled : sandbox_id, uuid);

    if (r < 0)
        return r;
    sha1_init(&sha);
    sha1_update(&sha, sizeof(uuid), uuid);
    sha1_update(&sha, strlen(scope_path), (const uint8_t *) scope_path);
    sha1_digest(&sha, sizeof(uuid), uuid);
    uuid[6] = (uint8_t) ((uuid[6] & 0x0F) | 0x50); /* version 5 */
    uuid[8] = (uint8_t) ((uuid[8] & 0x3F) | 0x80); /* RFC 4122 */
    for (size_t i = 0; i < UUID_BYTES; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
    return 0;
}
