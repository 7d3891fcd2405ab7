/* The handler's side of a call: implements `struct call`. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "call/message.h"
#include "rpc/grpc_call.h"
#include "rpc/gzip.h"

#define STEP_BYTES (64u << 10)

/* The handler gives credit back in pieces of this size, because each piece is a message to the I/O thread. It must be small
 * compared to the stream's window, or the client would wait for credit that we hold. */
#define CREDIT_STEP (16u << 10)

/* Call with the lock held. Returns false if nothing changed until then. */
static bool grpc_call_wait_until(struct grpc_call *call, const struct timespec *until)
{
    return pthread_cond_timedwait(&call->changed, &call->lock, until) != ETIMEDOUT;
}

static struct timespec timespec_after_ms(unsigned ms)
{
    return clock_timespec_of_ns(clock_now_ns() + ms * CLOCK_NS_PER_MS);
}

/* Reads the input that has arrived, at least one byte. 0 at the end; -ECANCELED. */
static ssize_t grpc_call_read_some(struct grpc_call *call, void *bytes, size_t len)
{
    struct timespec until = timespec_after_ms(call->ctx->limits.stall_ms);
    bool may_pause = call->call.method->flags & METHOD_CLIENT_STREAMS, gives_back = false;
    ssize_t n = 0;

    pthread_mutex_lock(&call->lock);
    while (!call->is_cancelled && call->in.len == call->in_taken && !call->in_done) {
        if (!grpc_call_wait_until(call, &until) && !may_pause && call->in.len == call->in_taken && !call->in_done)
            grpc_call_mark_cancelled(call); /* a call with a single request timed out before it arrived */
        else if (may_pause)
            until = timespec_after_ms(call->ctx->limits.stall_ms);
    }
    if (call->is_cancelled) {
        n = -ECANCELED;
    } else if (call->in.len > call->in_taken) {
        size_t there = call->in.len - call->in_taken;
        n = (ssize_t) (len < there ? len : there);
        memcpy(bytes, call->in.data + call->in_taken, (size_t) n);
        call->in_taken += (size_t) n;
        call->credit_bytes += (size_t) n;
        if (call->in_taken == call->in.len) {
            grpc_call_empty(&call->in);
            call->in_taken = 0;
        }
        grpc_call_show_input(call);
        gives_back = call->credit_bytes >= CREDIT_STEP && !call->in_done;
    }
    pthread_mutex_unlock(&call->lock);
    if (gives_back)
        mailbox_post(&call->ctx->mailbox, call);
    return n;
}

/* Returns 1, or 0 if the input ended before the first byte. */
static int grpc_call_read_all(struct grpc_call *call, void *bytes, size_t len, struct err *err)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = grpc_call_read_some(call, (char *) bytes + have, len - have);
        if (n < 0)
            return err_set(err, ERR_CANCELLED, (int) n, "the call was cancelled");
        if (n == 0 && have == 0)
            return 0;
        if (n == 0)
            return err_set(err, ERR_INTERNAL, -EBADMSG, "the request ends in the middle of a message");
        have += (size_t) n;
    }
    return 1;
}

static int reject_message_size(struct err *err, size_t len, size_t max)
{
    return err_set(err, ERR_RESOURCE_EXHAUSTED, -EMSGSIZE, "grpc: received message larger than max (%zu vs. %zu)", len, max);
}

static int grpc_call_unpack_gzip(struct grpc_call *call, const struct buf *packed, struct buf *out, struct err *err)
{
    const char *encoding = metadata_get(&call->metadata, "grpc-encoding");
    size_t max = call->ctx->limits.message_bytes_max;

    if (!encoding || strcmp(encoding, "gzip") != 0)
        return err_set(err, ERR_INTERNAL, -EBADMSG, "a message is compressed, and the call does not say how");
    int r = gzip_unpack(packed->data, packed->len, max, out);
    if (r == -EMSGSIZE)
        return reject_message_size(err, out->len, max);
    return r < 0 ? err_set(err, ERR_INTERNAL, r, "a message is not compressed as the call says") : 0;
}

/* Reads `len` bytes as the client announced them. Allocates only as data arrives, because otherwise a client could make us
 * allocate by announcing much. */
static int grpc_call_read_announced(struct grpc_call *call, size_t len, struct buf *out, struct err *err)
{
    while (out->len < len) {
        size_t step = out->len > STEP_BYTES ? out->len : STEP_BYTES;
        if (step > len - out->len)
            step = len - out->len;
        buf_room(out, step);
        int r = grpc_call_read_all(call, out->data + out->len, step, err);
        if (r == 0)
            return err_set(err, ERR_INTERNAL, -EBADMSG, "the request ends in the middle of a message");
        if (r < 0)
            return r;
        out->len += step;
    }
    return 1;
}

