/*
 * Takes a payload apart, byte by byte, whoever wrote it.
 *
 * A reader borrows the bytes. It never reads past their end: the first thing that does not fit makes it fail, from then on it
 * gives zeros, and reader_end() says so at the end, so a decoder reads all its fields and asks once. Numbers are little endian.
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

/* The next `len` bytes, lent, or NULL when there are fewer. */
const void *reader_bytes(struct reader *reader, size_t len);

/* The next string, lent with its NUL, or NULL when there is no NUL within the next `cap` bytes. */
const char *reader_string(struct reader *reader, size_t cap);

/* For a decoder that found a value it refuses. */
void reader_fail(struct reader *reader);

/* 0 when everything was read and nothing is left, else -EPROTO. */
int reader_end(const struct reader *reader);
