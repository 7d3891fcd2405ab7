/*
 * Decodes an untrusted payload field by field.
 *
 * A reader borrows the bytes and never reads past their end. The first field that does not fit fails the reader. Afterwards all
 * fields are zero and reader_end() reports the failure, so a decoder reads all fields and checks once. Numbers are little
 * endian.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
    const uint8_t *at; /* borrowed */
    size_t left;
    bool failed;
};

void reader_init(struct reader *reader, const void *bytes, size_t len);

uint8_t reader_u8(struct reader *reader);
uint16_t reader_u16(struct reader *reader);
uint32_t reader_u32(struct reader *reader);
uint64_t reader_u64(struct reader *reader);

/* Returns the next `len` bytes, borrowed, or NULL if there are fewer. */
const void *reader_bytes(struct reader *reader, size_t len);

/* Returns the next string, borrowed, or NULL if the next `cap` bytes contain no NUL. */
const char *reader_string(struct reader *reader, size_t cap);

/* For a decoder that refuses a value. */
void reader_fail(struct reader *reader);

/* Returns 0 if everything was read and no bytes are left, otherwise -EPROTO. */
int reader_end(const struct reader *reader);
