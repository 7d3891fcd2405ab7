#include "rest/field_text.h"

#include <errno.h>
#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "rest/base64.h"
#include "rest/decimal.h"

#define NUMBER_TEXT_MAX 400             /* longer than any double needs */
#define DURATION_MAX_SEC 315576000000LL /* 10000 years, as protobuf has it */

int field_text_reject_size(struct err *err)
{
    return err_set(err, ERR_INVALID_ARGUMENT, -ENOMEM, "the message is too large");
}

struct integer_range {
    __int128 min, max;
};

static struct integer_range range_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return (struct integer_range){ 0, UINT32_MAX };
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return (struct integer_range){ 0, UINT64_MAX };
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return (struct integer_range){ INT64_MIN, INT64_MAX };
    default:
        return (struct integer_range){ INT32_MIN, INT32_MAX };
    }
}

static int put_integer(const ProtobufCFieldDescriptor *field, const char *text, size_t len, void *member, struct err *err)
{
    struct integer_range range = range_of(field->type);
    __int128 value;
    int r = decimal_parse(text, len, 0, &value);

    if (r == -EINVAL || r == -EDOM)
        return err_invalid(err, "must be a whole number");
    if (r < 0 || value < range.min || value > range.max)
        return err_invalid(err, "is out of range");
    /* The bits are the same, whether the type has a sign or not. */
    if (field_size(field) == 4)
        *(uint32_t *) member = (uint32_t) value;
    else
        *(uint64_t *) member = (uint64_t) value;
    return 0;
}

static int parse_real(enum field_text_kind kind, const char *text, size_t len, double *ret)
{
    static const struct {
        const char *name;
        double value;
    } names[] = { { "NaN", NAN }, { "Infinity", INFINITY }, { "-Infinity", -INFINITY } };
    char copy[NUMBER_TEXT_MAX];

    for (size_t i = 0; kind != FIELD_TEXT_NUMBER && i < ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == len && memcmp(names[i].name, text, len) == 0) {
            *ret = names[i].value;
            return 0;
        }
    if (len >= sizeof(copy) || !decimal_is_number(text, len))
        return -EINVAL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret = strtod(copy, NULL);
    return isfinite(*ret) ? 0 : -ERANGE;
}

static int put_real(const ProtobufCFieldDescriptor *field, enum field_text_kind kind, const char *text, size_t len,
                    void *member, struct err *err)
{
    double value;
    int r = parse_real(kind, text, len, &value);

    if (r == -EINVAL)
        return err_invalid(err, "must be a number");
    if (r < 0 || (field->type == PROTOBUF_C_TYPE_FLOAT && isfinite(value) && !isfinite((float) value)))
        return err_invalid(err, "is out of range");
    if (field->type == PROTOBUF_C_TYPE_FLOAT)
        *(float *) member = (float) value;
    else
        *(double *) member = value;
    return 0;
}

static bool is_one_of(const char *const *words, size_t count, const char *text, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return true;
    return false;
}

static int put_bool(enum field_text_kind kind, const char *text, size_t len, void *member, struct err *err)
{
    /* The words that Go's ParseBool takes, because clients of its gateway may send any of them; a key of a map has the first alone. */
    static const char *const yes[] = { "true", "1", "t", "T", "TRUE", "True" }, *const no[] = { "false", "0",     "f",
                                                                                                "F",     "FALSE", "False" };
    size_t count = kind == FIELD_TEXT_KEY ? 1 : ARRAY_LEN(yes);
    bool may = kind == FIELD_TEXT_KEY || kind == FIELD_TEXT_PLAIN;

    if (may && is_one_of(yes, count, text, len))
        *(protobuf_c_boolean *) member = 1;
    else if (may && is_one_of(no, count, text, len))
        *(protobuf_c_boolean *) member = 0;
    else
        return err_invalid(err, "must be true or false");
    return 0;
}

