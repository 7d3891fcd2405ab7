#include "store/meta.h"

#include "fixture.h"

#include <unistd.h>

static void a_name_has_the_last_text(void **state)
{
    struct fixture *x = *state;
    autofree char *value = NULL, *later = NULL;

    must_fail(ERR_NOT_FOUND, meta_get(x->store, "a", &value, err));
    must(meta_set(x->store, "a", "1", err));
    must(meta_set(x->store, "a", "", err));
    reopen(x);
    must(meta_get(x->store, "a", &later, err));
    assert_string_equal(later, "");
}

static void what_is_kept_is_the_first(void **state)
{
    struct fixture *x = *state;
    autofree char *first = NULL, *second = NULL;

    must(meta_keep(x->store, "host", "one", &first, err));
    must(meta_keep(x->store, "host", "two", &second, err));
    assert_string_equal(first, "one");
    assert_string_equal(second, "one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_name_has_the_last_text),
        store_test(what_is_kept_is_the_first),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
