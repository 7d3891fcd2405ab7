/*
 * A list whose links are in its elements. `next` points at the next element, `slot` at the pointer that points at this element,
 * so adding and removing need no search. The head is a pointer, NULL for an empty list.
 */
#pragma once

/* Adds at `at`, which is the address of the head or of the `next` of the element to add behind. */
#define list_add(at, element)                                                                                                  \
    do {                                                                                                                       \
        (element)->slot = (at);                                                                                                \
        (element)->next = *(at);                                                                                               \
        if ((element)->next)                                                                                                   \
            (element)->next->slot = &(element)->next;                                                                          \
        *(at) = (element);                                                                                                     \
    } while (0)

#define list_remove(element)                                                                                                   \
    do {                                                                                                                       \
        *(element)->slot = (element)->next;                                                                                    \
        if ((element)->next)                                                                                                   \
            (element)->next->slot = (element)->slot;                                                                           \
    } while (0)
