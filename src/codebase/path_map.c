#include "codebase/path_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void path_map_done(struct path_map *map)
{
    for (size_t i = 0; i < map->cap; i++)
        free(map->slots[i].path);
    free(map->slots);
    *map = PATH_MAP_EMPTY;
}

/* FNV-1a. Whoever chooses paths to collide slows their own transaction. */
static size_t hash_of(const char *path, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char) path[i]) * 0x100000001b3u;
    return (size_t) (h ^ (h >> 32));
}

static struct path_slot *probe_slot(const struct path_map *map, const char *path, size_t len)
{
    size_t mask = map->cap - 1;

    for (size_t i = hash_of(path, len) & mask;; i = (i + 1) & mask) {
        struct path_slot *slot = &map->slots[i];

        if (!slot->path || (strncmp(slot->path, path, len) == 0 && slot->path[len] == 0))
            return slot;
    }
}

struct path_slot *path_map_find(const struct path_map *map, const char *path, size_t len)
{
    struct path_slot *slot = map->cap ? probe_slot(map, path, len) : NULL;

    return slot && slot->path ? slot : NULL;
}

static void grow_slots(struct path_map *map)
{
    struct path_map larger = { .cap = map->cap ? map->cap * 2 : 64, .count = map->count };

    larger.slots = xgrow(NULL, larger.cap, sizeof(*larger.slots));
    memset(larger.slots, 0, larger.cap * sizeof(*larger.slots));
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].path)
            *probe_slot(&larger, map->slots[i].path, strlen(map->slots[i].path)) = map->slots[i];
    free(map->slots);
    *map = larger;
}

struct path_slot *path_map_add(struct path_map *map, const char *path)
{
    struct path_slot *slot;

    if ((map->count + 1) * 2 > map->cap)
        grow_slots(map);
    slot = probe_slot(map, path, strlen(path));
    if (!slot->path) {
        *slot = (struct path_slot){ .path = xdup(path) };
        map->count++;
    }
    return slot;
}
