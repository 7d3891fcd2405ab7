#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *mem_or_abort(void *p)
{
    if (!p)
        abort();
    return p;
}

void *xalloc(size_t size_bytes)
{
    return mem_or_abort(calloc(1, size_bytes ? size_bytes : 1));
}

void *xgrow(void *p, size_t count, size_t each)
{
    size_t size;

    if (__builtin_mul_overflow(count, each, &size))
        abort();
    return mem_or_abort(realloc(p, size ? size : 1));
}

char *xdup(const char *s)
{
    return mem_or_abort(strdup(s));
}

char *xdupn(const void *bytes, size_t len)
{
    char *copy = mem_or_abort(malloc(len + 1));

    if (len)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

char *xprintf(const char *fmt, ...)
{
    va_list ap;
    char *s;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return s;
}
