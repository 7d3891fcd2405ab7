/*
 * The header fields of a request, as they came, and what gRPC writes into them: bytes as base64, spans of time, texts in percent signs.
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
        uint32_t name, value; /* where they begin in it */
    } fields[METADATA_FIELDS_MAX];
    size_t count;
    size_t size_bytes; /* as HTTP/2 counts them against the limit */
    size_t size_max;
    bool is_too_large; /* some were left out */
};

void metadata_done(struct metadata *metadata);

/* Copies. The value of a name that ends in "-bin" is kept decoded; one that is no base64 is left out. */
void metadata_add(struct metadata *metadata, const void *name, size_t name_len, const void *value, size_t value_len);

/* The first of that name, lower case; NULL: none. Valid until the next is added. */
const char *metadata_get(const struct metadata *metadata, const char *name);

/* "100m" as gRPC writes a timeout. -EINVAL. What is longer than can be counted is as long as can be. */
int metadata_parse_timeout(const char *text, int64_t *ret_ns);

bool metadata_is_binary(const char *name);

/* Base64 without the padding, as gRPC's libraries send it. */
void metadata_add_base64(struct buf *out, const void *bytes, size_t len);

/* grpc-message: whatever is not a printable ASCII character, and the percent sign, as %XX. */
void metadata_add_percent(struct buf *out, const char *text);
