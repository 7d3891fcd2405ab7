#include "rest/field.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What malloc() needs beside what was asked for. */
#define OVERHEAD 16

static char json_char(const char **at)
{
    char c = *(*at)++;

    if (c != '_')
        return c;
    while (*(*at) == '_')
        (*at)++;
    c = *(*at);
    if (c)
        (*at)++;
    return (char) (c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

void field_add_json_name(struct buf *out, const ProtobufCFieldDescriptor *field)
{
    for (const char *at = field->name; *at;) {
        char c = json_char(&at);
        if (c)
            buf_add_char(out, c);
    }
}

static bool has_json_name(const ProtobufCFieldDescriptor *field, const char *name, size_t len)
{
    const char *at = field->name;

    for (size_t i = 0; i < len; i++)
        if (!*at || json_char(&at) != name[i])
            return false;
    return *at == '\0';
}

const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *of, const char *name, size_t len)
{
    for (unsigned i = 0; i < of->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &of->fields[i];

        if ((strlen(field->name) == len && memcmp(field->name, name, len) == 0) || has_json_name(field, name, len))
            return field;
    }
    return NULL;
}

/* protoc names the entries of map `labels` of message M "M.LabelsEntry", which nobody else may do: a conflict is an error there. */
static bool is_entry_of(const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t len = strlen(of->name), name_len = strlen(entry->name);

    if (entry->n_fields != 2 || strcmp(entry->fields[0].name, "key") != 0 || strcmp(entry->fields[1].name, "value") != 0)
        return false;
    return strncmp(entry->name, of->name, len) == 0 && entry->name[len] == '.' && !strchr(entry->name + len + 1, '.') &&
           name_len > 5 && strcmp(entry->name + name_len - 5, "Entry") == 0;
}

enum field_shape field_shape(const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return FIELD_SINGLE;
    return field->type == PROTOBUF_C_TYPE_MESSAGE && is_entry_of(of, field) ? FIELD_MAP : FIELD_REPEATED;
}

enum field_well_known field_well_known(const ProtobufCFieldDescriptor *field)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return FIELD_WELL_KNOWN_NOT;
    const char *name = ((const ProtobufCMessageDescriptor *) field->descriptor)->name;
    if (strcmp(name, "google.protobuf.Timestamp") == 0)
        return FIELD_WELL_KNOWN_TIMESTAMP;
    return strcmp(name, "google.protobuf.Duration") == 0 ? FIELD_WELL_KNOWN_DURATION : FIELD_WELL_KNOWN_NOT;
}

size_t field_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return sizeof(void *);
}

void *field_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (char *) message + field->offset;
}

size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (size_t *) (void *) ((char *) message + field->quantifier_offset);
}

bool field_is_in_oneof(const ProtobufCFieldDescriptor *field)
{
    return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

/* Which member of a oneof is chosen, or whether an optional scalar is there: both an int. */
static int *field_quantifier(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (int *) (void *) ((char *) message + field->quantifier_offset);
}

static bool has_flag(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset != 0;
}

bool field_is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field_is_in_oneof(field))
        return *field_quantifier(message, field) == (int) field->id;
    return !has_flag(field) || *field_quantifier(message, field);
}

bool field_choose(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field_is_in_oneof(field)) {
        int *which = field_quantifier(message, field);

        if (*which != 0 && *which != (int) field->id)
            return false;
        *which = (int) field->id;
    } else if (has_flag(field)) {
        *field_quantifier(message, field) = 1;
    }
    return true;
}

void field_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *member = field_member(message, field);
    void **pointer = member;

    if (!field_is_there(message, field))
        return;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        if (*pointer != field->default_value)
            free(*pointer);
        *pointer = field_is_in_oneof(field) ? NULL : (void *) (uintptr_t) field->default_value;
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (*pointer)
            protobuf_c_message_free_unpacked(*pointer, NULL);
        *pointer = NULL;
    } else {
        if (field->type == PROTOBUF_C_TYPE_BYTES)
            free(((ProtobufCBinaryData *) member)->data);
        memset(member, 0, field_size(field));
    }
    if (field_is_in_oneof(field) || has_flag(field))
        *field_quantifier(message, field) = 0;
}

void *field_alloc(size_t *budget, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - OVERHEAD || size_bytes + OVERHEAD > *budget)
        return NULL;
    void *p = calloc(1, size_bytes ? size_bytes : 1);
    if (p)
        *budget -= size_bytes + OVERHEAD;
    return p;
}

ProtobufCMessage *field_new_message(size_t *budget, const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = field_alloc(budget, descriptor->sizeof_message);

    if (message)
        protobuf_c_message_init(descriptor, message);
    return message;
}

/* The memory of a list grows at powers of two, so that its size is known from the number of elements. */
void *field_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t *budget)
{
    size_t *count = field_count(message, field), size = field_size(field);
    char **items = field_member(message, field);

    if ((*count & (*count - 1)) == 0) {
        size_t cap = *count ? *count * 2 : 1;
        char *grown = field_alloc(budget, cap * size);

        if (!grown)
            return NULL;
        if (*items)
            memcpy(grown, *items, *count * size);
        free(*items);
        *budget += *count ? *count * size + OVERHEAD : 0;
        *items = grown;
    }
    return *items + (*count)++ * size;
}
