/*
 * What a client sends to the gRPC server, without sockets or threads. The first byte says whether the input begins with HTTP/2's greeting or
 * one is put before it, and in pieces of which size it arrives; the rest is what arrives.
 *
 * Handlers run between the pieces, when all of their request is there; those of other calls after the client has gone, as they would wait
 * for it. Whatever comes: no call is left, and the answers are frames.
 */
#include "fuzz.h"

#include <errno.h>

#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

#include "base/clock.h"
#include "base/log.h"
#include "call/call.h"
#include "rpc/grpc_call.h"
#include "rpc/h2.h"

#define CALLS_MAX 512

static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

static struct grpc_call *started[CALLS_MAX];
static size_t started_count;
static size_t ended, sent_bytes;

static int take_all(struct call *call, void *cookie, struct err *err)
{
    ProtobufCMessage *request = NULL;
    Sandbox__V1__ExecResult result = SANDBOX__V1__EXEC_RESULT__INIT;
    int r, count = 0;

    (void) cookie;
    while ((r = call_recv(call, &request, err)) > 0) {
        require(request->descriptor == call->method->request);
        protobuf_c_message_free_unpacked(request, NULL);
        count++;
    }
    if (r < 0) {
        require_refusal(r, err);
        call_set_reason(call, "REFUSED");
        call_add_detail(call, "why", err->text);
        return r;
    }
    require(count == 1 || call->method->flags & METHOD_CLIENT_STREAMS);
    result.exit_code = count;
    return call_send(call, &result.base);
}

static const struct method methods[] = {
    { .service = "s",
      .name = "U",
      .request = &sandbox__v1__exec_request__descriptor,
      .response = &sandbox__v1__exec_result__descriptor,
      .run = take_all },
    { .service = "s",
      .name = "C",
      .request = &sandbox__v1__upload_chunk__descriptor,
      .response = &sandbox__v1__exec_result__descriptor,
      .run = take_all,
      .flags = METHOD_CLIENT_STREAMS },
    { .service = "s",
      .name = "B",
      .request = &sandbox__v1__upload_chunk__descriptor,
      .response = &sandbox__v1__exec_result__descriptor,
      .run = take_all,
      .flags = METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS },
};
static const struct method_table table = { .methods = methods, .count = sizeof(methods) / sizeof(methods[0]) };

static int start(struct rpc_context *ctx, struct grpc_call *call)
{
    (void) ctx;
    if (started_count == CALLS_MAX)
        return -EAGAIN;
    started[started_count++] = call;
    return 0;
}

static void on_call_end(void *cookie, const struct rpc_call_end *end)
{
    (void) cookie;
    require(end->code <= ERR_UNAUTHENTICATED);
    ended++;
}

static void run_started(struct rpc_context *ctx, bool all)
{
    struct grpc_call *call;
    size_t kept = 0;

    for (size_t i = 0; i < started_count; i++) {
        call = started[i];
        if (all || call->client_is_done)
            grpc_call_run(call);
        else
            started[kept++] = call;
    }
    started_count = kept;
    while ((call = mailbox_take(&ctx->mailbox)))
        h2_handle_posted(call);
}

/* Frames: a length, and as many bytes. */
static void take_out(struct h2 *h2)
{
    static uint8_t out[1 << 16];
    const uint8_t *bytes;
    ssize_t n;

    while ((n = h2_read_output(h2, &bytes)) > 0) {
        size_t len = (size_t) n < sizeof(out) ? (size_t) n : sizeof(out);
        memcpy(out, bytes, len);
        require(len >= 9);
        sent_bytes += len;
    }
}

static bool feed(struct rpc_context *ctx, struct h2 *h2, const uint8_t *data, size_t size, size_t piece)
{
    while (size > 0) {
        size_t len = size < piece ? size : piece;
        int r = h2_feed(h2, data, len);
        run_started(ctx, false);
        take_out(h2);
        if (r < 0 || h2_is_done(h2))
            return false;
        data += len;
        size -= len;
        ctx->now_ns += CLOCK_NS_PER_MS;
    }
    return true;
}

static void ignore(void *owner, void *cookie)
{
    (void) owner;
    (void) cookie;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rpc_context ctx;
    static bool is_ready;
    struct conn_shared *shared = conn_shared_new();
    struct h2 *h2 = NULL;

    if (!is_ready) {
        require(rpc_context_init(&ctx, NULL) == 0);
        ctx.tables[0] = &table;
        ctx.start = start;
        ctx.on_call_end = on_call_end;
        log_set_level(LOG_LEVEL_ERROR);
        is_ready = true;
    }
    ctx.now_ns = CLOCK_NS_PER_SEC;
    require(h2_new(&ctx, shared, shared, &h2) == 0);
    if (size > 0) {
        size_t piece = 1 + (data[0] >> 1) * (data[0] >> 1);
        if (data[0] & 1 || feed(&ctx, h2, (const uint8_t *) greeting, sizeof(greeting), sizeof(greeting)))
            feed(&ctx, h2, data + 1, size - 1, piece);
        ctx.now_ns += 3600 * CLOCK_NS_PER_SEC;
        h2_end_overdue(&ctx, ignore, NULL);
        take_out(h2);
    }
    h2_free(h2);
    run_started(&ctx, true);
    require(ctx.handlers == 0 && ctx.deadlines.count == 0);
    require(atomic_load(&shared->refs) == 1 && atomic_load(&shared->queued_bytes) == 0);
    conn_shared_unref(shared);
    return 0;
}
