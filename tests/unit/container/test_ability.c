#include "container_fixture.h"

#include "container/ability.h"

static void what_an_engine_does_not_say_it_cannot(void **state)
{
    autoptr(json_t) info =
                json_loads("{\"MemoryLimit\":true,\"SwapLimit\":1,\"PidsLimit\":\"true\",\"CPUShares\":true}", 0, NULL);
    struct ability ability;

    (void) state;
    ability_read(info, &ability);
    assert_true(ability.memory && ability.cpu_shares && !ability.swap && !ability.pids && !ability.cpu_quota);
    ability_read(NULL, &ability);
    assert_true(!ability.memory && !ability.cpu_shares);
}

static void a_limit_that_cannot_be_set_is_refused_if_it_was_asked_for(void **state)
{
    const struct ability none = { 0 }, all = { true, true, true, true, true };
    const struct {
        struct runtime_limits limits;
        const char *text;
    } cases[] = {
        { { .memory_bytes = 1 << 30 }, "a memory limit cannot be enforced here: the Docker engine cannot set one" },
        { { .cpu_quota_us = 50000 }, "a cpu limit cannot be enforced here: the Docker engine cannot set one" },
        { { .cpu_shares = 512 }, "a cpu limit cannot be enforced here: the Docker engine cannot set one" },
        { { .pids = 50 }, "a pids limit cannot be enforced here: the Docker engine cannot set one" },
    };

    (void) state;
    for (size_t i = 0; i < count_of(cases); i++) {
        struct err err = ERR_NONE;

        assert_int_equal(ability_check(&none, &cases[i].limits, &err), -ENOTSUP);
        assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(ability_check(&all, &cases[i].limits, &err), 0);
    }
    assert_int_equal(ability_check(&none, &(struct runtime_limits){ 0 }, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_engine_does_not_say_it_cannot),
        cmocka_unit_test(a_limit_that_cannot_be_set_is_refused_if_it_was_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
