/*
 * The table of settings: what there is, of which kind, where it goes in struct config, what holds when nobody says anything.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/config.h"

enum setting_kind {
    SETTING_TEXT,
    SETTING_BOOL,
    SETTING_COUNT, /* 0 and up */
    SETTING_SIZE,  /* "512M" */
    SETTING_SPAN,  /* "30s" */
    SETTING_LIST,  /* texts; on the command line and in the environment with commas */
};

struct setting {
    const char *key;
    enum setting_kind kind;
    size_t offset;       /* in struct config */
    const char *value;   /* NULL: depends on who runs it (see config.c) */
    const char *option;  /* another name of its option; NULL: none */
    const char *choices; /* for a text: the values it may have, with spaces between; NULL: any */
    const char *help;
};

extern const struct setting settings[];
extern const size_t setting_count;

/* NULL: there is none. */
const struct setting *setting_find(const char *key);
const struct setting *setting_find_option(const char *name);

/* Replaces what is there. The error names neither key nor place: the caller knows them. */
int setting_set(const struct setting *setting, struct config *config, const char *value, struct err *err);
/* One more of a list. */
void setting_add(const struct setting *setting, struct config *config, const char *value);

void setting_show(const struct setting *setting, const struct config *config, struct buf *out);
/* Frees what it holds. */
void setting_done(const struct setting *setting, struct config *config);

/* "AGENTFENSE_SERVER_GRPC_ADDR", "server-grpc-addr". */
void setting_variable(const struct setting *setting, struct buf *out);
void setting_option(const struct setting *setting, struct buf *out);
