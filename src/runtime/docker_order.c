#include "runtime/docker_order.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * The format: NUL-terminated strings "key=value", with every key of the table once and in order, then "src", "dst" and
 * "mount_ro" for each mount. Numbers are decimal.
 */
enum order_field_kind { TEXT, U32, U64, BOOL };

struct order_field {
    const char *key;
    enum order_field_kind kind;
    size_t offset; /* in struct docker_order */
};

#define OF_SPEC(key, kind, member)                                                                                             \
    {                                                                                                                          \
        key, kind, offsetof(struct docker_order, spec.member)                                                                  \
    }
#define OF_CONTAINER(key, kind, member)                                                                                        \
    {                                                                                                                          \
        key, kind, offsetof(struct docker_order, container.member)                                                             \
    }

static const struct order_field fields[] = {
    OF_SPEC("id", TEXT, id),
    OF_SPEC("workspace", TEXT, workspace),
    OF_SPEC("init", TEXT, init_path),
    OF_SPEC("hostname", TEXT, hostname),
    OF_SPEC("net", U32, net),
    OF_SPEC("uid", U32, uid),
    OF_SPEC("gid", U32, gid),
    OF_SPEC("memory", U64, limits.memory_bytes),
    OF_SPEC("quota", U32, limits.cpu_quota_us),
    OF_SPEC("shares", U32, limits.cpu_shares),
    OF_SPEC("pids", U32, limits.pids),
    OF_SPEC("tmp", U64, tmp_bytes),
    OF_CONTAINER("image", TEXT, image),
    OF_CONTAINER("engine", TEXT, engine),
    OF_CONTAINER("oci", TEXT, oci_runtime),
    OF_CONTAINER("sandbox", TEXT, sandbox),
    OF_CONTAINER("home", TEXT, home),
    OF_CONTAINER("dir", TEXT, dir),
    OF_CONTAINER("ro", BOOL, read_only_root),
    OF_CONTAINER("no_pull", BOOL, no_pull),
};

_Static_assert(sizeof(enum sandbox_net) == sizeof(uint32_t) && sizeof(uid_t) == sizeof(uint32_t), "read and written as U32");

static void put_text(struct buf *out, const char *key, const char *value)
{
    buf_addf(out, "%s=%s", key, value ? value : "");
    buf_add_char(out, '\0');
}

static void put_number(struct buf *out, const char *key, uint64_t value)
{
    buf_addf(out, "%s=%" PRIu64, key, value);
    buf_add_char(out, '\0');
}

static void put_field(struct buf *out, const struct order_field *field, const struct docker_order *order)
{
    const char *at = (const char *) order + field->offset;

    if (field->kind == TEXT)
        put_text(out, field->key, *(const char *const *) at);
    else if (field->kind == U32)
        put_number(out, field->key, *(const uint32_t *) at);
    else if (field->kind == U64)
        put_number(out, field->key, *(const uint64_t *) at);
    else
        put_number(out, field->key, *(const bool *) at);
}

void docker_order_encode(const struct runtime_spec *spec, struct buf *out)
{
    struct docker_order order = { .spec = *spec, .container = *spec->container };

    order.spec.hostname = runtime_spec_hostname(spec);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        put_field(out, &fields[i], &order);
    for (size_t i = 0; i < spec->mount_count; i++) {
        put_text(out, "src", spec->mounts[i].src);
        put_text(out, "dst", spec->mounts[i].dst);
        put_number(out, "mount_ro", spec->mounts[i].read_only);
    }
}

/* Returns the next string's value if it has this key, otherwise NULL. */
static const char *docker_order_next_value(const char **at, const char *end, const char *key)
{
    const char *text = *at;
    size_t len = strlen(key);

    if (text >= end || strncmp(text, key, len) != 0 || text[len] != '=')
        return NULL;
    *at = text + strlen(text) + 1;
    return text + len + 1;
}

static bool read_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;

    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *ret <= max;
}

static bool parse_field(const char **at, const char *end, const struct order_field *field, struct docker_order *order)
{
    static const uint64_t most[] = { [U32] = UINT32_MAX, [U64] = UINT64_MAX, [BOOL] = 1 };
    char *into = (char *) order + field->offset;
    const char *value = docker_order_next_value(at, end, field->key);
    uint64_t number;

    if (value && field->kind == TEXT) {
        *(const char **) into = value;
        return true;
    }
    if (!read_number(value, most[field->kind], &number))
        return false;
    if (field->kind == U32)
        *(uint32_t *) into = (uint32_t) number;
    else if (field->kind == U64)
        *(uint64_t *) into = number;
    else
        *(bool *) into = number != 0;
    return true;
}

static bool parse_mount(const char **at, const char *end, struct docker_order *order)
{
    struct runtime_mount *mount = &order->mounts[order->spec.mount_count];
    uint64_t read_only;

    if (order->spec.mount_count == RUNTIME_MOUNTS_MAX || !(mount->src = docker_order_next_value(at, end, "src")) ||
        !(mount->dst = docker_order_next_value(at, end, "dst")) ||
        !read_number(docker_order_next_value(at, end, "mount_ro"), 1, &read_only))
        return false;
    mount->read_only = read_only != 0;
    order->spec.mount_count++;
    return true;
}

static bool parse_all(struct docker_order *order, size_t len)
{
    const char *at = order->text, *end = order->text + len;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!parse_field(&at, end, &fields[i], order))
            return false;
    while (at < end)
        if (!parse_mount(&at, end, order))
            return false;
    return order->spec.net <= SANDBOX_NET_BRIDGE;
}

int docker_order_decode(const void *bytes, size_t len, struct docker_order **ret, struct err *err)
{
    autoptr(docker_order) order = xnew(struct docker_order);

    order->spec = RUNTIME_SPEC_NONE;
    if (len == 0 || len > DOCKER_ORDER_MAX || ((const char *) bytes)[len - 1] != '\0')
        return err_set(err, ERR_INTERNAL, -EBADMSG, "the order for a container is damaged");
    order->text = xdupn(bytes, len);
    order->spec.container = &order->container;
    order->spec.mounts = order->mounts;
    if (!parse_all(order, len))
        return err_set(err, ERR_INTERNAL, -EBADMSG, "the order for a container is damaged");
    order->spec.agent_uid = order->spec.uid;
    order->spec.agent_gid = order->spec.gid;
    *ret = steal_ptr(&order);
    return 0;
}

void docker_order_free(struct docker_order *order)
{
    if (!order)
        return;
    free(order->text);
    free(order->own_init);
    free(order);
}
