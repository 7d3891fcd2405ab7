/*
 * Paths among which those at, above and beneath another are found, by its depth and not by how many there are.
 *
 * All of them as path_clean() gives them. Either they are added, then sorted once, then asked for; or each is inserted at its place,
 * which is cheap where they come in about their order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct path_set_item {
    char *path;     /* owned */
    size_t tag;     /* the least that it was added with */
    size_t count;   /* how often it was added */
    bool is_marked; /* the caller's */
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

/* NULL: none. The one at or above a path, and those above another, come nearest first. */
struct path_set_item *path_set_at(const struct path_set *set, const char *path);
struct path_set_item *path_set_at_or_above(const struct path_set *set, const char *path);
struct path_set_item *path_set_above(const struct path_set *set, const char *path);

bool path_set_has_beneath(const struct path_set *set, const char *path); /* not the path itself */