static int put_enum(const ProtobufCFieldDescriptor *field, enum field_text_kind kind, const char *text, size_t len,
                    void *member, struct err *err)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    autofree char *name = NULL;

    if (kind == FIELD_TEXT_NUMBER || (kind == FIELD_TEXT_PLAIN && decimal_is_number(text, len)))
        return put_integer(field, text, len, member, err);
    if (len > 256 || memchr(text, '\0', len))
        return err_invalid(err, "is no name of %s", descriptor->name);
    name = xdupn(text, len);
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(descriptor, name);
    if (!value) {
        char why[160];
        snprintf(why, sizeof(why), "is no name of %s", descriptor->name);
        return err_reject(err, -EINVAL, name, why);
    }
    *(int *) member = value->value;
    return 0;
}

static int put_string(const char *text, size_t len, size_t *budget, void *member, struct err *err)
{
    if (memchr(text, '\0', len))
        return err_invalid(err, "contains a NUL character");
    if (!utf8_is_valid(text, len))
        return err_invalid(err, "is not UTF-8");
    char *copy = field_alloc(budget, len + 1);
    if (!copy)
        return field_text_reject_size(err);
    memcpy(copy, text, len);
    *(char **) member = copy;
    return 0;
}

static int put_bytes(const char *text, size_t len, size_t *budget, void *member, struct err *err)
{
    ProtobufCBinaryData *data = member;

    if (len == 0)
        return 0;
    autofree uint8_t *bytes = field_alloc(budget, BASE64_DECODED_MAX(len));
    if (!bytes)
        return field_text_reject_size(err);
    ptrdiff_t count = base64_decode(text, len, bytes);
    if (count < 0)
        return err_invalid(err, "is not base64");
    data->len = (size_t) count;
    data->data = steal_ptr(&bytes);
    return 0;
}

/* "-1.5s", or a number of seconds. */
static int parse_duration(enum field_text_kind kind, const char *text, size_t len, __int128 *ret_ns)
{
    bool has_unit = len > 0 && text[len - 1] == 's';

    if (kind == FIELD_TEXT_STRING && !has_unit)
        return -EINVAL;
    if (has_unit) {
        len--;
        /* No exponents here: a text of this form has none in any other implementation. */
        if (memchr(text, 'e', len) || memchr(text, 'E', len))
            return -EINVAL;
    }
    return decimal_parse(text, len, 9, ret_ns);
}

static int put_duration(enum field_text_kind kind, const char *text, size_t len, size_t *budget, void *member, struct err *err)
{
    __int128 ns;
    int r = parse_duration(kind, text, len, &ns);

    if (r == -EDOM)
        return err_invalid(err, "has more than nine digits behind the point");
    if (r == -EINVAL)
        return err_invalid(err, "must be a duration like \"30s\" or a number of seconds");
    if (r < 0 || ns > (__int128) DURATION_MAX_SEC * CLOCK_NS_PER_SEC || ns < -(__int128) DURATION_MAX_SEC * CLOCK_NS_PER_SEC)
        return err_invalid(err, "is out of range");
    Google__Protobuf__Duration *duration = (void *) field_new_message(budget, &google__protobuf__duration__descriptor);
    if (!duration)
        return field_text_reject_size(err);
    duration->seconds = (int64_t) (ns / CLOCK_NS_PER_SEC);
    duration->nanos = (int32_t) (ns % CLOCK_NS_PER_SEC);
    *(Google__Protobuf__Duration **) member = duration;
    return 0;
}

static int put_timestamp(enum field_text_kind kind, const char *text, size_t len, size_t *budget, void *member, struct err *err)
{
    struct timespec time;
    char copy[64];
    int r;

    if (kind == FIELD_TEXT_NUMBER || len >= sizeof(copy) || memchr(text, '\0', len))
        return err_invalid(err, "must be a time like \"2026-01-02T03:04:05Z\"");
    memcpy(copy, text, len);
    copy[len] = '\0';
    r = clock_parse(copy, &time, err);
    if (r < 0)
        return r;
    Google__Protobuf__Timestamp *timestamp = (void *) field_new_message(budget, &google__protobuf__timestamp__descriptor);
    if (!timestamp)
        return field_text_reject_size(err);
    timestamp->seconds = time.tv_sec;
    timestamp->nanos = (int32_t) time.tv_nsec;
    *(Google__Protobuf__Timestamp **) member = timestamp;
    return 0;
}

