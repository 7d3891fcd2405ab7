#include "call/message.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

/* The memory budget of unpacking: this plus a multiple of the bytes. An empty element of a list is 2 bytes on the wire and some 80
 * in memory, so the constant alone would refuse lists of short elements that clients do send. */
#define BUDGET_BASE (1u << 20)
#define BUDGET_FACTOR 8

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* The current position: a stack of nested messages. */
struct message_path {
    const struct message_path *above;
    const char *field; /* the field that holds this message; NULL at the top */
    unsigned depth;
};

struct bytes {
    const uint8_t *at, *end;
};

static bool parse_varint(struct bytes *in, uint64_t *ret)
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

static bool message_skip(struct bytes *in, uint64_t len)
{
    if (len > (uint64_t) (in->end - in->at))
        return false;
    in->at += len;
    return true;
}

static void add_path(struct buf *out, const struct message_path *where)
{
    if (!where || !where->field)
        return;
    add_path(out, where->above);
    buf_add_str(out, where->field);
    buf_add_char(out, '.');
}

static int message_reject(struct err *err, const struct message_path *where, const char *field, const char *why)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    add_path(&path, where);
    buf_add_str(&path, field);
    return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "field '%s' %s", path.data, why);
}

static int message_malformed(struct err *err)
{
    return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "the request is no message of the type expected");
}

static int check_message(const ProtobufCMessageDescriptor *descriptor, struct bytes in, const struct message_path *where,
                         struct err *err);

static int check_bytes(const ProtobufCFieldDescriptor *field, struct bytes in, const struct message_path *where,
                       struct err *err)
{
    size_t len = (size_t) (in.end - in.at);

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        if (len > 0 && memchr(in.at, '\0', len))
            return message_reject(err, where, field->name, "has a NUL character");
        if (!utf8_is_valid((const char *) in.at, len))
            return message_reject(err, where, field->name, "is not UTF-8");
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const struct message_path inner = { .above = where, .field = field->name, .depth = where->depth + 1 };
        if (inner.depth > MESSAGE_DEPTH_MAX)
            return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "the request is nested too deep");
        return check_message(field->descriptor, in, &inner, err);
    }
    return 0;
}

static int check_message(const ProtobufCMessageDescriptor *descriptor, struct bytes in, const struct message_path *where,
                         struct err *err)
{
    while (in.at < in.end) {
        uint64_t tag, len;
        int r;

        if (!parse_varint(&in, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
            return message_malformed(err);
        switch (tag & 7) {
        case WIRE_VARINT:
            if (!parse_varint(&in, &len))
                return message_malformed(err);
            break;
        case WIRE_FIXED64:
            if (!message_skip(&in, 8))
                return message_malformed(err);
            break;
        case WIRE_FIXED32:
            if (!message_skip(&in, 4))
                return message_malformed(err);
            break;
        case WIRE_BYTES: {
            const ProtobufCFieldDescriptor *field;
            if (!parse_varint(&in, &len))
                return message_malformed(err);
            const uint8_t *begin = in.at;
            if (!message_skip(&in, len))
                return message_malformed(err);
            field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned) (tag >> 3));
            r = field ? check_bytes(field, (struct bytes){ begin, in.at }, where, err) : 0;
            if (r < 0)
                return r;
            break;
        }
        default:
            return message_malformed(err); /* groups do not exist in proto3 */
        }
    }
    return 0;
}

int message_check(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, struct err *err)
{
    const struct message_path top = { 0 };
    const struct bytes in = { bytes, (const uint8_t *) bytes + len };

    return len == 0 ? 0 : check_message(descriptor, in, &top, err);
}

/* Finds the messages that a field holds. */
static size_t list_messages(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            ProtobufCMessage *const **ret)
{
    const char *base = (const char *) message;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        *ret = *(ProtobufCMessage *const *const *) (const void *) (base + field->offset);
        return *(const size_t *) (const void *) (base + field->quantifier_offset);
    }
    *ret = (ProtobufCMessage *const *) (const void *) (base + field->offset);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
        *(const uint32_t *) (const void *) (base + field->quantifier_offset) != field->id)
        return 0;
    return **ret ? 1 : 0;
}

int message_check_known(const ProtobufCMessage *message, struct err *err)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    ProtobufCMessage *const *items;

    if (message->n_unknown_fields > 0)
        return err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "field %u of %s is not known to this server",
                       message->unknown_fields[0].tag, descriptor->short_name);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        size_t count = field->type == PROTOBUF_C_TYPE_MESSAGE ? list_messages(message, field, &items) : 0;

        for (size_t k = 0; k < count; k++) {
            int r = message_check_known(items[k], err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

struct message_budget {
    size_t left;
    bool is_spent;
};

static void *message_alloc(void *cookie, size_t size)
{
    struct message_budget *budget = cookie;
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

static void message_dealloc(void *cookie, void *p)
{
    struct message_budget *budget = cookie;

    if (p)
        budget->left += malloc_usable_size(p);
    free(p);
}

int message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, ProtobufCMessage **ret,
                   struct err *err)
{
    struct message_budget budget = { .left = BUDGET_BASE + BUDGET_FACTOR * len };
    ProtobufCAllocator allocator = { .alloc = message_alloc, .free = message_dealloc, .allocator_data = &budget };
    int r = message_check(descriptor, bytes, len, err);

    if (r < 0)
        return r;
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, len, bytes);
    if (!message && budget.is_spent)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -EMSGSIZE, "the request has too many parts");
    if (!message)
        return message_malformed(err);
    *ret = message;
    return 0;
}

void *message_new(const ProtobufCMessageDescriptor *descriptor)
{
    void *message = xalloc(descriptor->sizeof_message);

    protobuf_c_message_init(descriptor, message);
    return message;
}
