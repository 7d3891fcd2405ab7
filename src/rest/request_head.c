#include "rest/request_head.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define STRICT_SINCE 977 /* 0.9.77 */

static const char bad_line[] = "a line of the request's head is folded, does not end with CR LF, or has a zero byte in it";
static const char bad_name[] = "a header of the request has a name that none can have";
static const char bad_value[] = "a header of the request has a control character in it";
static const char bad_first[] = "the first line of the request is malformed";

/* Where the next header must begin. */
struct head_walk {
    const char *at;
    bool has_places; /* the library leaves parts where they were */
    const char *flaw;
};

/* When it is told to (STRICTNESS in http_server.c). */
static bool is_checked_by_library(void)
{
    int major = 0, minor = 0, patch = 0;

    if (sscanf(MHD_get_version(), "%d.%d.%d", &major, &minor, &patch) != 3)
        return false;
    return major > 0 || minor > 9 || minor * 100 + patch >= STRICT_SINCE;
}

static bool is_name(const char *text)
{
    static const char chars[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return *text && strspn(text, chars) == strlen(text);
}

static bool has_control(const char *text, bool allows_tab)
{
    for (; *text; text++)
        if (((unsigned char) *text < ' ' && !(allows_tab && *text == '\t')) || *text == 0x7f)
            return true;
    return false;
}

/* "Name:", white space, the value, CR LF. */
static enum MHD_Result check_header(void *cookie, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct head_walk *walk = cookie;
    (void) kind;

    if (!is_name(name))
        walk->flaw = bad_name;
    else if (value && has_control(value, true))
        walk->flaw = bad_value;
    else if (walk->has_places) {
        const char *behind = name + strlen(name) + 1;

        value = value ? value : behind;
        if (name != walk->at || value < behind || strspn(behind, " \t") < (size_t) (value - behind))
            walk->flaw = bad_line;
        walk->at = value + strlen(value) + 2;
    }
    return walk->flaw ? MHD_NO : MHD_YES;
}

const char *request_head_flaw(struct MHD_Connection *connection, const char *verb, const char *url, const char *target,
                              const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head_walk walk = { .at = version + strlen(version) + 2, .has_places = !is_checked_by_library() };

    if (!is_name(verb) || has_control(target, false))
        return bad_first;
    if (walk.has_places && (!info || url != verb + strlen(verb) + 1 || version != url + strlen(target) + 1))
        return bad_first;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, check_header, &walk);
    /* Behind the last one is an empty line, and then the head is over. */
    if (!walk.flaw && walk.has_places && walk.at + 2 != verb + info->header_size)
        return bad_line;
    return walk.flaw;
}