static int put_message(const ProtobufCFieldDescriptor *field, enum field_text_kind kind, const char *text, size_t len,
                       size_t *budget, void *member, struct err *err)
{
    switch (field_well_known(field)) {
    case FIELD_WELL_KNOWN_TIMESTAMP:
        return put_timestamp(kind, text, len, budget, member, err);
    case FIELD_WELL_KNOWN_DURATION:
        return put_duration(kind, text, len, budget, member, err);
    case FIELD_WELL_KNOWN_NOT:
        break;
    }
    return err_invalid(err, kind == FIELD_TEXT_PLAIN ? "cannot be given here" : "must be an object");
}

int field_text_put(const ProtobufCFieldDescriptor *field, enum field_text_kind kind, const char *text, size_t len,
                   size_t *budget, void *member, struct err *err)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return kind == FIELD_TEXT_NUMBER ? err_invalid(err, "must be a string, not a number")
                                         : put_string(text, len, budget, member, err);
    case PROTOBUF_C_TYPE_BYTES:
        return kind == FIELD_TEXT_NUMBER ? err_invalid(err, "must be a string of base64")
                                         : put_bytes(text, len, budget, member, err);
    case PROTOBUF_C_TYPE_BOOL:
        return put_bool(kind, text, len, member, err);
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(field, kind, text, len, member, err);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_real(field, kind, text, len, member, err);
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(field, kind, text, len, budget, member, err);
    default:
        return put_integer(field, text, len, member, err);
    }
}

int field_text_assign(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const char *text, size_t len,
                      size_t *budget, struct err *err)
{
    void *member;
    int r;

    if (field_shape(message->descriptor, field) == FIELD_MAP)
        return err_invalid(err, "field '%s': cannot be given here", field->name);
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        member = field_append(message, field, budget);
        if (!member)
            return field_text_reject_size(err);
    } else {
        field_clear(message, field);
        if (!field_choose(message, field))
            return err_invalid(err, "field '%s': another of its group has been given already", field->name);
        member = field_member(message, field);
    }
    r = field_text_put(field, FIELD_TEXT_PLAIN, text, len, budget, member, err);
    return r < 0 ? err_wrap(err, r, "field '%s'", field->name) : 0;
}

int field_text_add_timestamp(struct buf *out, const ProtobufCMessage *message)
{
    const Google__Protobuf__Timestamp *timestamp = (const void *) message;
    struct timespec time = { .tv_sec = timestamp->seconds, .tv_nsec = timestamp->nanos };
    char text[CLOCK_TEXT_MAX];
    int r = clock_format(time, CLOCK_DIGITS_FEWEST, text);

    if (r < 0)
        return r;
    buf_add_str(out, text);
    return 0;
}

int field_text_add_duration(struct buf *out, const ProtobufCMessage *message)
{
    const Google__Protobuf__Duration *duration = (const void *) message;
    int64_t sec = duration->seconds, ns = duration->nanos;

    /* Both parts of a negative span are negative. */
    if (sec > DURATION_MAX_SEC || sec < -DURATION_MAX_SEC || ns <= -CLOCK_NS_PER_SEC || ns >= CLOCK_NS_PER_SEC ||
        (sec < 0 && ns > 0) || (sec > 0 && ns < 0))
        return -ERANGE;
    bool is_negative = sec < 0 || ns < 0;
    sec = is_negative ? -sec : sec;
    ns = is_negative ? -ns : ns;
    buf_addf(out, "%s%" PRId64, is_negative ? "-" : "", sec);
    if (ns % 1000000 == 0 && ns)
        buf_addf(out, ".%03" PRId64, ns / 1000000);
    else if (ns % 1000 == 0 && ns)
        buf_addf(out, ".%06" PRId64, ns / 1000);
    else if (ns)
        buf_addf(out, ".%09" PRId64, ns);
    buf_add_char(out, 's');
    return 0;
}
