/*
 * Ownership of local variables, visible in their declaration.
 *
 *     autofree char *name = NULL;
 *     autofd int fd = -1;
 *     autoptr(ruleset) rules = NULL;
 *
 * When such a variable goes out of scope, its object is released. Only steal_ptr() and steal_fd() transfer ownership; they
 * reset the variable. A type gets its autoptr() from DEFINE_AUTOPTR(type, destructor) beside its declaration; the destructor
 * must accept NULL.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define autofree __attribute__((cleanup(cleanup_free)))
#define autofd __attribute__((cleanup(cleanup_fd)))
#define autofile __attribute__((cleanup(cleanup_file)))
#define autoptr(type) __attribute__((cleanup(cleanup_##type))) struct type *

#define DEFINE_AUTOPTR(type, destructor)                                                                                       \
    static inline void cleanup_##type(struct type **p)                                                                         \
    {                                                                                                                          \
        destructor(*p);                                                                                                        \
    }                                                                                                                          \
    struct type

/* For objects in the caller's memory (init/done): autodone(buf) struct buf out = BUF_EMPTY; */
#define autodone(type) __attribute__((cleanup(type##_done)))

static inline void cleanup_free(void *p)
{
    free(*(void **) p);
}

static inline void cleanup_fd(int *fd)
{
    /* A destructor must not change the errno that the enclosing function is about to report. */
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}

static inline void cleanup_file(FILE **f)
{
    if (*f) {
        int saved = errno;
        fclose(*f);
        errno = saved;
    }
}

#define steal_ptr(p)                                                                                                           \
    __extension__({                                                                                                            \
        __typeof__(p) steal_from = (p);                                                                                        \
        __typeof__(*steal_from) stolen = *steal_from;                                                                          \
        *steal_from = NULL;                                                                                                    \
        stolen;                                                                                                                \
    })

static inline int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}
