/* JSON to messages. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "rest/field_text.h"
#include "rest/json_message.h"
#include "rest/json_text.h"

#define FIELDS_MAX 256

/* Where in the message we are, outwards, so that a refusal can say so. */
struct json_spot {
    const struct json_spot *outer; /* NULL: the message itself is the outermost */
    const char *name;              /* of the field */
    ptrdiff_t index;               /* in a list; -1: in none */
};

struct json_message_reader {
    struct json_text text;
    size_t budget;
    bool only_known; /* fields that are not known are refused */
    struct err *err;
};

static void add_spot(struct buf *out, const struct json_spot *spot)
{
    if (spot->outer) {
        add_spot(out, spot->outer);
        buf_add_char(out, '.');
    }
    buf_add_str(out, spot->name);
    if (spot->index >= 0)
        buf_addf(out, "[%td]", spot->index);
}

static int reject_at(struct json_message_reader *reader, const struct json_spot *spot, int r)
{
    autodone(buf) struct buf where = BUF_EMPTY;

    add_spot(&where, spot);
    return err_wrap(reader->err, r, "field '%s'", where.data);
}

static int reject_kind(struct json_message_reader *reader, const struct json_spot *spot, const char *wanted,
                       enum json_kind kind)
{
    return reject_at(reader, spot, err_invalid(reader->err, "must be %s, not %s", wanted, json_kind_name(kind)));
}

static int read_message(struct json_message_reader *reader, ProtobufCMessage *message, const struct json_spot *spot);

static int read_bool(struct json_message_reader *reader, const ProtobufCFieldDescriptor *field, const struct json_spot *spot,
                     void *member)
{
    bool truth;
    int r = json_text_bool(&reader->text, &truth, reader->err);

    if (r < 0)
        return r;
    if (field->type != PROTOBUF_C_TYPE_BOOL)
        return reject_at(reader, spot, err_invalid(reader->err, "cannot be true or false"));
    *(protobuf_c_boolean *) member = truth;
    return 0;
}

static int read_object(struct json_message_reader *reader, const ProtobufCFieldDescriptor *field, const struct json_spot *spot,
                       void *member)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field_well_known(field) != FIELD_WELL_KNOWN_NOT)
        return reject_at(reader, spot, err_invalid(reader->err, "cannot be an object"));
    ProtobufCMessage *message = field_new_message(&reader->budget, field->descriptor);
    if (!message)
        return reject_at(reader, spot, field_text_reject_size(reader->err));
    /* It belongs to its parent from now on, which frees it if what follows is refused. */
    *(ProtobufCMessage **) member = message;
    return read_message(reader, message, spot);
}

/* One value that is neither null nor a list, into memory that holds the default. */
static int read_value(struct json_message_reader *reader, const ProtobufCFieldDescriptor *field, const struct json_spot *spot,
                      void *member)
{
    autodone(buf) struct buf string = BUF_EMPTY;
    enum json_kind kind = json_text_peek(&reader->text);
    const char *number;
    size_t len;
    int r;

    switch (kind) {
    case JSON_KIND_STRING:
        r = json_text_string(&reader->text, &string, reader->err);
        if (r < 0)
            return r;
        r = field_text_put(field, FIELD_TEXT_STRING, string.data ? string.data : "", string.len, &reader->budget, member,
                           reader->err);
        return r < 0 ? reject_at(reader, spot, r) : 0;
    case JSON_KIND_NUMBER:
        r = json_text_number(&reader->text, &number, &len, reader->err);
        if (r < 0)
            return r;
        r = field_text_put(field, FIELD_TEXT_NUMBER, number, len, &reader->budget, member, reader->err);
        return r < 0 ? reject_at(reader, spot, r) : 0;
    case JSON_KIND_BOOL:
        return read_bool(reader, field, spot, member);
    case JSON_KIND_OBJECT:
        return read_object(reader, field, spot, member);
    case JSON_KIND_LIST:
    case JSON_KIND_NULL:
        return reject_at(reader, spot, err_invalid(reader->err, "cannot be %s", json_kind_name(kind)));
    case JSON_KIND_END:
    case JSON_KIND_BAD:
        break;
    }
    return json_text_skip(&reader->text, reader->err);
}

static int read_list(struct json_message_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     const struct json_spot *spot)
{
    struct json_spot here = *spot;
    int r;

    if (json_text_peek(&reader->text) != JSON_KIND_LIST)
        return reject_kind(reader, spot, "a list", json_text_peek(&reader->text));
    r = json_text_enter(&reader->text, reader->err);
    for (here.index = 0; r >= 0; here.index++) {
        r = json_text_next(&reader->text, here.index == 0, ']', reader->err);
        if (r <= 0)
            return r;
        void *element = field_append(message, field, &reader->budget);
        if (!element)
            return reject_at(reader, spot, field_text_reject_size(reader->err));
        r = read_value(reader, field, &here, element);
    }
    return r;
}

static int read_entry(struct json_message_reader *reader, ProtobufCMessage *entry, const struct json_spot *spot)
{
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    autodone(buf) struct buf key = BUF_EMPTY;
    int r;

    r = json_text_key(&reader->text, &key, reader->err);
    if (r < 0)
        return r;
    r = field_text_put(&fields[0], FIELD_TEXT_KEY, key.data ? key.data : "", key.len, &reader->budget,
                       field_member(entry, &fields[0]), reader->err);
    if (r < 0)
        return reject_at(reader, spot, err_wrap(reader->err, r, "a key"));
    return read_value(reader, &fields[1], spot, field_member(entry, &fields[1]));
}

