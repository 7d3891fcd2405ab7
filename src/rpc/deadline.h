/* Moments at which something is due, the next one at hand: a heap. Belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct deadline {
    int64_t at_ns; /* monotonic */
    size_t place;  /* in the heap, counted from 1; 0: in none */
    void *owner;
};

/* Zeroed is empty. */
struct deadline_heap {
    struct deadline **items; /* the array is owned, what it holds is borrowed */
    size_t count, cap;
};

void deadline_heap_done(struct deadline_heap *heap);

void deadline_add(struct deadline_heap *heap, struct deadline *deadline);
void deadline_remove(struct deadline_heap *heap, struct deadline *deadline); /* also when it is in none */

/* NULL when there is none. */
struct deadline *deadline_first(const struct deadline_heap *heap);
