#include "base/sandbox_id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_LEN 3
#define HEX "0123456789abcdef"
#define NEW_DIGITS 16
#define OLD_DIGITS 32

static bool is_old(const char *text)
{
    return strncmp(text, SANDBOX_ID_OLD_PREFIX, PREFIX_LEN) == 0 && strspn(text + PREFIX_LEN, HEX) == OLD_DIGITS &&
           text[PREFIX_LEN + OLD_DIGITS] == '\0';
}

void sandbox_id_new(char ret[SANDBOX_ID_MAX])
{
    char id[ID_TEXT_MAX];

    id_new(SANDBOX_ID_PREFIX, id);
    snprintf(ret, SANDBOX_ID_MAX, "%s", id);
}

bool sandbox_id_is_valid(const char *text)
{
    return id_is_valid(SANDBOX_ID_PREFIX, text) || is_old(text);
}

/* "dddddddd-dddd-4ddd-8d00-000000000000" */
static bool is_new_as_uuid(const char uuid[UUID_TEXT_MAX])
{
    return uuid[14] == '4' && uuid[19] == '8' && strcmp(uuid + 21, "00-000000000000") == 0;
}

int sandbox_id_parse(const char *text, char ret[SANDBOX_ID_MAX])
{
    char uuid[UUID_TEXT_MAX];

    if (sandbox_id_is_valid(text)) {
        memcpy(ret, text, strlen(text) + 1);
        return 0;
    }
    if (uuid_parse(text, uuid) < 0)
        return -EINVAL;
    if (is_new_as_uuid(uuid))
        snprintf(ret, SANDBOX_ID_MAX, SANDBOX_ID_PREFIX "%.8s%.4s%.3s%.1s", uuid, uuid + 9, uuid + 15, uuid + 20);
    else
        snprintf(ret, SANDBOX_ID_MAX, SANDBOX_ID_OLD_PREFIX "%.8s%.4s%.4s%.4s%.12s", uuid, uuid + 9, uuid + 14, uuid + 19,
                 uuid + 24);
    return 0;
}

void sandbox_id_to_uuid(const char *id, char ret[UUID_TEXT_MAX])
{
    const char *d = id + PREFIX_LEN;

    ret[0] = '\0';
    if (is_old(id))
        snprintf(ret, UUID_TEXT_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", d, d + 8, d + 12, d + 16, d + 20);
    else if (id_is_valid(SANDBOX_ID_PREFIX, id))
        snprintf(ret, UUID_TEXT_MAX, "%.8s-%.4s-4%.3s-8%.1s00-000000000000", d, d + 8, d + 12, d + 15);
}
