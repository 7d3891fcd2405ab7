#include "wire/field.h"

#include <string.h>

static uint64_t load_number(const void *at, size_t size)
{
    switch (size) {
    case 1:
        return *(const uint8_t *) at;
    case 2:
        return *(const uint16_t *) at;
    case 4:
        return *(const uint32_t *) at;
    default:
        return *(const uint64_t *) at;
    }
}

static void store_number(void *at, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(uint8_t *) at = (uint8_t) value;
        break;
    case 2:
        *(uint16_t *) at = (uint16_t) value;
        break;
    case 4:
        *(uint32_t *) at = (uint32_t) value;
        break;
    default:
        *(uint64_t *) at = value;
    }
}

void fields_write(const struct field *fields, const void *from, struct writer *w)
{
    for (; fields->type != FIELD_END; fields++) {
        const char *at = (const char *) from + fields->offset, *text;

        switch (fields->type) {
        case FIELD_U8:
            writer_u8(w, (uint8_t) load_number(at, fields->size));
            break;
        case FIELD_U16:
            writer_u16(w, (uint16_t) load_number(at, fields->size));
            break;
        case FIELD_U32:
            writer_u32(w, (uint32_t) load_number(at, fields->size));
            break;
        case FIELD_U64:
            writer_u64(w, load_number(at, fields->size));
            break;
        case FIELD_TEXT:
            writer_string(w, at);
            break;
        case FIELD_STRING:
            text = *(const char *const *) at;
            writer_string(w, text ? text : "");
            break;
        default:
            writer_bytes(w, *(const void *const *) at,
                         (size_t) load_number((const char *) from + fields->len_offset, fields->size));
        }
    }
}

void fields_read(const struct field *fields, void *to, struct reader *r)
{
    for (; fields->type != FIELD_END; fields++) {
        char *at = (char *) to + fields->offset;
        const char *text;

        switch (fields->type) {
        case FIELD_U8:
            store_number(at, fields->size, reader_u8(r));
            break;
        case FIELD_U16:
            store_number(at, fields->size, reader_u16(r));
            break;
        case FIELD_U32:
            store_number(at, fields->size, reader_u32(r));
            break;
        case FIELD_U64:
            store_number(at, fields->size, reader_u64(r));
            break;
        case FIELD_TEXT:
            text = reader_string(r, fields->size);
            if (text)
                memcpy(at, text, strlen(text) + 1);
            break;
        case FIELD_STRING:
            *(const char **) at = reader_string(r, fields->size);
            break;
        default:
            *(const void **) at = reader_bytes(r, (size_t) load_number((char *) to + fields->len_offset, fields->size));
        }
    }
}

static const struct field *layout_find(const struct layout *layouts, size_t count, unsigned type)
{
    static const struct field none = { .type = FIELD_END };

    for (size_t i = 0; i < count; i++)
        if (layouts[i].type == type)
            return layouts[i].fields;
    return &none;
}

void layout_write(const struct layout *layouts, size_t count, unsigned type, const void *from, struct writer *w)
{
    fields_write(layout_find(layouts, count, type), from, w);
}

void layout_read(const struct layout *layouts, size_t count, unsigned type, void *to, struct reader *r)
{
    fields_read(layout_find(layouts, count, type), to, r);
}
