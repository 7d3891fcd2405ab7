#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/deadline.h"

#define COUNT 2000

/* Against a plain search for the smallest, with removals from the middle. */
static void the_first_is_always_the_next(void **state)
{
    struct deadline_heap heap = { 0 };
    struct deadline *all = calloc(COUNT, sizeof(*all));
    size_t there = 0;
    (void) state;

    srand(7);
    assert_null(deadline_first(&heap));
    for (int step = 0; step < 20000; step++) {
        struct deadline *one = &all[rand() % COUNT];
        if (one->place == 0) {
            one->at_ns = rand() % 500;
            deadline_add(&heap, one);
            there++;
        } else {
            deadline_remove(&heap, one);
            there--;
        }
        assert_int_equal(heap.count, there);
        if (step % 50 == 0 && there > 0) {
            int64_t least = INT64_MAX;
            for (size_t i = 0; i < COUNT; i++)
                least = all[i].place && all[i].at_ns < least ? all[i].at_ns : least;
            assert_int_equal(deadline_first(&heap)->at_ns, least);
        }
    }
    for (int64_t last = 0; deadline_first(&heap); there--) {
        struct deadline *first = deadline_first(&heap);
        assert_true(first->at_ns >= last);
        last = first->at_ns;
        deadline_remove(&heap, first);
        deadline_remove(&heap, first); /* in vain */
    }
    assert_int_equal(there, 0);
    deadline_heap_done(&heap);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_first_is_always_the_next) };
    return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
