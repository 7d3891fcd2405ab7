#include "rest/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

#define BOUNDARY_MAX 70
#define PADDING_MAX 64 /* blanks behind a boundary */

enum state { BEFORE, HEADERS, DATA, AFTER };

struct multipart {
    const struct multipart_ops *ops;
    void *cookie;
    char delimiter[BOUNDARY_MAX + 5]; /* CR LF - - and the boundary */
    size_t delimiter_len;
    enum state state;
    struct buf held; /* what could not be judged yet */
};

/* The value of a parameter in "type; name=value; name=\"value\"", as a string to be freed. NULL: there is none, or it is malformed. */
static char *dup_parameter(const char *header, const char *name)
{
    const char *at = header + strcspn(header, ";");
    size_t name_len = strlen(name);

    while (*at == ';') {
        autodone(buf) struct buf value = BUF_EMPTY;

        at++;
        at += strspn(at, " \t");
        size_t key_len = strcspn(at, "=;");
        const char *key = at;
        at += key_len;
        if (*at != '=')
            continue;
        if (*++at == '"') {
            for (at++; *at && *at != '"'; at++) {
                at += at[0] == '\\' && (at[1] == '"' || at[1] == '\\');
                buf_add_char(&value, *at);
            }
            if (*at++ != '"')
                return NULL;
            at += strspn(at, " \t");
            if (*at && *at != ';')
                return NULL;
        } else {
            size_t len = strcspn(at, "; \t");
            buf_add(&value, at, len);
            at += len;
            at += strcspn(at, ";");
        }
        if (key_len == name_len && strncasecmp(key, name, name_len) == 0)
            return buf_dup_take(&value);
    }
    return NULL;
}

static bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);

    return strncasecmp(header, type, len) == 0 && (header[len] == ';' || header[len] == ' ' || header[len] == '\0');
}

int multipart_new(const char *content_type, const struct multipart_ops *ops, void *cookie, struct multipart **ret,
                  struct err *err)
{
    autofree char *boundary = is_type(content_type, "multipart/form-data") ? dup_parameter(content_type, "boundary") : NULL;
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+_,-./:=? ";

    if (!boundary || !*boundary || strlen(boundary) > BOUNDARY_MAX || strspn(boundary, allowed) != strlen(boundary))
        return err_invalid(err, "the form's content type has no boundary");
    struct multipart *multipart = xnew(struct multipart);
    multipart->ops = ops;
    multipart->cookie = cookie;
    multipart->delimiter_len = (size_t) snprintf(multipart->delimiter, sizeof(multipart->delimiter), "\r\n--%s", boundary);
    /* The first boundary may stand at the very beginning, with no line before it. */
    buf_add_str(&multipart->held, "\r\n");
    *ret = multipart;
    return 0;
}

void multipart_free(struct multipart *multipart)
{
    if (!multipart)
        return;
    buf_done(&multipart->held);
    free(multipart);
}

static void multipart_drop(struct multipart *multipart, size_t len)
{
    multipart->held.len -= len;
    memmove(multipart->held.data, multipart->held.data + len, multipart->held.len);
}

static int multipart_emit(struct multipart *multipart, size_t len, struct err *err)
{
    if (multipart->state != DATA || len == 0)
        return 0;
    return multipart->ops->data(multipart->cookie, multipart->held.data, len, err);
}

/* What follows a boundary: 1 another part, 2 the end, 0 cannot be told yet. `ret` is how long it is. */
static int after_boundary(const char *at, size_t len, size_t *ret, struct err *err)
{
    size_t blanks = 0;

    if (len >= 2 && at[0] == '-' && at[1] == '-') {
        *ret = 2;
        return 2;
    }
    while (blanks < len && (at[blanks] == ' ' || at[blanks] == '\t'))
        blanks++;
    if (blanks <= PADDING_MAX && len - blanks >= 2 && at[blanks] == '\r' && at[blanks + 1] == '\n') {
        *ret = blanks + 2;
        return 1;
    }
    if (blanks > PADDING_MAX || len - blanks >= 2 ||
        (len - blanks == 1 && at[blanks] != '\r' && !(blanks == 0 && at[0] == '-')))
        return err_invalid(err, "the form has a malformed boundary");
    return 0;
}