/* Reads the next message. Returns 1, 0 at the end, or an error. */
static int grpc_call_read_message(struct grpc_call *call, struct buf *out, struct err *err)
{
    autodone(buf) struct buf packed = BUF_EMPTY;
    size_t max = call->ctx->limits.message_bytes_max;
    uint8_t prefix[GRPC_CALL_PREFIX_BYTES] = { 0 };
    uint32_t len;
    int r = grpc_call_read_all(call, prefix, sizeof(prefix), err);

    if (r <= 0)
        return r;
    memcpy(&len, prefix + 1, sizeof(len));
    len = ntohl(len);
    if (len > max)
        return reject_message_size(err, len, max);
    if (prefix[0] > 1)
        return err_set(err, ERR_INTERNAL, -EBADMSG, "a message has a flag that is not known: %u", prefix[0]);
    r = grpc_call_read_announced(call, len, prefix[0] ? &packed : out, err);
    if (r < 0)
        return r;
    return prefix[0] && (r = grpc_call_unpack_gzip(call, &packed, out, err)) < 0 ? r : 1;
}

static int grpc_call_recv_message(struct call *base, ProtobufCMessage **ret, struct err *err)
{
    struct grpc_call *call = (struct grpc_call *) base;
    autodone(buf) struct buf bytes = BUF_EMPTY;
    bool is_single = !(base->method->flags & METHOD_CLIENT_STREAMS);
    ProtobufCMessage *message = NULL;

    if (is_single && call->received_count > 0)
        return 0;
    int r = grpc_call_read_message(call, &bytes, err);
    if (r == 0 && is_single)
        return err_set(err, ERR_INTERNAL, -EBADMSG, "the call has no request, and needs one");
    if (r <= 0)
        return r;
    r = message_unpack(base->method->request, bytes.data, bytes.len, &message, err);
    if (r < 0)
        return r;
    r = base->method->flags & METHOD_STRICT ? message_check_known(message, err) : 0;
    if (r < 0) {
        protobuf_c_message_free_unpacked(message, NULL);
        return r;
    }
    *ret = message;
    call->received_count++;
    return 1;
}

/* Call with the lock held. */
static bool grpc_call_has_room(const struct grpc_call *call)
{
    return call->out.len - call->out_taken <= GRPC_CALL_OUT_MAX / 2 &&
           atomic_load(&call->shared->queued_bytes) < call->shared->queued_max;
}

/* Waits for room and reserves it. Callers pack their message only after this, because otherwise each waiting call would hold
 * one. */
static int grpc_call_reserve(struct grpc_call *call, size_t len)
{
    struct timespec until = timespec_after_ms(call->ctx->limits.slow_reader_ms);

    pthread_mutex_lock(&call->lock);
    while (!call->is_cancelled && !grpc_call_has_room(call)) {
        if (!grpc_call_wait_until(call, &until) && !grpc_call_has_room(call))
            grpc_call_mark_cancelled(call);
    }
    bool is_cancelled = call->is_cancelled;
    if (!is_cancelled)
        atomic_fetch_add(&call->shared->queued_bytes, len);
    pthread_mutex_unlock(&call->lock);
    return is_cancelled ? -ECANCELED : 0;
}

/* Takes the bytes of `message`, for which room is reserved. */
static int grpc_call_queue_message(struct grpc_call *call, struct buf *message)
{
    int r = 0;

    pthread_mutex_lock(&call->lock);
    if (call->is_cancelled) {
        atomic_fetch_sub(&call->shared->queued_bytes, message->len);
        r = -ECANCELED;
    } else if (call->out.len == 0) {
        buf_done(&call->out);
        call->out = *message;
        *message = BUF_EMPTY;
    } else {
        buf_add(&call->out, message->data, message->len);
    }
    call->sent_count++;
    pthread_mutex_unlock(&call->lock);
    return r;
}

/* The handler cannot change this status later. */
static int grpc_call_reject_answer(struct grpc_call *call, size_t len, size_t max)
{
    struct err err = ERR_NONE;

    err_set(&err, ERR_RESOURCE_EXHAUSTED, 0, "grpc: trying to send message larger than max (%zu vs. %zu)", len, max);
    pthread_mutex_lock(&call->lock);
    if (!call->is_over) {
        status_set(&call->status, &err, NULL);
        call->is_overdrawn = true;
    }
    pthread_mutex_unlock(&call->lock);
    return -EMSGSIZE;
}

