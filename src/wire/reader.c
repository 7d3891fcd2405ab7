#include "wire/reader.h"

#include <errno.h>
#include <string.h>

void reader_init(struct reader *reader, const void *bytes, size_t len)
{
    *reader = (struct reader){ .at = bytes, .left = len };
}

void reader_fail(struct reader *reader)
{
    reader->failed = true;
    reader->left = 0;
}

const void *reader_bytes(struct reader *reader, size_t len)
{
    const uint8_t *bytes = reader->at;

    if (reader->failed || len > reader->left) {
        reader_fail(reader);
        return NULL;
    }
    if (len > 0) {
        reader->at += len;
        reader->left -= len;
    }
    return bytes;
}

static uint64_t reader_number(struct reader *reader, size_t len)
{
    const uint8_t *bytes = reader_bytes(reader, len);
    uint64_t value = 0;

    for (size_t i = 0; bytes && i < len; i++)
        value |= (uint64_t) bytes[i] << (8 * i);
    return value;
}

uint8_t reader_u8(struct reader *reader)
{
    return (uint8_t) reader_number(reader, 1);
}

uint16_t reader_u16(struct reader *reader)
{
    return (uint16_t) reader_number(reader, 2);
}

uint32_t reader_u32(struct reader *reader)
{
    return (uint32_t) reader_number(reader, 4);
}

uint64_t reader_u64(struct reader *reader)
{
    return reader_number(reader, 8);
}

const char *reader_string(struct reader *reader, size_t cap)
{
    size_t most = reader->left < cap ? reader->left : cap;
    const uint8_t *end = most > 0 ? memchr(reader->at, '\0', most) : NULL;

    if (!end) {
        reader_fail(reader);
        return NULL;
    }
    return reader_bytes(reader, (size_t) (end - reader->at) + 1);
}

int reader_end(const struct reader *reader)
{
    return reader->failed || reader->left > 0 ? -EPROTO : 0;
}
