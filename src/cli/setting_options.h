/* Options of the form KEY=VALUE, as entries of a map of the API; and the values that several verbs read alike. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include <google/protobuf/duration.pb-c.h>

/* All maps of the API are of texts, and their entries of one shape: this one's. */
#include <sandbox/v1/sandbox.pb-c.h>

struct entry_list {
    Sandbox__V1__ExecRequest__EnvEntry **items; /* owned, each with its texts */
    size_t count, cap;
};

void entry_list_done(struct entry_list *list);

/* The entries as another map of texts has them. Borrowed. */
#define entry_list_as(list, type) ((type **) (void *) (list)->items)

void entry_list_add(struct entry_list *list, const char *key, size_t key_len, const char *value);

/* "NAME=VALUE", or "NAME" for the value that it has here. */
int entry_list_add_env(struct entry_list *list, const char *text, struct err *err);
/* Lines of the first form; empty ones and those that begin with # say nothing. */
int entry_list_add_env_file(struct entry_list *list, const char *path, struct err *err);
/* "KEY=VALUE" for the option `name`. */
int entry_list_add_pair(struct entry_list *list, const char *name, const char *text, struct err *err);

/* "30s" for the option `name`: more than nothing. `ret` is filled to be pointed to by a request. */
int parse_span(const char *name, const char *text, Google__Protobuf__Duration *ret, struct err *err);
int parse_size_above_0(const char *name, const char *text, int64_t *ret, struct err *err);
int parse_number(const char *name, const char *text, int64_t least, int64_t most, int64_t *ret, struct err *err);
