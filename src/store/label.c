#include "store/label.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* A label is ITEM key PAIR value ITEM. Inside keys and values, these characters become ESCAPE and a letter. */
#define ITEM '\x1e'
#define PAIR '\x1f'
#define ESCAPE '\x1b'

static void label_add_part(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == ITEM || *s == PAIR || *s == ESCAPE) {
            buf_add_char(out, ESCAPE);
            buf_add_char(out, (char) (*s + 0x40));
        } else {
            buf_add_char(out, *s);
        }
    }
}

void label_add_text(struct buf *out, const char *key, const char *value)
{
    buf_add_char(out, ITEM);
    label_add_part(out, key);
    buf_add_char(out, PAIR);
    label_add_part(out, value);
    buf_add_char(out, ITEM);
}

void label_list_add_text(const struct label_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++)
        label_add_text(out, list->items[i].key, list->items[i].value);
    buf_add_str(out, "");
}

static char *label_take_part(const char *text, size_t len)
{
    struct buf out = BUF_EMPTY;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == ESCAPE && i + 1 < len)
            buf_add_char(&out, (char) (text[++i] - 0x40));
        else
            buf_add_char(&out, text[i]);
    }
    return buf_dup_take(&out);
}

int label_list_parse(const char *text, size_t len, struct label_list *ret)
{
    while (len > 0) {
        const char *pair, *end;
        if (*text != ITEM || !(pair = memchr(text, PAIR, len)) || !(end = memchr(pair, ITEM, len - (size_t) (pair - text)))) {
            label_list_done(ret);
            return -EUCLEAN;
        }
        vec_room(&ret->items, &ret->cap, ret->count);
        ret->items[ret->count++] = (struct label){ .key = label_take_part(text + 1, (size_t) (pair - text) - 1),
                                                   .value = label_take_part(pair + 1, (size_t) (end - pair) - 1) };
        len -= (size_t) (end + 1 - text);
        text = end + 1;
    }
    return 0;
}

void label_list_add(struct label_list *list, const char *key, const char *value)
{
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = (struct label){ .key = xdup(key), .value = xdup(value) };
}

void label_list_done(struct label_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].value);
    }
    free(list->items);
    *list = (struct label_list){ 0 };
}

const char *label_list_get(const struct label_list *list, const char *key)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].key, key) == 0)
            return list->items[i].value;
    }
    return NULL;
}
