/* The status of a finished call, as gRPC's trailers carry it. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "call/call.h"

/* Trailers that a handler adds. */
#define STATUS_TRAILERS_MAX 8

struct status {
    enum err_code code;
    struct buf message;  /* percent-encoded; empty: none */
    struct buf details;  /* google.rpc.Status in base64; empty: none */
    struct buf trailers; /* name NUL value NUL, `trailer_count` times */
    size_t trailer_count;
};

void status_done(struct status *status);

/* With `call`, adds the reason and its details if the handler gave them. A code that gRPC does not have becomes UNKNOWN. */
void status_set(struct status *status, const struct err *err, const struct call *call);

/* Copies. Replaces bytes that HTTP does not allow; encodes the value of a "-bin" name. Drops trailers beyond
 * STATUS_TRAILERS_MAX and those that clients would reject. */
void status_add_trailer(struct status *status, const char *name, const char *value);
