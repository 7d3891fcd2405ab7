#include "runtime/docker_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"

/* The order is the fields in this sequence, then a number of mounts, each: src, dst, u8 read_only. */

#define NUMBER(type, member) FIELD_OF(type, struct docker_order, member)
#define TEXT(member) FIELD_STRING_OF(struct docker_order, member, UINT16_MAX)

enum order_flag { ORDER_READ_ONLY_ROOT = 1 << 0, ORDER_NO_PULL = 1 << 1, ORDER_ALL = (1 << 2) - 1 };

static const struct field order_fields[] = {
    TEXT(spec.id),
    TEXT(spec.workspace),
    TEXT(spec.init_path),
    TEXT(spec.hostname),
    NUMBER(FIELD_U32, spec.net),
    NUMBER(FIELD_U32, spec.uid),
    NUMBER(FIELD_U32, spec.gid),
    NUMBER(FIELD_U64, spec.limits.memory_bytes),
    NUMBER(FIELD_U32, spec.limits.cpu_quota_us),
    NUMBER(FIELD_U32, spec.limits.cpu_shares),
    NUMBER(FIELD_U32, spec.limits.pids),
    NUMBER(FIELD_U64, spec.tmp_bytes),
    TEXT(container.image),
    TEXT(container.engine),
    TEXT(container.oci_runtime),
    TEXT(container.sandbox),
    TEXT(container.home),
    TEXT(container.dir),
    NUMBER(FIELD_U8, flags),
    { .type = FIELD_END },
};

void docker_order_encode(const struct runtime_spec *spec, struct buf *out)
{
    struct docker_order order = { .spec = *spec, .container = *spec->container };
    autofree char *bytes = xalloc(DOCKER_ORDER_MAX);
    struct writer w;

    order.spec.hostname = runtime_spec_hostname(spec);
    order.flags = (order.container.read_only_root ? ORDER_READ_ONLY_ROOT : 0) | (order.container.no_pull ? ORDER_NO_PULL : 0);
    writer_init(&w, bytes, DOCKER_ORDER_MAX);
    fields_write(order_fields, &order, &w);
    writer_u32(&w, (uint32_t) spec->mount_count);
    for (size_t i = 0; i < spec->mount_count; i++) {
        writer_string(&w, spec->mounts[i].src);
        writer_string(&w, spec->mounts[i].dst);
        writer_u8(&w, spec->mounts[i].read_only);
    }
    buf_add(out, bytes, w.len);
}

static void read_mounts(struct reader *r, struct docker_order *order)
{
    uint32_t count = reader_u32(r);

    if (count > RUNTIME_MOUNTS_MAX)
        reader_fail(r);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        struct runtime_mount *mount = &order->mounts[i];
        uint8_t read_only;

        mount->src = reader_string(r, SIZE_MAX);
        mount->dst = reader_string(r, SIZE_MAX);
        read_only = reader_u8(r);
        mount->read_only = read_only == 1;
        if (read_only > 1)
            reader_fail(r);
    }
    order->spec.mount_count = count;
}

int docker_order_decode(const void *bytes, size_t len, struct docker_order **ret, struct err *err)
{
    autoptr(docker_order) order = xnew(struct docker_order);
    struct reader r;

    order->spec = RUNTIME_SPEC_NONE;
    if (len > 0 && len <= DOCKER_ORDER_MAX)
        order->bytes = memcpy(xalloc(len), bytes, len);
    reader_init(&r, order->bytes, order->bytes ? len : 0);
    fields_read(order_fields, order, &r);
    read_mounts(&r, order);
    if (reader_end(&r) < 0 || order->spec.net > SANDBOX_NET_BRIDGE || order->flags > ORDER_ALL)
        return err_set(err, ERR_INTERNAL, -EBADMSG, "the order for a container is damaged");
    order->container.read_only_root = order->flags & ORDER_READ_ONLY_ROOT;
    order->container.no_pull = order->flags & ORDER_NO_PULL;
    order->spec.container = &order->container;
    order->spec.mounts = order->mounts;
    order->spec.agent_uid = order->spec.uid;
    order->spec.agent_gid = order->spec.gid;
    *ret = steal_ptr(&order);
    return 0;
}

void docker_order_free(struct docker_order *order)
{
    if (!order)
        return;
    free(order->bytes);
    free(order->own_init);
    free(order);
}
