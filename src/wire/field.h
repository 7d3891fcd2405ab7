/*
 * The layout of messages as tables, one for encoding and decoding, so that the two cannot differ.
 *
 * A field maps a member of a struct to its form in the payload. Members may be wider than their form: encoding drops the upper
 * bits, decoding clears them. The encoder and the decoder of a message check its values besides.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/reader.h"
#include "wire/writer.h"

enum field_type {
    FIELD_END, /* ends a table */
    FIELD_U8,
    FIELD_U16,
    FIELD_U32,
    FIELD_U64,
    FIELD_TEXT,   /* a char array, as a string */
    FIELD_STRING, /* a pointer, as a string; NULL as "" */
    FIELD_BYTES,  /* a pointer; the number of bytes is another member, whose field precedes this one */
};

struct field {
    uint8_t type;
    uint16_t offset;
    uint16_t size; /* of the member; STRING: of the longest string, including its NUL; BYTES: of the member with the number */
    uint16_t len_offset; /* BYTES: of that member */
};

#define FIELD_SIZE(struct_type, member) sizeof(((struct_type *) 0)->member)
#define FIELD_OF(field_type, struct_type, member)                                                                              \
    {                                                                                                                          \
        .type = (field_type), .offset = offsetof(struct_type, member), .size = FIELD_SIZE(struct_type, member)                 \
    }
#define FIELD_STRING_OF(struct_type, member, cap)                                                                              \
    {                                                                                                                          \
        .type = FIELD_STRING, .offset = offsetof(struct_type, member), .size = (cap)                                           \
    }
#define FIELD_BYTES_OF(struct_type, member, len_member)                                                                        \
    {                                                                                                                          \
        .type = FIELD_BYTES, .offset = offsetof(struct_type, member), .size = FIELD_SIZE(struct_type, len_member),             \
        .len_offset = offsetof(struct_type, len_member)                                                                        \
    }

#define LAYOUT_FIELDS_MAX 13

/* The fields of a type of message. A type without a layout has none. */
struct layout {
    unsigned type;
    struct field fields[LAYOUT_FIELDS_MAX + 1];
};

/* Strings and bytes that are read are borrowed from the reader. `to` must be zeroed. */
void fields_write(const struct field *fields, const void *from, struct writer *w);
void fields_read(const struct field *fields, void *to, struct reader *r);

void layout_write(const struct layout *layouts, size_t count, unsigned type, const void *from, struct writer *w);
void layout_read(const struct layout *layouts, size_t count, unsigned type, void *to, struct reader *r);