/* In data, or before it: up to the next boundary. 1 when there may be more to do. */
static int parse_data(struct multipart *multipart, struct err *err)
{
    struct buf *held = &multipart->held;
    const char *found = memmem(held->data, held->len, multipart->delimiter, multipart->delimiter_len);
    size_t len, skip = 0;
    int what = 0, r;

    if (found) {
        len = (size_t) (found - held->data);
        what = after_boundary(found + multipart->delimiter_len, held->len - len - multipart->delimiter_len, &skip, err);
        if (what < 0)
            return what;
    } else {
        len = held->len < multipart->delimiter_len ? 0 : held->len - multipart->delimiter_len + 1;
    }
    r = multipart_emit(multipart, len, err);
    if (r < 0 || what == 0) {
        multipart_drop(multipart, len);
        return r < 0 ? r : 0;
    }
    if (multipart->state == DATA) {
        r = multipart->ops->end(multipart->cookie, err);
        if (r < 0)
            return r;
    }
    /* The line's end stays, so that a part without headers is one with an empty line. */
    multipart_drop(multipart, len + multipart->delimiter_len + skip - (what == 1 ? 2 : 0));
    multipart->state = what == 1 ? HEADERS : AFTER;
    return 1;
}

/* "name: value" lines, each behind a CR LF. Only Content-Disposition matters. */
static int begin_part(struct multipart *multipart, char *headers, struct err *err)
{
    static const char wanted[] = "content-disposition:";
    autofree char *name = NULL, *filename = NULL;
    bool is_found = false;

    for (char *line = headers, *next; line; line = next) {
        next = strstr(line, "\r\n");
        if (next) {
            *next = '\0';
            next += 2;
        }
        if (strncasecmp(line, wanted, sizeof(wanted) - 1) != 0)
            continue;
        if (is_found)
            return err_invalid(err, "a part of the form has two dispositions");
        is_found = true;
        line += sizeof(wanted) - 1;
        line += strspn(line, " \t");
        if (!is_type(line, "form-data"))
            return err_invalid(err, "a part of the form is no form-data");
        name = dup_parameter(line, "name");
        filename = dup_parameter(line, "filename");
    }
    if (!name || !utf8_is_valid(name, strlen(name)) || (filename && !utf8_is_valid(filename, strlen(filename))))
        return err_invalid(err, "a part of the form has no name");
    return multipart->ops->begin(multipart->cookie, name, filename, err);
}

static int parse_headers(struct multipart *multipart, struct err *err)
{
    struct buf *held = &multipart->held;
    char *end = memmem(held->data, held->len, "\r\n\r\n", 4);
    size_t len = end ? (size_t) (end - held->data) : held->len;
    int r;

    if (len > MULTIPART_HEADERS_MAX)
        return err_invalid(err, "a part of the form has headers that are too long");
    if (!end)
        return 0;
    if (memchr(held->data, '\0', len))
        return err_invalid(err, "a part of the form has a NUL in its headers");
    autofree char *headers = xdupn(held->data, len);
    r = begin_part(multipart, headers, err);
    if (r < 0)
        return r;
    multipart_drop(multipart, len + 4);
    multipart->state = DATA;
    return 1;
}

int multipart_feed(struct multipart *multipart, const char *bytes, size_t len, struct err *err)
{
    int r = 1;

    if (multipart->state == AFTER)
        return 0;
    buf_add(&multipart->held, bytes, len);
    while (r > 0 && multipart->state != AFTER)
        r = multipart->state == HEADERS ? parse_headers(multipart, err) : parse_data(multipart, err);
    return r < 0 ? r : 0;
}

int multipart_finish(const struct multipart *multipart, struct err *err)
{
    return multipart->state == AFTER ? 0 : err_invalid(err, "the form ends too early");
}
