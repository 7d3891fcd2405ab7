#include "container_fixture.h"

#include <sched.h>

#include "container/seccomp_profile.h"
#include "runtime/seccomp.h"

/* Whether the profile refuses this call, as an engine would read it: a line refuses when all its comparisons hold. */
static int verdict(const json_t *profile, const char *name, const uint64_t args[6])
{
    const json_t *list = json_object_get(profile, "syscalls");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *line = json_array_get(list, i), *compares = json_object_get(line, "args");
        bool holds = strcmp(json_string_value(json_array_get(json_object_get(line, "names"), 0)), name) == 0;

        for (size_t j = 0; j < json_array_size(compares) && holds; j++) {
            const json_t *compare = json_array_get(compares, j);
            const char *op = response_string(compare, "op", "");
            uint64_t arg = args[response_number(compare, "index", 0)];
            uint64_t value = (uint64_t) response_number(compare, "value", 0),
                     two = (uint64_t) response_number(compare, "valueTwo", 0);

            holds = strcmp(op, "SCMP_CMP_MASKED_EQ") == 0 ? (arg & value) == two
                    : strcmp(op, "SCMP_CMP_GE") == 0      ? arg >= value
                                                          : arg != value;
        }
        if (holds)
            return (int) response_number(line, "errnoRet", -1);
    }
    return 0;
}

static void it_refuses_what_the_table_refuses(void **state)
{
    autoptr(json_t) profile = seccomp_profile_new();
    const uint64_t none[6] = { 0 };

    (void) state;
    assert_string_equal(response_string(profile, "defaultAction", ""), "SCMP_ACT_ALLOW");
    assert_int_equal(verdict(profile, "mount", none), EPERM);
    assert_int_equal(verdict(profile, "clone3", none), ENOSYS);
    assert_int_equal(verdict(profile, "read", none), 0);
    assert_int_equal(verdict(profile, "clone", none), 0);
    assert_int_equal(verdict(profile, "clone", (uint64_t[6]){ CLONE_NEWUSER }), EPERM);
    assert_int_equal(verdict(profile, "unshare", (uint64_t[6]){ CLONE_FS }), 0);
    assert_int_equal(verdict(profile, "unshare", (uint64_t[6]){ CLONE_NEWNS | CLONE_FS }), EPERM);
    assert_int_equal(verdict(profile, "personality", none), 0);
    assert_int_equal(verdict(profile, "personality", (uint64_t[6]){ 0xffffffff }), 0);
    assert_int_equal(verdict(profile, "personality", (uint64_t[6]){ 0x0040000 }), EPERM);
    assert_int_equal(verdict(profile, "socket", (uint64_t[6]){ AF_INET }), 0);
    assert_int_equal(verdict(profile, "socket", (uint64_t[6]){ AF_NETLINK, 3, 0 }), 0);
    assert_int_equal(verdict(profile, "socket", (uint64_t[6]){ AF_NETLINK, 3, 9 }), EAFNOSUPPORT);
    assert_int_equal(verdict(profile, "socket", (uint64_t[6]){ AF_PACKET }), EAFNOSUPPORT);
    assert_int_equal(verdict(profile, "socket", (uint64_t[6]){ 100 }), EAFNOSUPPORT);
}

static void every_row_of_the_table_is_in_it(void **state)
{
    autoptr(json_t) profile = seccomp_profile_new();
    autofree char *text = json_dumps(profile, JSON_COMPACT);
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);

    (void) state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        autofree char *name = xprintf("\"names\":[\"%s\"]", rules[i].name);

        assert_non_null(strstr(text, name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_refuses_what_the_table_refuses),
        cmocka_unit_test(every_row_of_the_table_is_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
