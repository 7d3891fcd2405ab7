/*
 * Encodes a payload into the caller's memory: the counterpart of reader.h.
 *
 * A field that does not fit fails the writer. It never writes past the end, and writer_end() reports the failure once for all
 * fields.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    uint8_t *bytes; /* borrowed */
    size_t len;
    size_t cap;
    bool failed;
};

void writer_init(struct writer *writer, void *bytes, size_t cap);

void writer_u8(struct writer *writer, uint8_t value);
void writer_u16(struct writer *writer, uint16_t value);
void writer_u32(struct writer *writer, uint32_t value);
void writer_u64(struct writer *writer, uint64_t value);
void writer_bytes(struct writer *writer, const void *bytes, size_t len);
void writer_string(struct writer *writer, const char *string); /* including its NUL */

/* Returns 0, or -EMSGSIZE if a field did not fit. */
int writer_end(const struct writer *writer);
