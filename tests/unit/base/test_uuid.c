#include "fixture.h"

#include "base/uuid.h"

static void what_people_write_is_taken(void **state)
{
    static const char plain[] = "83300d2c-bd63-51e4-853b-58b605352f6b";
    static const char *const good[] = { plain, "83300D2C-BD63-51E4-853B-58B605352F6B", "{83300d2c-bd63-51e4-853b-58b605352f6b}",
                                        "urn:uuid:83300d2c-bd63-51e4-853b-58b605352f6b", "83300d2cbd6351e4853b58b605352f6b" };
    static const char *const bad[] = { "",
                                       "x",
                                       "83300d2c-bd63-51e4-853b-58b605352f6",
                                       "83300d2c-bd63-51e4-853b58b6-05352f6b",
                                       "g3300d2c-bd63-51e4-853b-58b605352f6b",
                                       "{83300d2c-bd63-51e4-853b-58b605352f6b",
                                       "83300d2c-bd63-51e4-853b-58b605352f6b " };
    char out[UUID_TEXT_MAX];
    (void) state;

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(uuid_parse(good[i], out), 0);
        assert_string_equal(out, plain);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(uuid_parse(bad[i], out), -EINVAL);
}

static void a_new_one_is_of_version_4(void **state)
{
    char a[UUID_TEXT_MAX], b[UUID_TEXT_MAX], out[UUID_TEXT_MAX];
    (void) state;

    uuid_new(a);
    uuid_new(b);
    assert_string_not_equal(a, b);
    assert_int_equal(uuid_parse(a, out), 0);
    assert_string_equal(a, out);
    assert_int_equal(a[14], '4');
}

static void a_beginning_is_hexadecimal_and_not_longer_than_one(void **state)
{
    (void) state;

    assert_true(uuid_may_begin("8"));
    assert_true(uuid_may_begin("83300D2c-bd"));
    assert_true(uuid_may_begin("83300d2c-bd63-51e4-853b-58b605352f6b"));
    assert_false(uuid_may_begin(""));
    assert_false(uuid_may_begin("fig"));
    assert_false(uuid_may_begin("83300d2c-bd63-51e4-853b-58b605352f6b0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_people_write_is_taken),
        cmocka_unit_test(a_new_one_is_of_version_4),
        cmocka_unit_test(a_beginning_is_hexadecimal_and_not_longer_than_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
