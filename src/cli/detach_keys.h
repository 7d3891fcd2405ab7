/* The key sequence that leaves a terminal without ending the command in it: "ctrl-p,ctrl-q", as in Docker. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define DETACH_KEYS_MAX 8
#define DETACH_KEYS_DEFAULT "ctrl-p,ctrl-q"

struct detach_keys {
    unsigned char keys[DETACH_KEYS_MAX];
    size_t count;   /* 0: detaching is disabled */
    size_t pressed; /* the first keys of the sequence, pressed so far */
};

/* Parses a list of keys, each "ctrl-" and one of a-z @ [ ] ^ _ \, or a single character. "" disables detaching. */
int detach_keys_parse(struct detach_keys *keys, const char *text, struct err *err);

/* Adds the input to `out`, but keeps keys that may begin the sequence until the next key decides. Returns true when the sequence is complete; it
 * drops the input after it. */
bool detach_keys_filter(struct detach_keys *keys, const void *bytes, size_t len, struct buf *out);
