/* The keys that leave a terminal without ending what runs in it: "ctrl-p,ctrl-q", as elsewhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define DETACH_KEYS_MAX 8
#define DETACH_KEYS_DEFAULT "ctrl-p,ctrl-q"

struct detach_keys {
    unsigned char keys[DETACH_KEYS_MAX];
    size_t count;   /* 0: there are none */
    size_t pressed; /* of them, so far */
};

/* Each of the list is "ctrl-" and one of a-z @ [ ] ^ _ \, or a single character. "": none. */
int detach_keys_parse(struct detach_keys *keys, const char *text, struct err *err);

/* What was typed, into `out`: but for what may be the beginning of the keys, which is kept until it is known. True when all of them were
 * pressed; what comes behind them is dropped. */
bool detach_keys_filter(struct detach_keys *keys, const void *bytes, size_t len, struct buf *out);
