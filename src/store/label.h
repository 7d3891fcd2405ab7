/* Labels: pairs of texts that an owner attaches to a sandbox, kept in their order. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define LABEL_COUNT_MAX 64

struct label {
    char *key;   /* owned */
    char *value; /* owned */
};

struct label_list {
    struct label *items; /* owned */
    size_t count;
    size_t cap;
};

void label_list_add(struct label_list *list, const char *key, const char *value); /* copies */
void label_list_done(struct label_list *list);
const char *label_list_get(const struct label_list *list, const char *key); /* or NULL */

/* Encodes the labels in one text. Separators inside keys and values are escaped, so that a search for one label's text finds
 * exactly that label. */
void label_add_text(struct buf *out, const char *key, const char *value);
void label_list_add_text(const struct label_list *list, struct buf *out);
int label_list_parse(const char *text, size_t len, struct label_list *ret); /* -EUCLEAN */
