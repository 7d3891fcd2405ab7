/*
 * Puts a payload together in the caller's memory: the counterpart of reader.h.
 *
 * What does not fit makes it fail, nothing is written past the end, and writer_end() says so once for all fields.
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
void writer_string(struct writer *writer, const char *string); /* with its NUL */

/* 0, or -EMSGSIZE when something did not fit. */
int writer_end(const struct writer *writer);
