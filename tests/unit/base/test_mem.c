#include "fixture.h"

#include "base/cleanup.h"
#include "base/mem.h"

static void memory_is_zeroed_and_never_null(void **state)
{
    autofree unsigned char *p = xalloc(4096);
    autofree void *nothing = xalloc(0);

    (void) state;
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(p[i], 0);
    assert_non_null(nothing);
}

static void copies_end_with_a_nul_and_keep_those_inside(void **state)
{
    autofree char *copy = xdupn("a\0b", 3);
    autofree char *empty = xdupn(NULL, 0);

    (void) state;
    assert_memory_equal(copy, "a\0b\0", 4);
    assert_string_equal(empty, "");
}

static void formatted_text_is_as_long_as_it_needs(void **state)
{
    autofree char *s = xprintf("%0*d", 5000, 7);

    (void) state;
    assert_int_equal(strlen(s), 5000);
    assert_int_equal(s[4999], '7');
}

static void a_vector_keeps_its_elements_as_it_grows(void **state)
{
    autofree size_t *items = NULL;
    size_t cap = 0, count = 0;

    (void) state;
    while (count < 10000) {
        vec_room(&items, &cap, count);
        items[count] = count;
        count++;
    }
    for (size_t i = 0; i < count; i++)
        assert_int_equal(items[i], i);
    assert_true(cap >= count && cap < 4 * count);
}

static int grow_too_far(void *arg)
{
    (void) arg;
    free(xgrow(NULL, SIZE_MAX / 2, 3));
    return 0;
}

static void a_product_that_overflows_aborts_instead_of_shrinking(void **state)
{
    (void) state;
    assert_int_equal(in_child(grow_too_far, NULL), 128 + SIGABRT);
}

static void ownership_leaves_only_once(void **state)
{
    char *p = xdup("x");
    int fd = dup(2);
    autofree char *q = steal_ptr(&p);
    autofd int other = steal_fd(&fd);

    (void) state;
    assert_null(p);
    assert_int_equal(fd, -1);
    assert_string_equal(q, "x");
    assert_true(other >= 0);
}

static void a_destructor_keeps_errno(void **state)
{
    (void) state;
    errno = ERANGE;
    {
        autofd int closed_already = 1 << 20;
        (void) closed_already;
    }
    assert_int_equal(errno, ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_never_null),
        cmocka_unit_test(copies_end_with_a_nul_and_keep_those_inside),
        cmocka_unit_test(formatted_text_is_as_long_as_it_needs),
        cmocka_unit_test(a_vector_keeps_its_elements_as_it_grows),
        cmocka_unit_test(a_product_that_overflows_aborts_instead_of_shrinking),
        cmocka_unit_test(ownership_leaves_only_once),
        cmocka_unit_test(a_destructor_keeps_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
