/* Messages to JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rest/base64.h"
#include "rest/field_text.h"
#include "rest/json_message.h"

static void add_escaped(struct buf *out, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;

    if (found)
        buf_addf(out, "\\%c", to[found - from]);
    else
        buf_addf(out, "\\u%04x", c);
}

void json_message_add_string(struct buf *out, const char *bytes, size_t len)
{
    size_t from = 0, i = 0;

    buf_add_char(out, '"');
    while (i < len) {
        unsigned char c = (unsigned char) bytes[i];
        uint32_t code;

        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t taken = utf8_decode(bytes + i, len - i, &code);
        if (taken > 1) {
            i += taken;
            continue;
        }
        buf_add(out, bytes + from, i - from);
        if (taken == 1)
            add_escaped(out, c);
        else
            buf_add_str(out, "\xEF\xBF\xBD");
        from = ++i;
    }
    buf_add(out, bytes + from, len - from);
    buf_add_char(out, '"');
}

/* The fewest digits that read back as the same number. */
static void add_real(struct buf *out, double value, bool is_float)
{
    char text[40];

    if (isnan(value) || isinf(value)) {
        buf_add_str(out, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    if (value == 0 && signbit(value)) {
        buf_add_str(out, "-0.0"); /* "-0" is a whole number to some, which has no sign */
        return;
    }
    for (int digits = is_float ? 6 : 15; digits <= (is_float ? 9 : 17); digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (is_float ? (float) back == (float) value : back == value)
            break;
    }
    buf_add_str(out, text);
}

static void add_enum(struct buf *out, const ProtobufCEnumDescriptor *descriptor, int number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(descriptor, number);

    if (value)
        buf_addf(out, "\"%s\"", value->name);
    else
        buf_addf(out, "%d", number);
}

static void add_text(struct buf *out, int (*add)(struct buf *, const ProtobufCMessage *), const ProtobufCMessage *message)
{
    size_t before = out->len;

    buf_add_char(out, '"');
    if (add(out, message) < 0) {
        out->len = before;
        buf_add_str(out, "null");
        return;
    }
    buf_add_char(out, '"');
}

static void add_inner(struct buf *out, const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    if (!message) {
        buf_add_str(out, "null");
        return;
    }
    switch (field_well_known(field)) {
    case FIELD_WELL_KNOWN_TIMESTAMP:
        add_text(out, field_text_add_timestamp, message);
        return;
    case FIELD_WELL_KNOWN_DURATION:
        add_text(out, field_text_add_duration, message);
        return;
    case FIELD_WELL_KNOWN_NOT:
        json_message_add(out, message);
    }
}

static void add_value(struct buf *out, const ProtobufCFieldDescriptor *field, const void *member)
{
    const ProtobufCBinaryData *bytes = member;
    const char *string;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        buf_addf(out, "%" PRId32, *(const int32_t *) member);
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buf_addf(out, "%" PRIu32, *(const uint32_t *) member);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_addf(out, "\"%" PRId64 "\"", *(const int64_t *) member);
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_addf(out, "\"%" PRIu64 "\"", *(const uint64_t *) member);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        add_real(out, *(const float *) member, true);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        add_real(out, *(const double *) member, false);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        buf_add_str(out, *(const protobuf_c_boolean *) member ? "true" : "false");
        return;
    case PROTOBUF_C_TYPE_ENUM:
        add_enum(out, field->descriptor, *(const int *) member);
        return;
    case PROTOBUF_C_TYPE_STRING:
        string = *(const char *const *) member;
        json_message_add_string(out, string ? string : "", string ? strlen(string) : 0);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        buf_add_char(out, '"');
        base64_add(out, bytes->data, bytes->len);
        buf_add_char(out, '"');
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        add_inner(out, field, *(const ProtobufCMessage *const *) member);
    }
}

static void add_list(struct buf *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *items = *(const char *const *) field_member(message, field);
    size_t count = *field_count(message, field), size = field_size(field);

    buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_value(out, field, items + i * size);
    }
    buf_add_char(out, ']');
}

/* Keys are strings, whatever they are in the message; those that JSON writes as strings already need no more quotes. */
static void add_key(struct buf *out, const ProtobufCFieldDescriptor *field, const void *member)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    add_value(&text, field, member);
    buf_addf(out, text.data[0] == '"' ? "%s" : "\"%s\"", text.data);
}

static void add_map(struct buf *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    ProtobufCMessage *const *entries = *(ProtobufCMessage *const *const *) field_member(message, field);
    size_t count = *field_count(message, field);

    buf_add_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *fields = entries[i]->descriptor->fields;

        if (i > 0)
            buf_add_char(out, ',');
        add_key(out, &fields[0], field_member(entries[i], &fields[0]));
        buf_add_char(out, ':');
        add_value(out, &fields[1], field_member(entries[i], &fields[1]));
    }
    buf_add_char(out, '}');
}

static void add_field(struct buf *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    switch (field_shape(message->descriptor, field)) {
    case FIELD_MAP:
        add_map(out, message, field);
        return;
    case FIELD_REPEATED:
        add_list(out, message, field);
        return;
    case FIELD_SINGLE:
        if (field_is_there(message, field))
            add_value(out, field, field_member(message, field));
        else
            buf_add_str(out, "null");
    }
}

void json_message_add(struct buf *out, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    bool is_first = true;

    buf_add_char(out, '{');
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if (field_is_in_oneof(field) && !field_is_there(message, field))
            continue;
        if (!is_first)
            buf_add_char(out, ',');
        is_first = false;
        buf_add_char(out, '"');
        field_add_json_name(out, field);
        buf_add_str(out, "\":");
        add_field(out, message, field);
    }
    buf_add_char(out, '}');
}
