#include "service/sandbox_info.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void pair_list_add(struct pair_list *list, const char *key, const char *value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].key, key) == 0) {
            free(list->items[i].value);
            list->items[i].value = xdup(value);
            return;
        }
    }
    list->items = xgrow(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = (struct pair){ .key = xdup(key), .value = xdup(value) };
}

void pair_list_done(struct pair_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].value);
    }
    free(list->items);
    *list = PAIR_LIST_EMPTY;
}
