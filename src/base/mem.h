/*
 * Small allocations. They abort if memory runs out: no caller has a useful answer to a failed malloc(40).
 *
 * Callers bound sizes that a peer chose first, or use plain malloc() and return -ENOMEM.
 */
#pragma once

#include <stddef.h>

void *xalloc(size_t size_bytes);                 /* zeroed */
void *xgrow(void *p, size_t count, size_t each); /* reallocates an array; aborts if count * each overflows */
char *xdup(const char *s);
char *xdupn(const void *bytes, size_t len); /* copies and appends a NUL */
char *xprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define xnew(type) ((type *) xalloc(sizeof(type)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Grows an array so that one more element fits: vec_room(&v->items, &v->cap, v->count). Doubles its capacity. */
#define vec_room(items, cap, count)                                                                                            \
    do {                                                                                                                       \
        if ((count) == *(cap)) {                                                                                               \
            *(cap) = *(cap) ? *(cap) *2 : 8;                                                                                   \
            *(items) = xgrow(*(items), *(cap), sizeof(**(items)));                                                             \
        }                                                                                                                      \
    } while (0)
