#include "container_fixture.h"

#include "container/create_body.h"

static const struct engine_caps all = { true, true, true, true, true };

static const char *string_at(const json_t *json, const char *key)
{
    return response_string(json, key, "(none)");
}

static const json_t *mount_at(const json_t *host, const char *target)
{
    const json_t *mounts = json_object_get(host, "Mounts");

    for (size_t i = 0; i < json_array_size(mounts); i++)
        if (strcmp(string_at(json_array_get(mounts, i), "Target"), target) == 0)
            return json_array_get(mounts, i);
    return NULL;
}

static void assert_mount(const json_t *host, const char *target, const char *source, bool read_only)
{
    const json_t *mount = mount_at(host, target);

    assert_non_null(mount);
    assert_string_equal(string_at(mount, "Type"), "bind");
    assert_string_equal(string_at(mount, "Source"), source);
    assert_int_equal(response_is_true(mount, "ReadOnly"), read_only);
    assert_string_equal(string_at(json_object_get(mount, "BindOptions"), "Propagation"), "rprivate");
}

static void nothing_of_the_image_is_started(void **state)
{
    autoptr(docker_order) order = full_order();
    autoptr(json_t) json = create_body_new(order, &all);
    autofree char *entry = json_dumps(json_object_get(json, "Entrypoint"), JSON_COMPACT);
    autofree char *arguments = json_dumps(json_object_get(json, "Cmd"), JSON_COMPACT);
    autofree char *health = json_dumps(json_object_get(json, "Healthcheck"), JSON_COMPACT);

    (void) state;
    assert_string_equal(entry, "[\"/run/agentfense/init\"]");
    assert_string_equal(arguments, "[\"--socket\",\"/run/agentfense/socket\"]");
    assert_string_equal(health, "{\"Test\":[\"NONE\"]}");
    assert_string_equal(string_at(json, "Image"), "debian:12");
    assert_string_equal(string_at(json, "User"), "70001:70002");
    assert_string_equal(string_at(json, "Hostname"), "agent");
    assert_int_equal(json_array_size(json_object_get(json, "Env")), 0);
}

static void it_is_known_as_ours(void **state)
{
    autoptr(docker_order) order = full_order();
    autoptr(json_t) json = create_body_new(order, &all);
    autodone(buf) struct buf name = BUF_EMPTY;
    const json_t *labels = json_object_get(json, "Labels");

    (void) state;
    assert_string_equal(string_at(labels, "agentfense.sandbox"), "shop-1");
    assert_string_equal(string_at(labels, "agentfense.home"), "0123abcd");
    create_body_name(order, &name);
    assert_string_equal(name.data, "agentfense-0123abcd-shop-1");
}

static void it_can_do_nothing_that_it_need_not(void **state)
{
    autoptr(docker_order) order = full_order();
    autoptr(json_t) json = create_body_new(order, &all);
    const json_t *host = json_object_get(json, "HostConfig"), *security = json_object_get(host, "SecurityOpt");
    autofree char *dropped = json_dumps(json_object_get(host, "CapDrop"), JSON_COMPACT);

    (void) state;
    assert_string_equal(dropped, "[\"ALL\"]");
    assert_null(json_object_get(host, "CapAdd"));
    assert_false(response_is_true(host, "Privileged"));
    assert_string_equal(json_string_value(json_array_get(security, 0)), "no-new-privileges:true");
    assert_memory_equal(json_string_value(json_array_get(security, 1)), "seccomp={", 9);
    assert_true(response_is_true(host, "AutoRemove") && response_is_true(host, "ReadonlyRootfs"));
    assert_string_equal(string_at(host, "IpcMode"), "private");
    assert_string_equal(string_at(host, "Runtime"), "runsc");
    assert_string_equal(string_at(json_object_get(host, "LogConfig"), "Type"), "none");
    order->container.read_only_root = false;
    order->container.oci_runtime = "";
    autoptr(json_t) other = create_body_new(order, &all);
    host = json_object_get(other, "HostConfig");
    assert_false(response_is_true(host, "ReadonlyRootfs"));
    assert_null(json_object_get(host, "Runtime"));
}