static int grpc_call_send_message(struct call *base, const ProtobufCMessage *message)
{
    struct grpc_call *call = (struct grpc_call *) base;
    autodone(buf) struct buf bytes = BUF_EMPTY;
    size_t len = protobuf_c_message_get_packed_size(message), max = call->ctx->limits.message_bytes_max;
    uint32_t wire_len = htonl((uint32_t) len);

    if (len > max)
        return grpc_call_reject_answer(call, len, max);
    int r = grpc_call_reserve(call, GRPC_CALL_PREFIX_BYTES + len);
    if (r < 0)
        return r;
    buf_room(&bytes, GRPC_CALL_PREFIX_BYTES + len);
    buf_add_char(&bytes, 0);
    buf_add(&bytes, &wire_len, sizeof(wire_len));
    bytes.len += protobuf_c_message_pack(message, (uint8_t *) bytes.data + bytes.len);
    r = grpc_call_queue_message(call, &bytes);
    /* A single answer is sent together with the status, which follows soon. */
    if (r == 0 && base->method->flags & METHOD_SERVER_STREAMS)
        mailbox_post(&call->ctx->mailbox, call);
    return r;
}

static const char *grpc_call_get_header(struct call *base, const char *name)
{
    struct grpc_call *call = (struct grpc_call *) base;

    return metadata_get(&call->metadata, strcmp(name, "host") == 0 ? ":authority" : name);
}

static void grpc_call_set_trailer(struct call *base, const char *name, const char *value)
{
    struct grpc_call *call = (struct grpc_call *) base;

    pthread_mutex_lock(&call->lock);
    if (!call->is_over)
        status_add_trailer(&call->status, name, value);
    pthread_mutex_unlock(&call->lock);
}

static int grpc_call_get_cancel_fd(struct call *base)
{
    struct grpc_call *call = (struct grpc_call *) base;

    pthread_mutex_lock(&call->lock);
    if (call->cancel_fd < 0)
        call->cancel_fd = eventfd(call->is_cancelled, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = call->cancel_fd;
    pthread_mutex_unlock(&call->lock);
    return fd;
}

static bool grpc_call_is_cancelled(struct call *base)
{
    struct grpc_call *call = (struct grpc_call *) base;

    pthread_mutex_lock(&call->lock);
    bool is_cancelled = call->is_cancelled;
    pthread_mutex_unlock(&call->lock);
    return is_cancelled;
}

static int grpc_call_get_input_fd(struct call *base)
{
    struct grpc_call *call = (struct grpc_call *) base;

    pthread_mutex_lock(&call->lock);
    if (call->input_fd < 0) {
        call->input_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        grpc_call_show_input(call);
    }
    int fd = call->input_fd;
    pthread_mutex_unlock(&call->lock);
    return fd;
}

const struct call_ops grpc_call_ops = {
    .recv = grpc_call_recv_message,
    .send = grpc_call_send_message,
    .header = grpc_call_get_header,
    .set_trailer = grpc_call_set_trailer,
    .cancel_fd = grpc_call_get_cancel_fd,
    .is_cancelled = grpc_call_is_cancelled,
    .input_fd = grpc_call_get_input_fd,
};

static void grpc_call_finish(struct grpc_call *call, int r, struct err *err)
{
    bool is_single = !(call->call.method->flags & METHOD_SERVER_STREAMS);

    if (r < 0 && err->code == ERR_OK)
        err_errno(err, r, "%s", call->call.method->name);
    pthread_mutex_lock(&call->lock);
    if (r >= 0) {
        *err = ERR_NONE;
        if (is_single && call->sent_count != 1)
            err_set(err, ERR_INTERNAL, 0, "%s gave %zu answers", call->call.method->name, call->sent_count);
    }
    if (!call->is_over) {
        if (!call->is_overdrawn)
            status_set(&call->status, err, &call->call);
        call->is_over = true;
    }
    call->handler_gone = true;
    pthread_mutex_unlock(&call->lock);
}

void grpc_call_run(void *arg)
{
    struct grpc_call *call = arg;
    struct rpc_context *ctx = call->ctx;
    struct err err = ERR_NONE;
    int r;

    if (grpc_call_is_cancelled(&call->call))
        r = err_set(&err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    else
        r = call->call.method->run(&call->call, call->cookie, &err);
    grpc_call_finish(call, r, &err);
    mailbox_post(&ctx->mailbox, call);
    grpc_call_unref(call);
    rpc_context_leave(ctx);
}
