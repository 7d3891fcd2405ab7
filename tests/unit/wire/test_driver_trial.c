#include "wire/driver_trial.h"

#include "fixture.h"

static void parse(const char *text, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    memset(ret, 0, DRIVER_TRIAL_COUNT * sizeof(*ret));
    driver_trial_parse(text, strlen(text), ret);
}

static void each_line_is_of_a_driver(void **state)
{
    struct driver_trial trials[DRIVER_TRIAL_COUNT];

    (void) state;
    parse("copy\tyes\tby reference\nfence\tno\tit is closed\n", trials);
    assert_false(trials[driver_trial_index("fence")].works);
    assert_string_equal(trials[driver_trial_index("fence")].reason, "it is closed");
    assert_true(trials[driver_trial_index("copy")].works);
    assert_false(trials[driver_trial_index("overlayfs")].works);
    assert_string_equal(trials[driver_trial_index("overlayfs")].reason, "");
    assert_int_equal(driver_trial_index("none"), -1);
}

static void what_is_no_line_says_nothing(void **state)
{
    static const char *const texts[] = { "", "\n\n", "fence", "fence\tyes", "\t\t\t", "other\tyes\tx\n", "fenceyes\tx\ty" };
    struct driver_trial trials[DRIVER_TRIAL_COUNT];

    (void) state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        parse(texts[i], trials);
        for (size_t k = 0; k < DRIVER_TRIAL_COUNT; k++)
            assert_true(!trials[k].works && !*trials[k].reason);
    }
    driver_trial_parse("fence\tyes\t\0\n", 13, trials);
    assert_false(trials[0].works);
}

static void a_long_reason_is_cut(void **state)
{
    struct driver_trial trials[DRIVER_TRIAL_COUNT];
    char text[2048] = "fence\tyes\t";

    (void) state;
    memset(text + strlen(text), 'x', 1500);
    parse(text, trials);
    assert_true(trials[0].works);
    assert_int_equal(strlen(trials[0].reason), DRIVER_TRIAL_REASON_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_of_a_driver),
        cmocka_unit_test(what_is_no_line_says_nothing),
        cmocka_unit_test(a_long_reason_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
