#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

static const struct {
    const char *name;
    int http_status;
} codes[] = {
    [ERR_OK] = { "OK", 200 },
    [ERR_CANCELLED] = { "CANCELLED", 499 },
    [ERR_UNKNOWN] = { "UNKNOWN", 500 },
    [ERR_INVALID_ARGUMENT] = { "INVALID_ARGUMENT", 400 },
    [ERR_DEADLINE_EXCEEDED] = { "DEADLINE_EXCEEDED", 504 },
    [ERR_NOT_FOUND] = { "NOT_FOUND", 404 },
    [ERR_ALREADY_EXISTS] = { "ALREADY_EXISTS", 409 },
    [ERR_PERMISSION_DENIED] = { "PERMISSION_DENIED", 403 },
    [ERR_RESOURCE_EXHAUSTED] = { "RESOURCE_EXHAUSTED", 429 },
    [ERR_FAILED_PRECONDITION] = { "FAILED_PRECONDITION", 400 },
    [ERR_ABORTED] = { "ABORTED", 409 },
    [ERR_OUT_OF_RANGE] = { "OUT_OF_RANGE", 400 },
    [ERR_UNIMPLEMENTED] = { "UNIMPLEMENTED", 501 },
    [ERR_INTERNAL] = { "INTERNAL", 500 },
    [ERR_UNAVAILABLE] = { "UNAVAILABLE", 503 },
    [ERR_DATA_LOSS] = { "DATA_LOSS", 500 },
    [ERR_UNAUTHENTICATED] = { "UNAUTHENTICATED", 401 },
};

#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

const char *err_code_name(enum err_code code)
{
    return (size_t) code < CODE_COUNT ? codes[code].name : "UNKNOWN";
}

int err_code_http_status(enum err_code code)
{
    return (size_t) code < CODE_COUNT ? codes[code].http_status : 500;
}

bool err_errno_is_exhaustion(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOBUFS;
}

bool err_is_transient(const struct err *err)
{
    return err->code == ERR_RESOURCE_EXHAUSTED || err->code == ERR_UNAVAILABLE;
}

enum err_code err_code_of_errno(int r)
{
    switch (-r) {
    case 0:
        return ERR_OK;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case E2BIG:
    case EXDEV: /* path.h's answer to a path that leaves its root */
        return ERR_INVALID_ARGUMENT;
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return ERR_RESOURCE_EXHAUSTED;
    case EBUSY:
    case ENOTEMPTY:
        return ERR_FAILED_PRECONDITION;
    case ESTALE: /* the object was replaced while it was in use */
        return ERR_ABORTED;
    case ETIMEDOUT:
        return ERR_DEADLINE_EXCEEDED;
    case ECANCELED:
        return ERR_CANCELLED;
    case ENOSYS:
    case EOPNOTSUPP:
        return ERR_UNIMPLEMENTED;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
        return ERR_UNAVAILABLE;
    default:
        return ERR_INTERNAL;
    }
}

/* A text that was cut must not end in the middle of a character: protobuf and JSON accept only valid UTF-8. */
static void drop_half_character(char text[ERR_TEXT_MAX])
{
    size_t len = strlen(text), head = len;

    while (head > 0 && len - head < 3 && (text[head - 1] & 0xC0) == 0x80)
        head--;
    if (head > 0 && (text[head - 1] & 0x80) && !utf8_is_valid(text + head - 1, len - head + 1))
        text[head - 1] = '\0';
}

int err_set(struct err *err, enum err_code code, int r, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return r;
    err->code = code;
    err->reason = NULL;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    drop_half_character(err->text);
    return r;
}

int err_invalid(struct err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -EINVAL;
    err->code = ERR_INVALID_ARGUMENT;
    err->reason = NULL;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    drop_half_character(err->text);
    return -EINVAL;
}

int err_errno(struct err *err, int r, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (!err)
        return r;
    err->code = err_code_of_errno(r);
    err->reason = NULL;
    va_start(ap, fmt);
    n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t) n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t) n, ": %s", strerror(-r));
    drop_half_character(err->text);
    return r;
}

int err_set_reason(struct err *err, int r, const char *reason)
{
    if (err)
        err->reason = reason;
    return r;
}

int err_reject(struct err *err, int r, const char *text, const char *why)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_char(&shown, '\'');
    buf_add_excerpt(&shown, text, strlen(text));
    return err_set(err, ERR_INVALID_ARGUMENT, r, "%s' %s", shown.data, why);
}

int err_wrap(struct err *err, int r, const char *fmt, ...)
{
    char inner[ERR_TEXT_MAX];
    va_list ap;
    int n;

    if (!err)
        return r;
    memcpy(inner, err->text, sizeof(inner));
    if (err->code == ERR_OK)
        err->code = err_code_of_errno(r);
    va_start(ap, fmt);
    n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t) n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t) n, ": %s", inner[0] ? inner : strerror(-r));
    drop_half_character(err->text);
    return r;
}
