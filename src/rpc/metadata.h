/*
 * A request's header fields, and gRPC's encodings in them: base64 for bytes, timeouts, percent-encoded texts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define METADATA_FIELDS_MAX 64

/* Zeroed is empty. */
struct metadata {
    struct buf text; /* names and values, each with its NUL */
    struct {
        uint32_t name, value; /* offsets in `text` */
    } fields[METADATA_FIELDS_MAX];
    size_t count;
    size_t size_bytes; /* counted as HTTP/2 does for its limit */
    size_t size_max;
    bool is_too_large; /* some fields were dropped */
};

void metadata_done(struct metadata *metadata);

/* Copies. Decodes the value of a name that ends in "-bin", and drops the field if it is not valid base64. */
void metadata_add(struct metadata *metadata, const void *name, size_t name_len, const void *value, size_t value_len);

/* Returns the first field of that lower-case name, or NULL. Valid until the next metadata_add(). */
const char *metadata_get(const struct metadata *metadata, const char *name);

/* Parses gRPC's timeouts, such as "100m". -EINVAL. Values too large for `ret_ns` become the largest possible. */
int metadata_parse_timeout(const char *text, int64_t *ret_ns);

bool metadata_is_binary(const char *name);

/* Base64 without padding, as gRPC's libraries send it. */
void metadata_add_base64(struct buf *out, const void *bytes, size_t len);

/* For grpc-message: writes the percent sign and all except printable ASCII characters as %XX. */
void metadata_add_percent(struct buf *out, const char *text);
