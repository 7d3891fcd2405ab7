#include "base/path_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

void path_set_done(struct path_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->items[i].path);
    free(set->items);
    *set = PATH_SET_EMPTY;
}

void path_set_add(struct path_set *set, const char *path, size_t tag)
{
    vec_room(&set->items, &set->cap, set->count);
    set->items[set->count++] = (struct path_set_item){ .path = xdup(path), .tag = tag, .count = 1 };
}

static int by_path(const void *a, const void *b)
{
    const struct path_set_item *x = a, *y = b;
    int order = strcmp(x->path, y->path);

    return order ? order : (x->tag > y->tag) - (x->tag < y->tag);
}

void path_set_sort(struct path_set *set)
{
    size_t kept = 0;

    if (set->count == 0)
        return;
    qsort(set->items, set->count, sizeof(*set->items), by_path);
    for (size_t i = 1; i < set->count; i++) {
        if (strcmp(set->items[kept].path, set->items[i].path) == 0) {
            set->items[kept].count++;
            free(set->items[i].path);
        } else
            set->items[++kept] = set->items[i];
    }
    set->count = kept + 1;
}

/* Compares [path, path + len) with `other` like strcmp(). */
static int path_set_compare(const char *path, size_t len, const char *other)
{
    int order = strncmp(path, other, len);

    return order ? order : -(other[len] != '\0');
}

/* Returns the index of the first member that is not smaller. */
static size_t place_of(const struct path_set *set, const char *path, size_t len)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (path_set_compare(path, len, set->items[middle].path) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct path_set_item *path_set_find(const struct path_set *set, const char *path, size_t len)
{
    size_t place = place_of(set, path, len);

    return place < set->count && path_set_compare(path, len, set->items[place].path) == 0 ? &set->items[place] : NULL;
}

void path_set_insert(struct path_set *set, const char *path)
{
    size_t place = place_of(set, path, strlen(path));

    if (place < set->count && strcmp(set->items[place].path, path) == 0) {
        set->items[place].count++;
        return;
    }
    vec_room(&set->items, &set->cap, set->count);
    memmove(&set->items[place + 1], &set->items[place], (set->count - place) * sizeof(*set->items));
    set->items[place] = (struct path_set_item){ .path = xdup(path), .count = 1 };
    set->count++;
}

/* Returns the length of the parent directory's path, or 0 for the root. */
static size_t parent_len(const char *path, size_t len)
{
    if (len <= 1)
        return 0;
    while (path[len - 1] != '/')
        len--;
    return len > 1 ? len - 1 : 1;
}

static struct path_set_item *path_set_find_upwards(const struct path_set *set, const char *path, size_t len)
{
    struct path_set_item *item = NULL;

    for (; len > 0 && !item; len = parent_len(path, len))
        item = path_set_find(set, path, len);
    return item;
}

struct path_set_item *path_set_at(const struct path_set *set, const char *path)
{
    return path_set_find(set, path, strlen(path));
}

struct path_set_item *path_set_at_or_above(const struct path_set *set, const char *path)
{
    return path_set_find_upwards(set, path, strlen(path));
}

struct path_set_item *path_set_above(const struct path_set *set, const char *path)
{
    return path_set_find_upwards(set, path, parent_len(path, strlen(path)));
}

/* All members that begin with "path/" are adjacent. */
bool path_set_has_beneath(const struct path_set *set, const char *path)
{
    size_t len = strlen(path);
    autofree char *within = len > 1 ? xprintf("%s/", path) : xdup("/");
    size_t within_len = strlen(within), place = place_of(set, within, within_len);

    if (place < set->count && strcmp(set->items[place].path, path) == 0)
        place++;
    return place < set->count && strncmp(set->items[place].path, within, within_len) == 0;
}
