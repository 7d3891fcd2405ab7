/*
 * A set of paths that finds the members at, above and beneath a path. The cost depends on the depth of the path, not on the
 * number of members.
 *
 * All paths are in the form of path_clean(). Either add them all, sort once, then search; or insert each one at its position,
 * which is cheap if they arrive nearly sorted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct path_set_item {
    char *path;     /* owned */
    size_t tag;     /* the smallest tag it was added with */
    size_t count;   /* how often it was added */
    bool is_marked; /* free for the caller */
};

struct path_set {
    struct path_set_item *items; /* owned */
    size_t count, cap;
};

#define PATH_SET_EMPTY ((struct path_set){ 0 })

void path_set_done(struct path_set *set);

void path_set_add(struct path_set *set, const char *path, size_t tag);
void path_set_sort(struct path_set *set);
void path_set_insert(struct path_set *set, const char *path);

/* Return NULL if there is none. If several members match, the one nearest to `path` is returned. */
struct path_set_item *path_set_at(const struct path_set *set, const char *path);
struct path_set_item *path_set_at_or_above(const struct path_set *set, const char *path);
struct path_set_item *path_set_above(const struct path_set *set, const char *path);

bool path_set_has_beneath(const struct path_set *set, const char *path); /* not `path` itself */
