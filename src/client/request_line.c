#include "client/request_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "rest/field.h"
#include "rest/field_text.h"
#include "rest/json_message.h"

#define NAMES_MAX 8

/* The message that is turned into a path, a query and a body. */
struct line {
    const ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *named[NAMES_MAX]; /* fields that the path contains */
    size_t named_count;
    struct buf *out;
};

/* Percent-encodes all characters but those that RFC 3986 calls unreserved. */
static void add_encoded(struct buf *out, const char *text, size_t len, const char *also_plain)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (size_t i = 0; i < len; i++) {
        if (text[i] && (strchr(plain, text[i]) || strchr(also_plain, text[i])))
            buf_add_char(out, text[i]);
        else
            buf_addf(out, "%%%02X", (unsigned char) text[i]);
    }
}

/* Returns false for a default value, which the query leaves out. */
static bool add_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, struct buf *out)
{
    const void *member = field_member(message, field);
    const ProtobufCMessage *inner;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        buf_add_str(out, *(const char *const *) member);
        return out->len > 0;
    case PROTOBUF_C_TYPE_BOOL:
        buf_add_str(out, "true");
        return *(const protobuf_c_boolean *) member;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        buf_addf(out, "%" PRId32, *(const int32_t *) member);
        return *(const int32_t *) member;
    case PROTOBUF_C_TYPE_UINT32:
        buf_addf(out, "%" PRIu32, *(const uint32_t *) member);
        return *(const uint32_t *) member;
    case PROTOBUF_C_TYPE_INT64:
        buf_addf(out, "%" PRId64, *(const int64_t *) member);
        return *(const int64_t *) member;
    case PROTOBUF_C_TYPE_MESSAGE:
        inner = *(const ProtobufCMessage *const *) member;
        return inner && field_well_known(field) == FIELD_WELL_KNOWN_TIMESTAMP && field_text_add_timestamp(out, inner) == 0;
    default:
        return false;
    }
}

/* Expands a variable such as "{sandbox_id}" or "{file_path=**}". Returns the rest of the template, or NULL. */
static const char *add_variable(struct line *line, const char *at, struct err *err)
{
    size_t len = strcspn(at + 1, "=}");
    const ProtobufCFieldDescriptor *field = field_find(line->message->descriptor, at + 1, len);
    bool takes_rest = at[1 + len] == '=';
    autodone(buf) struct buf value = BUF_EMPTY;

    if (!field || line->named_count == NAMES_MAX || !add_value(line->message, field, &value)) {
        err_invalid(err, "%.*s is required", (int) len, at + 1);
        return NULL;
    }
    add_encoded(line->out, value.data, value.len, takes_rest ? "/" : "");
    line->named[line->named_count++] = field;
    return strchr(at, '}') + 1;
}

static int add_path(struct line *line, const char *template, struct err *err)
{
    while (*template) {
        if (*template != '{') {
            buf_add_char(line->out, *template ++);
            continue;
        }
        template = add_variable(line, template, err);
        if (!template)
            return -EINVAL;
    }
    return 0;
}

static bool is_named(const struct line *line, const ProtobufCFieldDescriptor *field)
{
    for (size_t i = 0; i < line->named_count; i++) {
        if (line->named[i] == field)
            return true;
    }
    return false;
}

static void add_query(struct line *line)
{
    char separator = '?';

    for (unsigned i = 0; i < line->message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &line->message->descriptor->fields[i];
        autodone(buf) struct buf value = BUF_EMPTY;

        if (field->label == PROTOBUF_C_LABEL_REPEATED || is_named(line, field) || !add_value(line->message, field, &value))
            continue;
        buf_addf(line->out, "%c%s=", separator, field->name);
        add_encoded(line->out, value.data, value.len, "");
        separator = '&';
    }
}

int request_line_add(const struct method *method, const ProtobufCMessage *request, const struct method_route **ret_route,
                     struct buf *out, struct buf *body, struct err *err)
{
    const struct method_route *route = &method->routes[0];
    struct line line = { .message = request, .out = out };
    int r;

    if (route->body == METHOD_BODY_BYTES) {
        const ProtobufCFieldDescriptor *field = field_find(request->descriptor, "metadata", strlen("metadata"));
        line.message = *(const ProtobufCMessage *const *) field_member(request, field);
    }
    r = add_path(&line, route->path, err);
    if (r < 0)
        return r;
    if (route->body == METHOD_BODY_JSON)
        json_message_add(body, request);
    else
        add_query(&line);
    *ret_route = route;
    return 0;
}
