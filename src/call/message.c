#include "call/message.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

/* What unpacking may hold at one time: this and a multiple of the bytes. An empty element of a list is 2 bytes on the wire and some 80
 * in memory, so the first alone would refuse lists of short things that people do send. */
#define BUDGET_BASE (1u << 20)
#define BUDGET_FACTOR 8

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Where we are: messages within messages. */
struct place {
    const struct place *above;
    const char *field; /* the one that holds this message; NULL at the top */
    unsigned depth;
};

struct bytes {
    const uint8_t *at, *end;
};

static bool take_varint(struct bytes *in, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;
        if (shift < 64)
            value |= (uint64_t) (byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct bytes *in, uint64_t len)
{
    if (len > (uint64_t) (in->end - in->at))
        return false;
    in->at += len;
    return true;
}

static void add_path(struct buf *out, const struct place *place)
{
    if (!place || !place->field)
        return;
    add_path(out, place->above);
    buf_add_str(out, place->field);
    buf_add_char(out, '.');
}

static int refuse(struct err *err, const struct place *place, const char *field, const char *why)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    add_path(&path, place);
    buf_add_str(&path, field);
    return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "field '%s' %s", path.data, why);
}

static int malformed(struct err *err)
{
    return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "the request is no message of the type expected");
}

static int check_message(const ProtobufCMessageDescriptor *descriptor, struct bytes in, const struct place *place,
                         struct err *err);

static int check_bytes(const ProtobufCFieldDescriptor *field, struct bytes in, const struct place *place, struct err *err)
{
    size_t len = (size_t) (in.end - in.at);

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        if (len > 0 && memchr(in.at, '\0', len))
            return refuse(err, place, field->name, "has a NUL character");
        if (!utf8_is_valid((const char *) in.at, len))
            return refuse(err, place, field->name, "is not UTF-8");
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const struct place inner = { .above = place, .field = field->name, .depth = place->depth + 1 };
        if (inner.depth > MESSAGE_DEPTH_MAX)
            return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "the request is nested too deep");
        return check_message(field->descriptor, in, &inner, err);
    }
    return 0;
}

static int check_message(const ProtobufCMessageDescriptor *descriptor, struct bytes in, const struct place *place,
                         struct err *err)
{
    while (in.at < in.end) {
        uint64_t tag, len;
        int r;

        if (!take_varint(&in, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
            return malformed(err);
        switch (tag & 7) {
        case WIRE_VARINT:
            if (!take_varint(&in, &len))
                return malformed(err);
            break;
        case WIRE_FIXED64:
            if (!skip(&in, 8))
                return malformed(err);
            break;
        case WIRE_FIXED32:
            if (!skip(&in, 4))
                return malformed(err);
            break;
        case WIRE_BYTES: {
            const ProtobufCFieldDescriptor *field;
            if (!take_varint(&in, &len))
                return malformed(err);
            const uint8_t *begin = in.at;
            if (!skip(&in, len))
                return malformed(err);
            field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned) (tag >> 3));
            r = field ? check_bytes(field, (struct bytes){ begin, in.at }, place, err) : 0;
            if (r < 0)
                return r;
            break;
        }
        default:
            return malformed(err); /* groups, which proto3 does not have */
        }
    }
    return 0;
}

int message_check(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, struct err *err)
{
    const struct place top = { 0 };
    const struct bytes in = { bytes, (const uint8_t *) bytes + len };

    return len == 0 ? 0 : check_message(descriptor, in, &top, err);
}

struct budget {
    size_t left;
    bool is_spent;
};

static void *spend(void *cookie, size_t size)
{
    struct budget *budget = cookie;
    void *p = size <= budget->left ? malloc(size) : NULL;
    size_t taken = p ? malloc_usable_size(p) : 0;

    if (!p || taken > budget->left) {
        free(p);
        budget->is_spent = true;
        return NULL;
    }
    budget->left -= taken;
    return p;
}

static void give_back(void *cookie, void *p)
{
    struct budget *budget = cookie;

    if (p)
        budget->left += malloc_usable_size(p);
    free(p);
}

int message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, ProtobufCMessage **ret,
                   struct err *err)
{
    struct budget budget = { .left = BUDGET_BASE + BUDGET_FACTOR * len };
    ProtobufCAllocator allocator = { .alloc = spend, .free = give_back, .allocator_data = &budget };
    int r = message_check(descriptor, bytes, len, err);

    if (r < 0)
        return r;
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, len, bytes);
    if (!message && budget.is_spent)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -EMSGSIZE, "the request has too many parts");
    if (!message)
        return malformed(err);
    *ret = message;
    return 0;
}
