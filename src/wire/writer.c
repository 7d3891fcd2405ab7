#include "wire/writer.h"

#include <errno.h>
#include <string.h>

void writer_init(struct writer *writer, void *bytes, size_t cap)
{
    *writer = (struct writer){ .bytes = bytes, .cap = cap };
}

void writer_bytes(struct writer *writer, const void *bytes, size_t len)
{
    if (writer->failed || len > writer->cap - writer->len) {
        writer->failed = true;
        return;
    }
    if (len > 0)
        memcpy(writer->bytes + writer->len, bytes, len);
    writer->len += len;
}

static void writer_number(struct writer *writer, uint64_t value, size_t len)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t) (value >> (8 * i));
    writer_bytes(writer, bytes, len);
}

void writer_u8(struct writer *writer, uint8_t value)
{
    writer_number(writer, value, 1);
}

void writer_u16(struct writer *writer, uint16_t value)
{
    writer_number(writer, value, 2);
}

void writer_u32(struct writer *writer, uint32_t value)
{
    writer_number(writer, value, 4);
}

void writer_u64(struct writer *writer, uint64_t value)
{
    writer_number(writer, value, 8);
}

void writer_string(struct writer *writer, const char *string)
{
    writer_bytes(writer, string, strlen(string) + 1);
}

int writer_end(const struct writer *writer)
{
    return writer->failed ? -EMSGSIZE : 0;
}
