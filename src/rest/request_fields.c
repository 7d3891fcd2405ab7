#include "rest/request_fields.h"

#include <stdint.h>
#include <string.h>

#include "rest/field_text.h"
#include "rest/json_message.h"
#include "rest/url.h"

#define FIELDS_MAX 256

int request_fields_of_path(ProtobufCMessage *message, const struct route_match *match, struct err *err)
{
    size_t budget = JSON_MESSAGE_MEMORY_MAX;

    for (size_t i = 0; i < match->route->capture_count; i++) {
        const char *name = match->route->names[i];
        const ProtobufCFieldDescriptor *field = field_find(message->descriptor, name, strlen(name));
        autodone(buf) struct buf value = BUF_EMPTY;
        int r;

        if (!field)
            continue;
        r = url_decode(match->captures[i], match->capture_lens[i], false, &value, err);
        if (r == 0)
            r = field_text_assign(message, field, value.data ? value.data : "", value.len, &budget, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static const ProtobufCFieldDescriptor *find_named(const ProtobufCMessage *message, const char *name, size_t len)
{
    const ProtobufCFieldDescriptor *field = field_find(message->descriptor, name, len);

    if (!field && len == 4 && memcmp(name, "path", 4) == 0)
        field = field_find(message->descriptor, "file_path", strlen("file_path"));
    return field;
}

static bool is_of_path(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->route->capture_count; i++)
        if (strcmp(match->route->names[i], name) == 0)
            return true;
    return false;
}

int request_fields_set(ProtobufCMessage *message, const struct route_match *match, const char *name, const char *value,
                       size_t len, struct err *err)
{
    const ProtobufCFieldDescriptor *field = find_named(message, name, strlen(name));
    size_t budget = JSON_MESSAGE_MEMORY_MAX;

    return field && !is_of_path(match, field->name) ? field_text_assign(message, field, value, len, &budget, err) : 0;
}

int request_fields_of_query(ProtobufCMessage *message, const struct route_match *match, const char *query, size_t len,
                            struct err *err)
{
    autodone(buf) struct buf name = BUF_EMPTY;
    autodone(buf) struct buf value = BUF_EMPTY;
    uint64_t seen[FIELDS_MAX / 64] = { 0 };
    size_t budget = JSON_MESSAGE_MEMORY_MAX;
    const char *at = query, *end = query + len;
    int r;

    while ((r = url_next_pair(&at, end, &name, &value, err)) > 0) {
        const ProtobufCFieldDescriptor *field = find_named(message, name.data ? name.data : "", name.len);

        if (!field || is_of_path(match, field->name))
            continue;
        size_t nth = (size_t) (field - message->descriptor->fields);
        if (field->label != PROTOBUF_C_LABEL_REPEATED && seen[nth / 64] & UINT64_C(1) << nth % 64)
            return err_invalid(err, "field '%s': given twice", field->name);
        seen[nth / 64] |= UINT64_C(1) << nth % 64;
        r = field_text_assign(message, field, value.data ? value.data : "", value.len, &budget, err);
        if (r < 0)
            return r;
    }
    return r;
}
