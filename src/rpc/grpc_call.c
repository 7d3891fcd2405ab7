#include "rpc/grpc_call.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

/* Larger buffers are freed when they are empty. */
#define BUFFER_KEEP (64u << 10)

/* Input of an unfinished message that makes `input_fd` readable. A stream's window is larger, so the client can send this
 * much. */
#define INPUT_ENOUGH (16u << 10)

struct grpc_call *grpc_call_new(struct rpc_context *ctx, struct conn_shared *shared)
{
    struct grpc_call *call = xnew(struct grpc_call);
    pthread_condattr_t clock;

    call->call = (struct call){ .ops = &grpc_call_ops, .peer = &shared->peer };
    call->ctx = ctx;
    call->shared = conn_shared_ref(shared);
    call->metadata.size_max = ctx->limits.header_bytes_max;
    atomic_init(&call->refs, 1);
    pthread_mutex_init(&call->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&call->changed, &clock);
    pthread_condattr_destroy(&clock);
    call->cancel_fd = call->input_fd = -1;
    return call;
}

struct grpc_call *grpc_call_ref(struct grpc_call *call)
{
    atomic_fetch_add(&call->refs, 1);
    return call;
}

void grpc_call_unref(struct grpc_call *call)
{
    if (atomic_fetch_sub(&call->refs, 1) > 1)
        return;
    call_done(&call->call);
    free(call->call.request_id);
    metadata_done(&call->metadata);
    buf_done(&call->in);
    buf_done(&call->out);
    status_done(&call->status);
    if (call->cancel_fd >= 0)
        close(call->cancel_fd);
    if (call->input_fd >= 0)
        close(call->input_fd);
    conn_shared_unref(call->shared);
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

void grpc_call_empty(struct buf *buf)
{
    if (buf->cap > BUFFER_KEEP)
        buf_done(buf);
    else
        buf_clear(buf);
}

/* A whole message, or so much of one that the handler must read before the client can send the rest. */
static bool grpc_call_has_input(const struct grpc_call *call)
{
    size_t there = call->in.len - call->in_taken;
    uint32_t len;

    if (call->is_cancelled || call->in_done || there >= INPUT_ENOUGH)
        return true;
    if (there < GRPC_CALL_PREFIX_BYTES)
        return false;
    memcpy(&len, call->in.data + call->in_taken + 1, sizeof(len));
    return there - GRPC_CALL_PREFIX_BYTES >= ntohl(len);
}

void grpc_call_show_input(struct grpc_call *call)
{
    uint64_t count = 1;

    if (call->input_fd < 0)
        return;
    /* The descriptor is non-blocking. A failure means that it already has the right state. */
    if (grpc_call_has_input(call))
        (void) !write(call->input_fd, &count, sizeof(count));
    else
        (void) !read(call->input_fd, &count, sizeof(count));
}

void grpc_call_feed(struct grpc_call *call, const void *bytes, size_t len)
{
    pthread_mutex_lock(&call->lock);
    if (call->in_taken > 0 && call->in.len + len > call->in.cap) {
        memmove(call->in.data, call->in.data + call->in_taken, call->in.len - call->in_taken);
        call->in.len -= call->in_taken;
        call->in_taken = 0;
    }
    buf_add(&call->in, bytes, len);
    grpc_call_show_input(call);
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

void grpc_call_feed_end(struct grpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->in_done = true;
    grpc_call_show_input(call);
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

/* Call with the lock held. */
static void grpc_call_drop_output(struct grpc_call *call)
{
    atomic_fetch_sub(&call->shared->queued_bytes, call->out.len - call->out_taken);
    call->out_taken = 0;
    buf_done(&call->out);
}

void grpc_call_mark_cancelled(struct grpc_call *call)
{
    const uint64_t one = 1;

    call->is_cancelled = true;
    grpc_call_show_input(call);
    pthread_cond_broadcast(&call->changed);
    if (call->cancel_fd >= 0 && write(call->cancel_fd, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

void grpc_call_cancel(struct grpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    grpc_call_mark_cancelled(call);
    grpc_call_drop_output(call);
    pthread_mutex_unlock(&call->lock);
}

void grpc_call_fail(struct grpc_call *call, enum err_code code, const char *text)
{
    struct err err = ERR_NONE;

    err_set(&err, code, 0, "%s", text);
    pthread_mutex_lock(&call->lock);
    if (!call->is_over) {
        status_set(&call->status, &err, NULL);
        call->is_over = true;
        grpc_call_mark_cancelled(call);
        grpc_call_drop_output(call);
    }
    pthread_mutex_unlock(&call->lock);
}

size_t grpc_call_read(struct grpc_call *call, void *bytes, size_t len, bool *ret_end)
{
    pthread_mutex_lock(&call->lock);
    size_t there = call->out.len - call->out_taken, before = there;

    if (len > there)
        len = there;
    if (len > 0)
        memcpy(bytes, call->out.data + call->out_taken, len);
    call->out_taken += len;
    there -= len;
    if (there == 0) {
        grpc_call_empty(&call->out);
        call->out_taken = 0;
    }
    if (before > GRPC_CALL_OUT_MAX / 2 && there <= GRPC_CALL_OUT_MAX / 2)
        pthread_cond_signal(&call->changed);
    *ret_end = there == 0 && call->is_over;
    pthread_mutex_unlock(&call->lock);
    atomic_fetch_sub(&call->shared->queued_bytes, len);
    return len;
}

void grpc_call_wake(struct grpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}
