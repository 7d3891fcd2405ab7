/*
 * The table of settings: the name, kind, default and field in struct config of each.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/config.h"

enum setting_kind {
    SETTING_TEXT,
    SETTING_BOOL,
    SETTING_COUNT, /* not negative */
    SETTING_SIZE,  /* "512M" */
    SETTING_SPAN,  /* "30s" */
    SETTING_LIST,  /* texts; separated by commas on the command line and in the environment */
};

struct setting {
    const char *key;
    enum setting_kind kind;
    size_t offset;       /* in struct config */
    const char *value;   /* the default; NULL: depends on the user (see config.c) */
    const char *option;  /* another name for the option; NULL: none */
    const char *choices; /* the values that a text may have, separated by spaces; NULL: any */
    const char *help;
};

extern const struct setting settings[];
extern const size_t setting_count;

/* NULL if there is no such setting. */
const struct setting *setting_find(const char *key);
const struct setting *setting_find_option(const char *name);

/* Replaces the value. The error names neither the key nor the source, which the caller knows. */
int setting_set(const struct setting *setting, struct config *config, const char *value, struct err *err);
/* Appends to a list. */
void setting_add(const struct setting *setting, struct config *config, const char *value);

void setting_show(const struct setting *setting, const struct config *config, struct buf *out);
/* Frees the value. */
void setting_done(const struct setting *setting, struct config *config);

/* "AGENTFENSE_SERVER_GRPC_ADDR", "server-grpc-addr". */
void setting_variable(const struct setting *setting, struct buf *out);
void setting_option(const struct setting *setting, struct buf *out);
