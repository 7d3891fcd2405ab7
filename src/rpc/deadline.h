/* Deadlines, sorted in a heap so that the next one is found at once. A heap belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct deadline {
    int64_t at_ns; /* monotonic */
    size_t place;  /* in the heap, counted from 1; 0: in no heap */
    void *owner;
};

/* Zeroed is empty. */
struct deadline_heap {
    struct deadline **items; /* the array is owned, its items are borrowed */
    size_t count, cap;
};

void deadline_heap_done(struct deadline_heap *heap);

void deadline_add(struct deadline_heap *heap, struct deadline *deadline);
void deadline_remove(struct deadline_heap *heap, struct deadline *deadline); /* does nothing if it is in no heap */

/* NULL if the heap is empty. */
struct deadline *deadline_first(const struct deadline_heap *heap);
