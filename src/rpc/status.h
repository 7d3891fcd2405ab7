/* How a call ended, as gRPC's trailers tell it. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "call/call.h"

/* What a handler added to the end of its answers. */
#define STATUS_TRAILERS_MAX 8

struct status {
    enum err_code code;
    struct buf message;  /* in percent signs; empty: none */
    struct buf details;  /* google.rpc.Status in base64; empty: none */
    struct buf trailers; /* name NUL value NUL, as often as `trailer_count` says */
    size_t trailer_count;
};

void status_done(struct status *status);

/* With `call` also the reason and its details, if the handler gave one. A code that gRPC does not know becomes UNKNOWN. */
void status_set(struct status *status, const struct err *err, const struct call *call);

/* Copied; bytes that HTTP does not allow are replaced, and those of a "-bin" name encoded. More than STATUS_TRAILERS_MAX, and
 * those that clients would not take, are left out. */
void status_add_trailer(struct status *status, const char *name, const char *value);
