#include "sandbox/sandbox_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/mem.h"

static const char *const pairs[][2] = {
    { "sb_0123456789abcdef", "01234567-89ab-4cde-8f00-000000000000" },
    { "sb_0000000000000000", "00000000-0000-4000-8000-000000000000" },
    { "sb_ffffffffffffffff", "ffffffff-ffff-4fff-8f00-000000000000" },
    { "ws_83300d2cbd6341e4853b58b605352f6b", "83300d2c-bd63-41e4-853b-58b605352f6b" },
    { "ws_0123456789ab4cde8f00000000000001", "01234567-89ab-4cde-8f00-000000000001" },
    { "ws_0123456789ab4cde9f00000000000000", "01234567-89ab-4cde-9f00-000000000000" },
};

static void an_id_and_its_uuid_name_the_same(void **state)
{
    char uuid[UUID_TEXT_MAX], id[SANDBOX_ID_MAX];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        sandbox_id_to_uuid(pairs[i][0], uuid);
        assert_string_equal(uuid, pairs[i][1]);
        assert_int_equal(sandbox_id_parse(uuid, id), 0);
        assert_string_equal(id, pairs[i][0]);
        assert_int_equal(sandbox_id_parse(pairs[i][0], id), 0);
        assert_string_equal(id, pairs[i][0]);
    }
}

static void every_new_one_comes_back_from_its_uuid(void **state)
{
    char made[SANDBOX_ID_MAX], uuid[UUID_TEXT_MAX], id[SANDBOX_ID_MAX];

    (void) state;
    for (int i = 0; i < 1000; i++) {
        sandbox_id_new(made);
        assert_true(sandbox_id_is_valid(made));
        sandbox_id_to_uuid(made, uuid);
        assert_int_equal(sandbox_id_parse(uuid, id), 0);
        assert_string_equal(id, made);
    }
}

static void uuids_are_read_however_they_are_spelled(void **state)
{
    char id[SANDBOX_ID_MAX];

    (void) state;
    assert_int_equal(sandbox_id_parse("{01234567-89AB-4CDE-8F00-000000000000}", id), 0);
    assert_string_equal(id, "sb_0123456789abcdef");
    assert_int_equal(sandbox_id_parse("0123456789ab4cde8f00000000000000", id), 0);
    assert_string_equal(id, "sb_0123456789abcdef");
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {
        "", "sb_", "sb_0123456789ABCDEF", "sb_0123456789abcde", "shop", "01234567-89ab-4cde-8f00"
    };
    char id[SANDBOX_ID_MAX] = "untouched";

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(sandbox_id_parse(texts[i], id), -EINVAL);
    assert_string_equal(id, "untouched");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_and_its_uuid_name_the_same),
        cmocka_unit_test(every_new_one_comes_back_from_its_uuid),
        cmocka_unit_test(uuids_are_read_however_they_are_spelled),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