static void mounts_are_those_of_the_order_and_ours(void **state)
{
    autoptr(docker_order) order = full_order();
    autoptr(json_t) json = create_body_new(order, &all);
    const json_t *host = json_object_get(json, "HostConfig"), *tmpfs = json_object_get(host, "Tmpfs");

    (void) state;
    assert_mount(host, "/workspace", "/var/lib/x/shop-1/mnt", false);
    assert_mount(host, "/run/agentfense/init", "/usr/libexec/init", true);
    assert_mount(host, "/run/agentfense/socket", "/var/lib/x/shop-1/container/socket", true);
    assert_mount(host, "/etc/passwd", "/var/lib/x/shop-1/container/passwd", true);
    assert_mount(host, "/etc/group", "/var/lib/x/shop-1/container/group", true);
    assert_mount(host, "/etc/gitconfig", "/var/lib/x/shop-1/container/gitconfig", true);
    assert_mount(host, "/data", "/srv/data", true);
    assert_mount(host, "/out", "/srv/out", false);
    assert_int_equal(json_array_size(json_object_get(host, "Mounts")), 8);
    assert_string_equal(string_at(tmpfs, "/tmp"), "rw,exec,nosuid,nodev,size=1048576,mode=1777");
    assert_string_equal(string_at(tmpfs, "/home/agent"), "rw,exec,nosuid,nodev,size=536870912,mode=0755,uid=70001,gid=70002");
    assert_int_equal(response_number(host, "ShmSize", 0), 64 << 20);
}

static void what_cannot_be_said_is_not_left_out(void **state)
{
    autoptr(docker_order) order = full_order();

    (void) state;
    order->mounts[1].src = "/srv/\xff";
    assert_null(create_body_new(order, &all));
}

static void networks(void **state)
{
    static const char *const names[] = {
        [SANDBOX_NET_NONE] = "none", [SANDBOX_NET_HOST] = "host", [SANDBOX_NET_BRIDGE] = "bridge"
    };
    autoptr(docker_order) order = full_order();

    (void) state;
    for (size_t i = 0; i < count_of(names); i++) {
        order->spec.net = (enum sandbox_net) i;
        autoptr(json_t) json = create_body_new(order, &all);
        assert_string_equal(string_at(json_object_get(json, "HostConfig"), "NetworkMode"), names[i]);
    }
}

static void limits(void **state)
{
    autoptr(docker_order) order = full_order();
    autoptr(json_t) json = create_body_new(order, &all);
    const json_t *host = json_object_get(json, "HostConfig");

    (void) state;
    assert_int_equal(response_number(host, "Memory", 0), 1LL << 33);
    assert_int_equal(response_number(host, "MemorySwap", 0), 1LL << 33);
    assert_int_equal(response_number(host, "CpuPeriod", 0), 100000);
    assert_int_equal(response_number(host, "CpuQuota", 0), 150000);
    assert_int_equal(response_number(host, "CpuShares", 0), 512);
    assert_int_equal(response_number(host, "PidsLimit", 0), 77);
    order->spec.limits = (struct runtime_limits){ .memory_bytes = 1 << 30 };
    autoptr(json_t) other = create_body_new(order, &(struct engine_caps){ .memory = true, .pids = true });
    host = json_object_get(other, "HostConfig");
    assert_null(json_object_get(host, "MemorySwap"));
    assert_null(json_object_get(host, "CpuQuota"));
    assert_null(json_object_get(host, "CpuShares"));
    assert_int_equal(response_number(host, "PidsLimit", 0), RUNTIME_PIDS_DEFAULT);
    autoptr(json_t) third = create_body_new(order, &(struct engine_caps){ .memory = true });
    assert_null(json_object_get(json_object_get(third, "HostConfig"), "PidsLimit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_image_is_started),
        cmocka_unit_test(it_is_known_as_ours),
        cmocka_unit_test(it_can_do_nothing_that_it_need_not),
        cmocka_unit_test(mounts_are_those_of_the_order_and_ours),
        cmocka_unit_test(what_cannot_be_said_is_not_left_out),
        cmocka_unit_test(networks),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
