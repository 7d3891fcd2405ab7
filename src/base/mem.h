/*
 * Small allocations, which abort when memory is gone: there is no useful answer to a failed malloc(40).
 * Sizes that a peer chose are bounded by the caller first, or allocated with plain malloc() and answered with -ENOMEM.
 */
#pragma once

#include <stddef.h>

void *xalloc(size_t size_bytes);                 /* zeroed */
void *xgrow(void *p, size_t count, size_t each); /* realloc of an array; checks the product */
char *xdup(const char *s);
char *xdupn(const void *bytes, size_t len); /* copies and ends with a NUL */
char *xprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define xnew(type) ((type *) xalloc(sizeof(type)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Makes room for one more element: vec_room(&v->items, &v->cap, v->count). Growth is geometric. */
#define vec_room(items, cap, count)                                                                                            \
    do {                                                                                                                       \
        if ((count) == *(cap)) {                                                                                               \
            *(cap) = *(cap) ? *(cap) *2 : 8;                                                                                   \
            *(items) = xgrow(*(items), *(cap), sizeof(**(items)));                                                             \
        }                                                                                                                      \
    } while (0)
