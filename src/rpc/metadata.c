#include "rpc/metadata.h"

#include <errno.h>
#include <nettle/base64.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* HTTP/2 counts a field as its name, its value and this (RFC 9113, 6.5.2). */
#define FIELD_OVERHEAD 32

void metadata_done(struct metadata *metadata)
{
    buf_done(&metadata->text);
    *metadata = (struct metadata){ 0 };
}

bool metadata_is_binary(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, "-bin") == 0;
}

static int metadata_add_decoded(struct buf *out, const char *value, size_t len)
{
    struct base64_decode_ctx ctx;
    size_t decoded = 0;

    base64_decode_init(&ctx);
    buf_room(out, BASE64_DECODE_LENGTH(len));
    if (!base64_decode_update(&ctx, &decoded, (uint8_t *) out->data + out->len, len, value))
        return -EINVAL;
    out->len += decoded;
    return 0;
}

static void metadata_add_text(struct buf *out, const void *text, size_t len)
{
    buf_add(out, text, len);
    buf_add_char(out, '\0');
}

void metadata_add(struct metadata *metadata, const void *name, size_t name_len, const void *value, size_t value_len)
{
    struct buf *text = &metadata->text;
    size_t begin = text->len, value_begin;

    metadata->size_bytes += name_len + value_len + FIELD_OVERHEAD;
    if (metadata->size_bytes > metadata->size_max || metadata->count == METADATA_FIELDS_MAX)
        metadata->is_too_large = true;
    if (metadata->is_too_large)
        return;
    metadata_add_text(text, name, name_len);
    value_begin = text->len;
    if (!metadata_is_binary(text->data + begin)) {
        metadata_add_text(text, value, value_len);
    } else if (metadata_add_decoded(text, value, value_len) == 0) {
        buf_add_char(text, '\0');
    } else {
        text->len = begin;
        return;
    }
    metadata->fields[metadata->count].name = (uint32_t) begin;
    metadata->fields[metadata->count++].value = (uint32_t) value_begin;
}

const char *metadata_get(const struct metadata *metadata, const char *name)
{
    for (size_t i = 0; i < metadata->count; i++) {
        if (strcmp(metadata->text.data + metadata->fields[i].name, name) == 0)
            return metadata->text.data + metadata->fields[i].value;
    }
    return NULL;
}

int metadata_parse_timeout(const char *text, int64_t *ret_ns)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = { { 'H', 3600 * CLOCK_NS_PER_SEC },
                  { 'M', 60 * CLOCK_NS_PER_SEC },
                  { 'S', CLOCK_NS_PER_SEC },
                  { 'm', CLOCK_NS_PER_MS },
                  { 'u', 1000 },
                  { 'n', 1 } };
    int64_t value = 0, ns;
    size_t digits = strspn(text, "0123456789");

    /* gRPC allows at most eight digits. */
    if (digits == 0 || digits > 8 || text[digits] == '\0' || text[digits + 1] != '\0')
        return -EINVAL;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (text[i] - '0');
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (units[i].unit == text[digits]) {
            *ret_ns = __builtin_mul_overflow(value, units[i].ns, &ns) ? INT64_MAX : ns;
            return 0;
        }
    }
    return -EINVAL;
}

void metadata_add_base64(struct buf *out, const void *bytes, size_t len)
{
    buf_room(out, BASE64_ENCODE_RAW_LENGTH(len));
    base64_encode_raw(out->data + out->len, len, bytes);
    out->len += BASE64_ENCODE_RAW_LENGTH(len);
    while (out->len > 0 && out->data[out->len - 1] == '=')
        out->len--;
    out->data[out->len] = '\0';
}

void metadata_add_percent(struct buf *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *) text; *c; c++) {
        if (*c >= 0x20 && *c <= 0x7e && *c != '%')
            buf_add_char(out, (char) *c);
        else
            buf_addf(out, "%%%02X", *c);
    }
}
