#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "service/profile.h"

static struct profile make(const char *id)
{
    return (struct profile){ .id = xdup(id), .name = xdup(""), .description = xdup(""), .hostname = xdup("") };
}

static void a_bind_is_where_it_says(void **state)
{
    autodone(profile) struct profile profile = make("x");
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    struct err err = ERR_NONE;

    (void) state;
    setenv("HOME", "/usr", 1);
    pair_list_add(&profile.read_only, "$HOME/bin", "/opt//x/./bin/");
    pair_list_add(&profile.read_write, "/tmp", "/data");
    assert_int_equal(profile_apply(&profile, false, spec, &err), 0);
    assert_int_equal(spec->mount_count, 2);
    assert_string_equal(spec->mounts[0].src, "/usr/bin");
    assert_string_equal(spec->mounts[0].dst, "/opt/x/bin");
    assert_true(spec->mounts[0].read_only && !spec->mounts[1].read_only);
}

static void what_is_not_there_is_refused_unless_built_in(void **state)
{
    autodone(profile) struct profile profile = make("x");
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    struct err err = ERR_NONE;

    (void) state;
    pair_list_add(&profile.read_only, "/no/such/place", "/opt/x");
    assert_int_equal(profile_apply(&profile, false, spec, &err), -ENOENT);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    profile.is_builtin = true;
    assert_int_equal(profile_apply(&profile, false, spec, &err), 0);
    assert_int_equal(spec->mount_count, 0);
}

static void places_of_the_sandbox_are_not_bound_over(void **state)
{
    static const char *const places[] = { "/",        "/workspace", "/workspace/x", "/x/../etc/passwd",
                                          "/usr/bin", "/proc/1",    "relative",     "" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        autodone(profile) struct profile profile = make("x");
        struct err err = ERR_NONE;

        pair_list_add(&profile.read_write, "/tmp", places[i]);
        assert_int_equal(profile_check(&profile, &err), -EINVAL);
    }
}

static void a_network_is_given_only_where_it_is_allowed(void **state)
{
    autodone(profile) struct profile profile = make("x");
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    struct err err = ERR_NONE;

    (void) state;
    profile.network = PROFILE_NETWORK_FULL;
    assert_int_equal(profile_apply(&profile, false, spec, &err), -EPERM);
    assert_int_equal(profile_apply(&profile, true, spec, &err), 0);
    assert_int_equal(spec->net, SANDBOX_NET_HOST);
    profile.network = PROFILE_NETWORK_LOCALHOST;
    assert_int_equal(profile_check(&profile, &err), -EINVAL);
}

static void variables_of_the_server_are_put_in(void **state)
{
    autodone(profile) struct profile profile = make("x");
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);

    (void) state;
    setenv("PROFILE_TEST", "value", 1);
    unsetenv("PROFILE_NONE");
    pair_list_add(&profile.environment, "A", "<$PROFILE_TEST>$PROFILE_NONE$");
    assert_int_equal(profile_expand_env(&profile, spec), 0);
    assert_string_equal(spec->env[0], "A=<value>$");
}

static void alike_is_network_mounts_and_name(void **state)
{
    autoptr(sandbox_spec) a = xnew(struct sandbox_spec);
    autoptr(sandbox_spec) b = xnew(struct sandbox_spec);

    (void) state;
    a->hostname = xdup("");
    assert_true(profile_confines_like(a, b));
    sandbox_spec_add_env(a, "X=1");
    assert_true(profile_confines_like(a, b));
    sandbox_spec_add_mount(a, "/a", "/b", true);
    assert_false(profile_confines_like(a, b));
    sandbox_spec_add_mount(b, "/a", "/b", false);
    assert_false(profile_confines_like(a, b));
    b->mounts[0].read_only = true;
    assert_true(profile_confines_like(a, b));
    b->net = SANDBOX_NET_HOST;
    assert_false(profile_confines_like(a, b));
}

static void limits_are_the_default_and_no_more_than_the_most(void **state)
{
    const struct execution_config config = { .defaults = { .memory_mb = 10 },
                                             .maxima = { .memory_mb = 20, .timeout_sec = 60 } };
    struct execution_limits got;

    (void) state;
    execution_config_clamp(&config, &(struct execution_limits){ 0 }, &got);
    assert_true(got.memory_mb == 10 && got.cpu_sec == 0 && got.timeout_sec == 60);
    execution_config_clamp(&config, &(struct execution_limits){ .memory_mb = 15, .cpu_sec = 99, .timeout_sec = 5 }, &got);
    assert_true(got.memory_mb == 15 && got.cpu_sec == 99 && got.timeout_sec == 5);
    execution_config_clamp(&config, &(struct execution_limits){ .memory_mb = 25, .timeout_sec = 100 }, &got);
    assert_true(got.memory_mb == 20 && got.timeout_sec == 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bind_is_where_it_says),
        cmocka_unit_test(what_is_not_there_is_refused_unless_built_in),
        cmocka_unit_test(places_of_the_sandbox_are_not_bound_over),
        cmocka_unit_test(a_network_is_given_only_where_it_is_allowed),
        cmocka_unit_test(variables_of_the_server_are_put_in),
        cmocka_unit_test(alike_is_network_mounts_and_name),
        cmocka_unit_test(limits_are_the_default_and_no_more_than_the_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
