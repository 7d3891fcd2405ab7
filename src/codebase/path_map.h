/* Paths with a number each: a hash table that only grows. The keys are copied. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct path_slot {
    char *path; /* owned; NULL: free */
    int64_t value;
    size_t index; /* free for the owner of the map */
};

struct path_map {
    struct path_slot *slots; /* owned */
    size_t count, cap;
};

#define PATH_MAP_EMPTY ((struct path_map){ 0 })

void path_map_done(struct path_map *map);

/* The slot of a path, made with value 0 if there was none. Valid until the next path_map_add(). */
struct path_slot *path_map_add(struct path_map *map, const char *path);

/* NULL: none. `len` bytes of the path. */
struct path_slot *path_map_find(const struct path_map *map, const char *path, size_t len);
