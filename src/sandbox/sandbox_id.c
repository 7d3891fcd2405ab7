#include "sandbox/sandbox_id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"

#define UUID_DIGITS 32
#define SHORT_DIGITS 16
#define SHORT_VERSION_AT 12 /* the '4', among the digits of a UUID */
#define SHORT_VARIANT_AT 16 /* the '8' */

void sandbox_id_new(char ret_id[SANDBOX_ID_MAX])
{
    char id[ID_TEXT_MAX];

    id_new(SANDBOX_ID_PREFIX, id);
    snprintf(ret_id, SANDBOX_ID_MAX, "%s", id);
}

void sandbox_id_to_uuid(const char *id, char ret_uuid[UUID_TEXT_MAX])
{
    const char *from = strchr(id, '_') + 1;
    char digits[UUID_DIGITS + 1];

    if (strlen(from) == UUID_DIGITS)
        memcpy(digits, from, sizeof(digits));
    else
        snprintf(digits, sizeof(digits), "%.12s4%.3s8%.1s00000000000000", from, from + 12, from + 15);
    uuid_parse(digits, ret_uuid); /* sets its hyphens */
}

/* The inverse of what sandbox_id_to_uuid() does with an id of 16 digits. */
static bool is_short(const char digits[UUID_DIGITS])
{
    return digits[SHORT_VERSION_AT] == '4' && digits[SHORT_VARIANT_AT] == '8' &&
           strspn(digits + SHORT_DIGITS + 2, "0") == UUID_DIGITS - SHORT_DIGITS - 2;
}

int sandbox_id_parse(const char *text, char ret_id[SANDBOX_ID_MAX])
{
    char uuid[UUID_TEXT_MAX], digits[UUID_DIGITS + 1];
    size_t len = 0;

    if (sandbox_id_is_valid(text)) {
        memcpy(ret_id, text, strlen(text) + 1);
        return 0;
    }
    if (uuid_parse(text, uuid) < 0)
        return -EINVAL;
    for (const char *at = uuid; *at; at++)
        if (*at != '-')
            digits[len++] = *at;
    digits[len] = '\0';
    if (is_short(digits))
        snprintf(ret_id, SANDBOX_ID_MAX, SANDBOX_ID_PREFIX "%.12s%.3s%.1s", digits, digits + 13, digits + 17);
    else
        snprintf(ret_id, SANDBOX_ID_MAX, "ws_%s", digits);
    return 0;
}
