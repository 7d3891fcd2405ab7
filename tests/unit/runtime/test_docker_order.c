#include "runtime_fixture.h"

#include "runtime/docker_order.h"

static const struct runtime_mount two[] = { { "/a=b", "/data", true }, { "/out", "/out", false } };
static const struct runtime_container container = {
    .image = "x:1", .engine = "", .oci_runtime = "runsc", .sandbox = "s", .home = "01", .dir = "/d", .read_only_root = true
};

static struct runtime_spec full_spec(void)
{
    struct runtime_spec spec = RUNTIME_SPEC_NONE;

    spec.id = "01-s";
    spec.workspace = "/d/mnt";
    spec.init_path = "/init";
    spec.net = SANDBOX_NET_BRIDGE;
    spec.uid = UINT32_MAX - 1;
    spec.gid = 7;
    spec.limits = (struct runtime_limits){ .memory_bytes = UINT64_MAX, .cpu_quota_us = 1, .cpu_shares = 2, .pids = 3 };
    spec.tmp_bytes = 4;
    spec.mounts = two;
    spec.mount_count = 2;
    spec.container = &container;
    return spec;
}

static void every_field_survives_the_way(void **state)
{
    struct runtime_spec spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY, again = BUF_EMPTY;
    autoptr(docker_order) order = NULL;

    (void) state;
    docker_order_encode(&spec, &bytes);
    assert_int_equal(docker_order_decode(bytes.data, bytes.len, &order, NULL), 0);
    assert_string_equal(order->spec.id, "01-s");
    assert_string_equal(order->spec.hostname, "sandbox");
    assert_true(order->spec.net == SANDBOX_NET_BRIDGE && order->spec.uid == UINT32_MAX - 1 && order->spec.gid == 7);
    assert_true(order->spec.agent_uid == order->spec.uid && order->spec.agent_gid == 7);
    assert_true(order->spec.limits.memory_bytes == UINT64_MAX && order->spec.limits.pids == 3 && order->spec.tmp_bytes == 4);
    assert_string_equal(order->container.oci_runtime, "runsc");
    assert_string_equal(order->container.engine, "");
    assert_true(order->container.read_only_root && !order->container.no_pull);
    assert_int_equal(order->spec.mount_count, 2);
    assert_string_equal(order->spec.mounts[0].src, "/a=b");
    assert_true(order->spec.mounts[0].read_only && !order->spec.mounts[1].read_only);
    docker_order_encode(&order->spec, &again);
    assert_int_equal(again.len, bytes.len);
    assert_memory_equal(again.data, bytes.data, bytes.len);
}

static void what_was_not_written_so_is_refused(void **state)
{
    struct runtime_spec spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct docker_order *order = NULL;

    (void) state;
    docker_order_encode(&spec, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        autoptr(docker_order) got = NULL;

        assert_int_equal(docker_order_decode(bytes.data, len, &got, NULL), -EBADMSG);
    }
    for (size_t at = 0; at < bytes.len; at++) {
        autoptr(docker_order) got = NULL;
        char kept = bytes.data[at];

        bytes.data[at] = '\0';
        docker_order_decode(bytes.data, bytes.len, &got, NULL);
        bytes.data[at] = kept;
    }
    assert_int_equal(docker_order_decode("", 0, &order, NULL), -EBADMSG);
    assert_int_equal(docker_order_decode("id=x", 4, &order, NULL), -EBADMSG);
    assert_int_equal(docker_order_decode("", 1, &order, NULL), -EBADMSG);
    assert_null(order);
}

static void more_mounts_than_there_is_room_for_are_refused(void **state)
{
    struct runtime_spec spec = full_spec();
    struct runtime_mount many[RUNTIME_MOUNTS_MAX + 1];
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct docker_order *order = NULL;

    (void) state;
    for (size_t i = 0; i < RUNTIME_MOUNTS_MAX + 1; i++)
        many[i] = two[0];
    spec.mounts = many;
    spec.mount_count = RUNTIME_MOUNTS_MAX + 1;
    docker_order_encode(&spec, &bytes);
    assert_int_equal(docker_order_decode(bytes.data, bytes.len, &order, NULL), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives_the_way),
        cmocka_unit_test(what_was_not_written_so_is_refused),
        cmocka_unit_test(more_mounts_than_there_is_room_for_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