static int compare_keys(const void *a, const void *b)
{
    const ProtobufCMessage *one = *(ProtobufCMessage *const *) a, *two = *(ProtobufCMessage *const *) b;
    const ProtobufCFieldDescriptor *key = &one->descriptor->fields[0];
    const void *first = field_member(one, key), *second = field_member(two, key);

    if (key->type == PROTOBUF_C_TYPE_STRING)
        return strcmp(*(const char *const *) first, *(const char *const *) second);
    return memcmp(first, second, field_size(key));
}

/* By sorting: a stranger chooses how many there are. The order of the entries stays theirs. */
static bool has_double_key(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t count = *field_count(message, field);

    if (count < 2)
        return false;
    autofree ProtobufCMessage **sorted = xgrow(NULL, count, sizeof(*sorted));
    memcpy(sorted, *(void **) field_member(message, field), count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_keys);
    for (size_t i = 1; i < count; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            return true;
    return false;
}

static int read_map(struct json_message_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                    const struct json_spot *spot)
{
    int r;

    if (json_text_peek(&reader->text) != JSON_KIND_OBJECT)
        return reject_kind(reader, spot, "an object", json_text_peek(&reader->text));
    r = json_text_enter(&reader->text, reader->err);
    for (bool is_first = true; r >= 0; is_first = false) {
        r = json_text_next(&reader->text, is_first, '}', reader->err);
        if (r <= 0)
            break;
        ProtobufCMessage *entry = field_new_message(&reader->budget, field->descriptor);
        ProtobufCMessage **element = entry ? field_append(message, field, &reader->budget) : NULL;
        if (!element) {
            free(entry);
            return reject_at(reader, spot, field_text_reject_size(reader->err));
        }
        *element = entry;
        r = read_entry(reader, entry, spot);
    }
    if (r == 0 && has_double_key(message, field))
        return reject_at(reader, spot, err_invalid(reader->err, "the same key twice"));
    return r;
}

static int read_field(struct json_message_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                      const struct json_spot *spot)
{
    if (json_text_peek(&reader->text) == JSON_KIND_NULL)
        return json_text_null(&reader->text, reader->err);
    switch (field_shape(message->descriptor, field)) {
    case FIELD_MAP:
        return read_map(reader, message, field, spot);
    case FIELD_REPEATED:
        return read_list(reader, message, field, spot);
    case FIELD_SINGLE:
        break;
    }
    if (!field_choose(message, field))
        return reject_at(reader, spot, err_invalid(reader->err, "another of its group has been given already"));
    return read_value(reader, field, spot, field_member(message, field));
}

static int reject_unknown(struct json_message_reader *reader, const struct json_spot *spot, const struct buf *key)
{
    int r = err_reject(reader->err, -EINVAL, key->data ? key->data : "", "is not known");

    return spot ? reject_at(reader, spot, r) : r;
}

static int read_message(struct json_message_reader *reader, ProtobufCMessage *message, const struct json_spot *spot)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    uint64_t seen[FIELDS_MAX / 64] = { 0 };
    int r = json_text_enter(&reader->text, reader->err);

    for (bool is_first = true; r >= 0; is_first = false) {
        autodone(buf) struct buf key = BUF_EMPTY;

        r = json_text_next(&reader->text, is_first, '}', reader->err);
        if (r <= 0)
            return r;
        r = json_text_key(&reader->text, &key, reader->err);
        if (r < 0)
            return r;
        const ProtobufCFieldDescriptor *field = field_find(descriptor, key.data ? key.data : "", key.len);
        if (!field && reader->only_known)
            return reject_unknown(reader, spot, &key);
        if (!field) {
            r = json_text_skip(&reader->text, reader->err);
            continue;
        }
        struct json_spot here = { .outer = spot, .name = field->name, .index = -1 };
        size_t nth = (size_t) (field - descriptor->fields);
        if (seen[nth / 64] & UINT64_C(1) << nth % 64)
            return reject_at(reader, &here, err_invalid(reader->err, "given twice"));
        seen[nth / 64] |= UINT64_C(1) << nth % 64;
        r = read_field(reader, message, field, &here);
    }
    return r;
}

static int read_all(struct json_message_reader *reader, ProtobufCMessage *message)
{
    enum json_kind kind = json_text_peek(&reader->text);
    int r;

    if (kind == JSON_KIND_END)
        return 0;
    if (kind == JSON_KIND_BAD)
        return json_text_skip(&reader->text, reader->err);
    if (kind != JSON_KIND_OBJECT)
        return err_invalid(reader->err, "the body must be a JSON object, not %s", json_kind_name(kind));
    r = read_message(reader, message, NULL);
    return r < 0 ? r : json_text_finish(&reader->text, reader->err);
}

static int parse(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, bool only_known,
                 ProtobufCMessage **ret, struct err *err)
{
    struct json_message_reader reader = { .text = { .start = text, .at = text, .end = text + len },
                                          .budget = JSON_MESSAGE_MEMORY_MAX,
                                          .only_known = only_known,
                                          .err = err };
    ProtobufCMessage *message = field_new_message(&reader.budget, descriptor);
    int r;

    if (!message)
        return field_text_reject_size(err);
    r = read_all(&reader, message);
    if (r < 0) {
        protobuf_c_message_free_unpacked(message, NULL);
        return r;
    }
    *ret = message;
    return 0;
}

int json_message_parse(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, ProtobufCMessage **ret,
                       struct err *err)
{
    return parse(descriptor, text, len, false, ret, err);
}

int json_message_parse_known(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, ProtobufCMessage **ret,
                             struct err *err)
{
    return parse(descriptor, text, len, true, ret, err);
}
