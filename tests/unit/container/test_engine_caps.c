#include "container_fixture.h"

#include "container/create_body.h"
#include "container/engine_caps.h"

/* What engines say of themselves, as far as it matters here. The first and the last are as they came from an engine; those between differ
 * from them as hosts do. */
static const struct recorded {
    const char *where, *info;
    bool memory, swap, cpu, pids;
} recorded[] = {
    { "20.10, cgroup v1, cgroupfs",
      "{\"MemoryLimit\":true,\"SwapLimit\":true,\"KernelMemory\":true,\"KernelMemoryTCP\":true,\"CpuCfsPeriod\":true,"
      "\"CpuCfsQuota\":true,\"CPUShares\":true,\"CPUSet\":true,\"PidsLimit\":true,\"OomKillDisable\":true,\"CgroupDriver\":"
      "\"cgroupfs\",\"CgroupVersion\":\"1\",\"Runtimes\":{\"io.containerd.runc.v2\":{\"path\":\"runc\"},\"runc\":{\"path\":"
      "\"runc\"}}}",
      true, true, true, true },
    { "20.10, cgroup v1, a kernel that does not account for swap",
      "{\"MemoryLimit\":true,\"SwapLimit\":false,\"CpuCfsPeriod\":true,\"CpuCfsQuota\":true,\"CPUShares\":true,\"PidsLimit\":"
      "true,"
      "\"CgroupDriver\":\"cgroupfs\",\"CgroupVersion\":\"1\",\"Warnings\":[\"WARNING: No swap limit support\"]}",
      true, false, true, true },
    { "20.10, cgroup v2, systemd",
      "{\"MemoryLimit\":true,\"SwapLimit\":true,\"KernelMemory\":false,\"KernelMemoryTCP\":false,\"CpuCfsPeriod\":true,"
      "\"CpuCfsQuota\":true,\"CPUShares\":true,\"CPUSet\":true,\"PidsLimit\":true,\"OomKillDisable\":false,\"CgroupDriver\":"
      "\"systemd\",\"CgroupVersion\":\"2\",\"SecurityOptions\":[\"name=seccomp,profile=default\",\"name=cgroupns\"]}",
      true, true, true, true },
    { "20.10, cgroup v2, controllers of memory and pids alone",
      "{\"MemoryLimit\":true,\"SwapLimit\":true,\"CpuCfsPeriod\":false,\"CpuCfsQuota\":false,\"CPUShares\":false,\"CPUSet\":"
      "false,"
      "\"PidsLimit\":true,\"CgroupDriver\":\"cgroupfs\",\"CgroupVersion\":\"2\"}",
      true, true, false, true },
    { "20.10, cgroup v2, all controllers in v1",
      "{\"MemoryLimit\":false,\"SwapLimit\":false,\"KernelMemory\":false,\"KernelMemoryTCP\":false,\"CpuCfsPeriod\":false,"
      "\"CpuCfsQuota\":false,\"CPUShares\":false,\"CPUSet\":false,\"PidsLimit\":false,\"OomKillDisable\":false,"
      "\"CgroupDriver\":"
      "\"cgroupfs\",\"CgroupVersion\":\"2\",\"Warnings\":[\"WARNING: No memory limit support\"]}",
      false, false, false, false },
};

