/* Shared by h2.c, h2_request.c and h2_answer.c. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "rpc/grpc_call.h"
#include "rpc/h2.h"
#include "rpc/leaky_bucket.h"
#include "rpc/stream_history.h"

struct h2 {
    struct rpc_context *ctx;
    struct conn_shared *shared; /* owned reference */
    void *owner;
    nghttp2_session *session;
    struct grpc_call *calls;                         /* with a stream, a handler, or both; a reference on each */
    struct grpc_call *first_waiting, **last_waiting; /* ready to run, but too many are running */
    unsigned running;
    unsigned streams;
    struct leaky_bucket frames; /* control frames, which cost the client nothing */
    struct leaky_bucket resets; /* calls that the client cancelled */
    struct stream_history past;
    int64_t headers_since_ns;
    bool is_greeted;
    bool is_sent_away;        /* we ended the connection because the client misbehaved */
    bool is_leaving, is_left; /* a shutdown was announced; it is final */
};

/* h2_request.c: makes a running handler of a header block. */
void h2_begin_request(struct h2 *h2, struct grpc_call *call);
void h2_start_if_ready(struct h2 *h2, struct grpc_call *call);
void h2_start_waiting(struct h2 *h2);
void h2_forget_waiting(struct h2 *h2, struct grpc_call *call);

/* h2_answer.c: submits a call's pending output to its stream. */
void h2_answer(struct h2 *h2, struct grpc_call *call);
void h2_answer_http(struct h2 *h2, struct grpc_call *call, const char *http_status);

/* Wakes handlers if there is room for answers again. `before`: the bytes queued earlier. */
void h2_relieve(struct h2 *h2, size_t before);
