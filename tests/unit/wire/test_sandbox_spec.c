#include "fixture.h"

#include "base/mem.h"
#include "wire/sandbox_spec.h"

/* One with every field set, to something no other field has. */
static struct sandbox_spec *full_spec(void)
{
    struct sandbox_spec *spec = xnew(struct sandbox_spec);

    *spec = (struct sandbox_spec){ .name = xdup("shop-1"),
                                   .base_path = xdup("/srv/shop"),
                                   .runtime = xdup("bwrap"),
                                   .hostname = xdup("agent"),
                                   .is_live = true,
                                   .own_cgroup = true,
                                   .net = SANDBOX_NET_HOST,
                                   .created_ns = 1,
                                   .quota_bytes = 2,
                                   .quota_inodes = 3,
                                   .memory_bytes = UINT64_MAX,
                                   .cpu_quota_us = 4,
                                   .cpu_shares = 5,
                                   .pids = UINT32_MAX,
                                   .tmp_bytes = 6 };
    sandbox_spec_add_rule(spec, "**", 1, 2, 0);
    sandbox_spec_add_rule(spec, "/.env", 3, 0, -7);
    sandbox_spec_add_mount(spec, "/usr", "/usr", true);
    sandbox_spec_add_mount(spec, "/cache", "/home/agent/.cache", false);
    sandbox_spec_add_env(spec, "LANG=C");
    sandbox_spec_add_env(spec, "EMPTY=");
    return spec;
}

static void every_field_survives_the_way(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) got = NULL;
    autodone(buf) struct buf bytes = BUF_EMPTY, again = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_encode(spec, &bytes);
    assert_int_equal(sandbox_spec_decode(bytes.data, bytes.len, &got, &err), 0);
    assert_string_equal(got->name, "shop-1");
    assert_string_equal(got->base_path, "/srv/shop");
    assert_string_equal(got->runtime, "bwrap");
    assert_string_equal(got->hostname, "agent");
    assert_true(got->is_live && got->own_cgroup && got->net == SANDBOX_NET_HOST);
    assert_true(got->created_ns == 1 && got->quota_bytes == 2 && got->quota_inodes == 3);
    assert_true(got->memory_bytes == UINT64_MAX && got->cpu_quota_us == 4 && got->cpu_shares == 5);
    assert_true(got->pids == UINT32_MAX && got->tmp_bytes == 6);
    assert_true(got->rule_count == 2 && got->mount_count == 2 && got->env_count == 2);
    assert_string_equal(got->rules[1].pattern, "/.env");
    assert_true(got->rules[1].type == 3 && got->rules[1].level == 0 && got->rules[1].priority == -7);
    assert_string_equal(got->mounts[1].src, "/cache");
    assert_string_equal(got->mounts[1].dst, "/home/agent/.cache");
    assert_true(got->mounts[0].read_only && !got->mounts[1].read_only);
    assert_string_equal(got->env[0], "LANG=C");
    assert_string_equal(got->env[1], "EMPTY=");
    sandbox_spec_encode(got, &again);
    assert_int_equal(again.len, bytes.len);
    assert_memory_equal(again.data, bytes.data, bytes.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
