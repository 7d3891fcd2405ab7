#include "fixture.h"

#include "base/sandbox_id.h"

static void both_spellings_lead_to_each_other(void **state)
{
    static const struct {
        const char *id, *uuid;
    } cases[] = {
        { "sb_0123456789abcdef", "01234567-89ab-4cde-8f00-000000000000" },
        { "sb_ffffffffffffffff", "ffffffff-ffff-4fff-8f00-000000000000" },
        { "ws_83300d2cbd6341e4853b58b605352f6b", "83300d2c-bd63-41e4-853b-58b605352f6b" },
        { "ws_0123456789ab4cde8f00000000000001", "01234567-89ab-4cde-8f00-000000000001" },
        { "ws_0123456789ab4cde9f00000000000000", "01234567-89ab-4cde-9f00-000000000000" },
    };
    char id[SANDBOX_ID_MAX], uuid[UUID_TEXT_MAX];
    (void) state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        sandbox_id_to_uuid(cases[i].id, uuid);
        assert_string_equal(uuid, cases[i].uuid);
        assert_int_equal(sandbox_id_parse(uuid, id), 0);
        assert_string_equal(id, cases[i].id);
        assert_int_equal(sandbox_id_parse(cases[i].id, id), 0);
        assert_string_equal(id, cases[i].id);
    }
    assert_int_equal(sandbox_id_parse("{01234567-89AB-4CDE-8F00-000000000000}", id), 0);
    assert_string_equal(id, "sb_0123456789abcdef");
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

static void what_is_none_is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "sb_",
                                       "sb_0123456789abcde",
                                       "sb_0123456789abcdef0",
                                       "sb_0123456789ABCDEF",
                                       "ws_0123456789abcdef",
                                       "ws_83300d2c-bd63-41e4-853b-58b605352f6b",
                                       "cb_0123456789abcdef",
                                       "01234567-89ab-4cde-8f00-00000000000" };
    char id[SANDBOX_ID_MAX], uuid[UUID_TEXT_MAX];
    (void) state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(sandbox_id_parse(bad[i], id), -EINVAL);
        assert_false(sandbox_id_is_valid(bad[i]));
        sandbox_id_to_uuid(bad[i], uuid);
        assert_string_equal(uuid, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings_lead_to_each_other),
        cmocka_unit_test(every_new_one_comes_back_from_its_uuid),
        cmocka_unit_test(what_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