static json_t *info_of(const struct recorded *one)
{
    json_t *info = json_loads(one->info, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(info);
    return info;
}

static void what_engines_said_of_themselves_is_understood(void **state)
{
    (void) state;
    for (size_t i = 0; i < count_of(recorded); i++) {
        const struct recorded *one = &recorded[i];
        autoptr(json_t) info = info_of(one);
        struct engine_caps is;

        engine_caps_read(info, &is);
        if (is.memory != one->memory || is.swap != one->swap || is.cpu_quota != one->cpu || is.cpu_shares != one->cpu ||
            is.pids != one->pids)
            fail_msg("%s", one->where);
        assert_int_equal(engine_caps_check(&is, &(struct runtime_limits){ .memory_bytes = 1 << 26 }, NULL),
                         one->memory ? 0 : -ENOTSUP);
        assert_int_equal(engine_caps_check(&is, &(struct runtime_limits){ .cpu_quota_us = 5000 }, NULL),
                         one->cpu ? 0 : -ENOTSUP);
        assert_int_equal(engine_caps_check(&is, &(struct runtime_limits){ .cpu_shares = 2 }, NULL), one->cpu ? 0 : -ENOTSUP);
        assert_int_equal(engine_caps_check(&is, &(struct runtime_limits){ .pids = 5 }, NULL), one->pids ? 0 : -ENOTSUP);
    }
}

/* The same words for both versions: what they become in a cgroup is the engine's work. */
static void an_engine_is_asked_for_the_limits_that_it_can_enforce(void **state)
{
    (void) state;
    for (size_t i = 0; i < count_of(recorded); i++) {
        const struct recorded *one = &recorded[i];
        autoptr(json_t) info = info_of(one);
        autoptr(docker_order) order = full_order();
        struct engine_caps is;

        engine_caps_read(info, &is);
        order->spec.limits = (struct runtime_limits){ .memory_bytes = one->memory ? 1 << 26 : 0,
                                                      .cpu_quota_us = one->cpu ? 50000 : 0,
                                                      .cpu_shares = one->cpu ? 512 : 0 };
        assert_int_equal(engine_caps_check(&is, &order->spec.limits, NULL), 0);
        autoptr(json_t) json = create_body_new(order, &is);
        const json_t *host = json_object_get(json, "HostConfig");
        assert_int_equal(response_number(host, "Memory", -1), one->memory ? 1 << 26 : -1);
        assert_int_equal(response_number(host, "MemorySwap", -1), one->swap ? 1 << 26 : -1);
        assert_int_equal(response_number(host, "CpuPeriod", -1), one->cpu ? 100000 : -1);
        assert_int_equal(response_number(host, "CpuQuota", -1), one->cpu ? 50000 : -1);
        assert_int_equal(response_number(host, "CpuShares", -1), one->cpu ? 512 : -1);
        assert_int_equal(response_number(host, "PidsLimit", -1), one->pids ? RUNTIME_PIDS_DEFAULT : -1);
        assert_string_equal(response_string(host, "CgroupnsMode", ""), "private");
        assert_null(json_object_get(host, "CgroupParent"));
    }
}

static void a_runtime_that_an_engine_does_not_know_is_told_with_those_it_has(void **state)
{
    autoptr(json_t) info = info_of(&recorded[0]);
    autoptr(json_t) hostile = json_pack("{s:{s:{}, s:{}}}", "Runtimes", "a\nb\033[2J", "");
    autoptr(json_t) many = json_pack("{s:{}}", "Runtimes");
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(engine_caps_check_runtime(info, "", &err), 0);
    assert_int_equal(engine_caps_check_runtime(info, "runc", &err), 0);
    assert_int_equal(engine_caps_check_runtime(info, "io.containerd.runsc.v1", &err), 0);
    assert_int_equal(engine_caps_check_runtime(NULL, "runsc", &err), 0); /* it does not say: it is asked for it */
    assert_int_equal(engine_caps_check_runtime(info, "runsc", &err), -ENOENT);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_string_equal(err.text,
                        "the Docker engine has no OCI runtime 'runsc', which runtime.docker.oci_runtime names; it has: "
                        "io.containerd.runc.v2, runc");
    assert_int_equal(engine_caps_check_runtime(hostile, "runsc", &err), -ENOENT);
    assert_printable(err.text);
    for (int i = 0; i < 1000; i++) {
        char name[16];

        snprintf(name, sizeof(name), "runtime-%d", i);
        json_object_set_new(json_object_get(many, "Runtimes"), name, json_object());
    }
    assert_int_equal(engine_caps_check_runtime(many, "runsc", &err), -ENOENT);
    assert_true(strlen(err.text) < RESPONSE_TEXT_MAX + RESPONSE_SHOWN_MAX);
}

static void what_an_engine_does_not_say_it_cannot(void **state)
{
    autoptr(json_t) info =
                json_loads("{\"MemoryLimit\":true,\"SwapLimit\":1,\"PidsLimit\":\"true\",\"CPUShares\":true}", 0, NULL);
    struct engine_caps caps;

    (void) state;
    engine_caps_read(info, &caps);
    assert_true(caps.memory && caps.cpu_shares && !caps.swap && !caps.pids && !caps.cpu_quota);
    engine_caps_read(NULL, &caps);
    assert_true(!caps.memory && !caps.cpu_shares);
}

static void a_limit_that_cannot_be_set_is_refused_if_it_was_asked_for(void **state)
{
    const struct engine_caps none = { 0 }, all = { true, true, true, true, true };
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

        assert_int_equal(engine_caps_check(&none, &cases[i].limits, &err), -ENOTSUP);
        assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(engine_caps_check(&all, &cases[i].limits, &err), 0);
    }
    assert_int_equal(engine_caps_check(&none, &(struct runtime_limits){ 0 }, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_engine_does_not_say_it_cannot),
        cmocka_unit_test(a_limit_that_cannot_be_set_is_refused_if_it_was_asked_for),
        cmocka_unit_test(what_engines_said_of_themselves_is_understood),
        cmocka_unit_test(an_engine_is_asked_for_the_limits_that_it_can_enforce),
        cmocka_unit_test(a_runtime_that_an_engine_does_not_know_is_told_with_those_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
