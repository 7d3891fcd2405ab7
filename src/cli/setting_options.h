/* Parses options of the form KEY=VALUE into entries of a map of the API, and other values that several verbs take. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include <google/protobuf/duration.pb-c.h>

/* All maps of the API map text to text, so their entries have the same layout as this one. */
#include <sandbox/v1/sandbox.pb-c.h>

struct entry_list {
    Sandbox__V1__ExecRequest__EnvEntry **items; /* owned, and so are the entries and their strings */
    size_t count, cap;
};

void entry_list_done(struct entry_list *list);

/* Returns the entries as those of another map of texts. Borrowed. */
#define entry_list_as(list, type) ((type **) (void *) (list)->items)

void entry_list_add(struct entry_list *list, const char *key, size_t key_len, const char *value);

/* Adds "NAME=VALUE", or "NAME" with its value in our environment. */
int entry_list_add_env(struct entry_list *list, const char *text, struct err *err);
/* Adds lines of the form NAME=VALUE. Ignores empty lines and those that begin with #. */
int entry_list_add_env_file(struct entry_list *list, const char *path, struct err *err);
/* Adds "KEY=VALUE" from the option `name`. */
int entry_list_add_pair(struct entry_list *list, const char *name, const char *text, struct err *err);

/* Parses a positive duration such as "30s" for the option `name`. Fills in `ret`, to which a request may point. */
int parse_span(const char *name, const char *text, Google__Protobuf__Duration *ret, struct err *err);
int parse_size_above_0(const char *name, const char *text, int64_t *ret, struct err *err);
int parse_number(const char *name, const char *text, int64_t least, int64_t most, int64_t *ret, struct err *err);
