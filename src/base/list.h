/*
 * A list whose links are in its elements: `next`, and `slot`, which points at whatever points at the element, so that adding and removing
 * need no search. The head is a pointer, NULL when the list is empty.
 */
#pragma once

/* At `at`: the head, or the `next` of another element, behind which it is then. */
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
