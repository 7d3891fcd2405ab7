#include "review/file_id.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SANDBOX "9ba9b981-178f-4ada-a12b-93f664bf14f1"

static void an_id_is_that_of_any_other_maker_of_uuids(void **state)
{
    char id[FILE_ID_LEN + 1];

    (void) state;
    assert_int_equal(file_id_make(SANDBOX, "new-file.txt", id), 0);
    assert_string_equal(id, "83300d2c-bd63-51e4-853b-58b605352f6b");
    assert_int_equal(file_id_make("9BA9B981-178F-4ADA-A12B-93F664BF14F1", "new-file.txt", id), 0);
    assert_string_equal(id, "83300d2c-bd63-51e4-853b-58b605352f6b");
    /* RFC 4122's name space of domain names, as every other implementation has it. */
    assert_int_equal(file_id_make("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "python.org", id), 0);
    assert_string_equal(id, "886313e1-3b8a-5372-9b90-0c9aee199e5d");
}

static void a_sandboxs_id_is_as_good_as_its_uuid(void **state)
{
    char a[FILE_ID_LEN + 1], b[FILE_ID_LEN + 1];

    (void) state;
    assert_int_equal(file_id_make("ws_9ba9b981178f4adaa12b93f664bf14f1", "new-file.txt", a), 0);
    assert_string_equal(a, "83300d2c-bd63-51e4-853b-58b605352f6b");
    assert_int_equal(file_id_make("sb_0123456789abcdef", "a", a), 0);
    assert_int_equal(file_id_make("01234567-89ab-4cde-8f00-000000000000", "a", b), 0);
    assert_string_equal(a, b);
}

static void another_path_or_sandbox_is_another_id(void **state)
{
    char a[FILE_ID_LEN + 1], b[FILE_ID_LEN + 1];

    (void) state;
    assert_int_equal(file_id_make(SANDBOX, "a", a), 0);
    assert_int_equal(file_id_make(SANDBOX, "b", b), 0);
    assert_string_not_equal(a, b);
    assert_int_equal(file_id_make("9ba9b981-178f-4ada-a12b-93f664bf14f2", "a", b), 0);
    assert_string_not_equal(a, b);
}

static void what_is_no_uuid_is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "sb_0123456789abcde",
                                       "9ba9b981-178f-4ada-a12b-93f664bf14f",
                                       SANDBOX "0",
                                       "9ba9b981x178f-4ada-a12b-93f664bf14f1",
                                       "9ba9b981-178f-4ada-a12b-93f664bf14fg" };
    char id[FILE_ID_LEN + 1];

    (void) state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(file_id_make(bad[i], "a", id), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_that_of_any_other_maker_of_uuids),
        cmocka_unit_test(a_sandboxs_id_is_as_good_as_its_uuid),
        cmocka_unit_test(another_path_or_sandbox_is_another_id),
        cmocka_unit_test(what_is_no_uuid_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
