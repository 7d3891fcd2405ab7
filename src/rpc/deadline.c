#include "rpc/deadline.h"

#include <stdlib.h>

#include "base/mem.h"

void deadline_heap_done(struct deadline_heap *heap)
{
    free(heap->items);
    *heap = (struct deadline_heap){ 0 };
}

/* Places count from 1, so a parent's place is half its child's. */
static void deadline_put(struct deadline_heap *heap, size_t place, struct deadline *deadline)
{
    heap->items[place - 1] = deadline;
    deadline->place = place;
}

static void deadline_sift_up(struct deadline_heap *heap, struct deadline *deadline)
{
    size_t place = deadline->place;

    while (place > 1 && heap->items[place / 2 - 1]->at_ns > deadline->at_ns) {
        deadline_put(heap, place, heap->items[place / 2 - 1]);
        place /= 2;
    }
    deadline_put(heap, place, deadline);
}

static void deadline_sift_down(struct deadline_heap *heap, struct deadline *deadline)
{
    size_t place = deadline->place, child;

    while ((child = place * 2) <= heap->count) {
        if (child < heap->count && heap->items[child]->at_ns < heap->items[child - 1]->at_ns)
            child++;
        if (heap->items[child - 1]->at_ns >= deadline->at_ns)
            break;
        deadline_put(heap, place, heap->items[child - 1]);
        place = child;
    }
    deadline_put(heap, place, deadline);
}

void deadline_add(struct deadline_heap *heap, struct deadline *deadline)
{
    vec_room(&heap->items, &heap->cap, heap->count);
    deadline_put(heap, ++heap->count, deadline);
    deadline_sift_up(heap, deadline);
}

void deadline_remove(struct deadline_heap *heap, struct deadline *deadline)
{
    size_t place = deadline->place;

    if (place == 0)
        return;
    deadline->place = 0;
    struct deadline *last = heap->items[--heap->count];
    if (last == deadline)
        return;
    deadline_put(heap, place, last);
    deadline_sift_up(heap, last);
    deadline_sift_down(heap, last);
}

struct deadline *deadline_first(const struct deadline_heap *heap)
{
    return heap->count > 0 ? heap->items[0] : NULL;
}
