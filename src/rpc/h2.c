#include "rpc/h2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rpc/h2_int.h"

/* The connection's window only limits the bytes in transit. Received bytes count against the streams' windows. */
#define CONNECTION_WINDOW (1 << 20)

/* Control frames, which cost us work and carry no data. Frames of answers that we send reset the count, because clients measure
 * the round-trip time with PINGs while they receive. */
#define FRAMES_BURST 2000
#define FRAMES_PER_SECOND 100
/* Each call allows this many more: clients enlarge the windows of their streams and some send priorities. The number of calls
 * has limits of its own. */
#define FRAMES_PER_CALL 3

/* Header fields beyond the limit are counted and dropped, so that we can answer with a proper error. At this multiple of the
 * limit we reset the stream. */
#define HEADER_EXCESS 4

/* CONTINUATION frames per header block. */
#define CONTINUATIONS_MAX 8

/* nghttp2's own limit of resets ends connections without a reason. Ours is lower, so it acts first. */
#define LIBRARY_RESETS 10000

#define OUTBOUND_MAX 2000

static const uint8_t shutdown_ping[8] = "shutdown";

static void h2_send_away(struct h2 *h2, const char *why)
{
    if (h2->is_sent_away)
        return;
    h2->is_sent_away = true;
    log_info("a client was sent away", LOG_STR("peer", h2->shared->peer.text), LOG_STR("why", why));
    nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void h2_count_reset(struct h2 *h2)
{
    if (leaky_bucket_add(&h2->resets, h2->ctx->now_ns, h2->ctx->limits.reset_per_second, h2->ctx->limits.reset_burst))
        h2_send_away(h2, "it takes back its calls");
}

/* Removes the call from the list and drops the list's reference. */
static void h2_release_call(struct grpc_call *call)
{
    *call->link_from = call->next;
    if (call->next)
        call->next->link_from = call->link_from;
    call->h2 = NULL;
    grpc_call_unref(call);
}

static void report_call_end(struct grpc_call *call)
{
    struct rpc_context *ctx = call->ctx;
    struct rpc_call_end end = { .method = call->call.method, .duration_ns = ctx->now_ns - call->begun_ns };

    if (call->is_counted || !call->has_headers)
        return;
    call->is_counted = true;
    pthread_mutex_lock(&call->lock);
    end.code = call->is_over ? call->status.code : ERR_CANCELLED;
    pthread_mutex_unlock(&call->lock);
    if (ctx->on_call_end)
        ctx->on_call_end(ctx->on_call_end_cookie, &end);
}

/* Cleans up after a stream that has ended, for whatever reason. */
static void h2_close_stream(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;
    size_t queued = atomic_load(&h2->shared->queued_bytes);

    call->has_stream = false;
    h2->streams--;
    report_call_end(call);
    h2_forget_waiting(h2, call);
    deadline_remove(&h2->ctx->deadlines, &call->deadline);
    grpc_call_cancel(call);
    h2_relieve(h2, queued);
}

/* ---- callbacks of nghttp2 ---- */

/* Ends the connection if a header block arrives on a closed or skipped stream, because client and server then disagree about
 * the state. nghttp2 checks open streams itself. It ignores data on others without a callback, as the RFC permits. */
static void h2_check_stream(struct h2 *h2, const nghttp2_frame_hd *hd)
{
    enum stream_check word = hd->type == NGHTTP2_HEADERS ? stream_history_open(&h2->past, hd->stream_id) : STREAM_SOUND;

    if (hd->type == NGHTTP2_RST_STREAM || hd->flags & NGHTTP2_FLAG_END_STREAM)
        stream_history_end(&h2->past, hd->stream_id);
    if (word == STREAM_SOUND || h2->is_sent_away || nghttp2_session_get_stream_user_data(h2->session, hd->stream_id))
        return;
    h2->is_sent_away = true;
    log_debug("a client sent on a stream that is closed", LOG_STR("peer", h2->shared->peer.text));
    nghttp2_session_terminate_session(h2->session, word == STREAM_SKIPPED ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED);
}

static int h2_on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
    struct h2 *h2 = user;

    (void) session;
    if (hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_DATA || hd->type == NGHTTP2_RST_STREAM)
        h2_check_stream(h2, hd);
    if (hd->type == NGHTTP2_HEADERS || (hd->type == NGHTTP2_DATA && (hd->length > 0 || hd->flags & NGHTTP2_FLAG_END_STREAM)))
        return 0;
    if (leaky_bucket_add(&h2->frames, h2->ctx->now_ns, FRAMES_PER_SECOND, FRAMES_BURST))
        h2_send_away(h2, "it sends frames without end and purpose");
    return 0;
}

static int h2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;

    h2->headers_since_ns = h2->ctx->now_ns;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    leaky_bucket_remove(&h2->frames, FRAMES_PER_CALL);
    struct grpc_call *call = grpc_call_new(h2->ctx, h2->shared);
    call->h2 = h2;
    call->stream_id = frame->hd.stream_id;
    call->has_stream = true;
    call->begun_ns = h2->ctx->now_ns;
    call->next = h2->calls;
    call->link_from = &h2->calls;
    if (call->next)
        call->next->link_from = &call->next;
    h2->calls = call;
    h2->streams++;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                        const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void) flags;
    (void) user;
    if (!call || call->has_headers) /* trailers of a request have no meaning in gRPC */
        return 0;
    metadata_add(&call->metadata, name, name_len, value, value_len);
    return call->metadata.size_bytes > HEADER_EXCESS * call->metadata.size_max ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t len, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void) flags;
    nghttp2_session_consume_connection(session, len);
    if (!call || !call->call.method)
        return 0;
    grpc_call_feed(call, bytes, len);
    h2_start_if_ready(h2, call);
    return 0;
}

static void h2_on_request_frame(struct h2 *h2, struct grpc_call *call, const nghttp2_frame *frame)
{
    if (frame->hd.type == NGHTTP2_HEADERS && !call->has_headers) {
        call->has_headers = true;
        call->client_is_done = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        h2_begin_request(h2, call);
    }
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        call->client_is_done = true;
        grpc_call_feed_end(call);
        h2_start_if_ready(h2, call);
    }
}

static int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_HEADERS)
        h2->headers_since_ns = 0;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (call)
            h2_on_request_frame(h2, call, frame);
        break;
    case NGHTTP2_RST_STREAM:
        if (call && !call->has_ended)
            h2_count_reset(h2);
        break;
    case NGHTTP2_SETTINGS:
        h2->is_greeted = true;
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK && h2->is_leaving &&
            memcmp(frame->ping.opaque_data, shutdown_ping, sizeof(shutdown_ping)) == 0)
            h2_shutdown_now(h2);
        break;
    default:
        break;
    }
    return 0;
}

static int h2_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h2->frames.level = 0;
        call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (!call || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            break;
        call->has_ended = true;
        /* Ask the client to stop sending, because no handler will read it. */
        if (!call->client_is_done)
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
        break;
    case NGHTTP2_DATA:
        h2->frames.level = 0;
        break;
    case NGHTTP2_RST_STREAM:
        /* A client can also provoke resets by us, so count these too. */
        if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
            h2_count_reset(h2);
        break;
    case NGHTTP2_GOAWAY:
        /* Send the PING only after the notice: nghttp2 sends PINGs before all other frames. Its answer then comes after
         * everything that the client sent before it saw the notice. */
        if (h2->is_leaving && !h2->is_left)
            nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, shutdown_ping);
        break;
    default:
        break;
    }
    return 0;
}

static int h2_on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void) error_code;
    (void) user;
    if (!call)
        return 0;
    h2_close_stream(call);
    if (!call->has_handler)
        h2_release_call(call);
    return 0;
}

/* ---- life ---- */

static int h2_make_session(struct h2 *h2, nghttp2_session_callbacks *callbacks, nghttp2_option *option)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, h2_on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, h2_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, h2_on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, h2_on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_on_stream_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, LIBRARY_RESETS, LIBRARY_RESETS);
    return nghttp2_session_server_new2(&h2->session, callbacks, h2, option) == 0 ? 0 : -ENOMEM;
}

static int h2_send_settings(struct h2 *h2)
{
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->ctx->limits.streams_max },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h2->ctx->limits.header_bytes_max },
    };

    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) != 0)
        return -ENOMEM;
    return 0;
}

int h2_new(struct rpc_context *ctx, struct conn_shared *shared, void *owner, struct h2 **ret)
{
    autoptr(h2) h2 = xnew(struct h2);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int r = -ENOMEM;

    h2->ctx = ctx;
    h2->shared = conn_shared_ref(shared);
    h2->owner = owner;
    h2->last_waiting = &h2->first_waiting;
    shared->queued_max = ctx->limits.queued_bytes_max;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0)
        r = h2_make_session(h2, callbacks, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    if (r == 0)
        r = h2_send_settings(h2);
    if (r == 0)
        *ret = steal_ptr(&h2);
    return r;
}

void h2_free(struct h2 *h2)
{
    if (!h2)
        return;
    /* Calls with a running handler continue without the connection. */
    for (struct grpc_call *call = h2->calls, *next; call; call = next) {
        next = call->next;
        if (call->has_stream)
            h2_close_stream(call);
        h2_release_call(call);
    }
    nghttp2_session_del(h2->session);
    conn_shared_unref(h2->shared);
    free(h2);
}

int h2_feed(struct h2 *h2, const void *bytes, size_t len)
{
    ssize_t n = nghttp2_session_mem_recv(h2->session, bytes, len);

    if (n >= 0)
        return 0; /* also if the client violates the protocol: nghttp2 then sends a GOAWAY */
    if (n != NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        h2_send_away(h2, nghttp2_strerror((int) n));
    return -EPROTO;
}

ssize_t h2_read_output(struct h2 *h2, const uint8_t **ret)
{
    ssize_t n = nghttp2_session_mem_send(h2->session, ret);

    return n < 0 ? -EPROTO : n;
}

bool h2_is_done(const struct h2 *h2)
{
    if (h2->is_left && h2->streams == 0 && !nghttp2_session_want_write(h2->session))
        return true;
    return !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

bool h2_is_clogged(const struct h2 *h2)
{
    return nghttp2_session_get_outbound_queue_size(h2->session) > OUTBOUND_MAX;
}

void *h2_handle_posted(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    if (h2) {
        pthread_mutex_lock(&call->lock);
        size_t credit = call->credit_bytes;
        bool handler_gone = call->handler_gone;
        call->credit_bytes = 0;
        pthread_mutex_unlock(&call->lock);
        if (credit > 0 && call->has_stream)
            nghttp2_session_consume_stream(h2->session, call->stream_id, credit);
        if (handler_gone && call->has_handler) {
            call->has_handler = false;
            h2->running--;
            h2_start_waiting(h2);
        }
        if (call->has_stream)
            h2_answer(h2, call);
        else if (!call->has_handler)
            h2_release_call(call);
    }
    grpc_call_unref(call);
    return h2 ? h2->owner : NULL;
}

void h2_end_overdue(struct rpc_context *ctx, void (*on_owner)(void *owner, void *cookie), void *cookie)
{
    struct deadline *first;

    while ((first = deadline_first(&ctx->deadlines)) && first->at_ns <= ctx->now_ns) {
        struct grpc_call *call = first->owner;
        struct h2 *h2 = call->h2;
        size_t queued = atomic_load(&h2->shared->queued_bytes);

        deadline_remove(&ctx->deadlines, first);
        grpc_call_fail(call, ERR_DEADLINE_EXCEEDED, "deadline exceeded");
        h2_relieve(h2, queued);
        h2_answer(h2, call);
        on_owner(h2->owner, cookie);
    }
}

void h2_ping(struct h2 *h2)
{
    nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
}

void h2_shutdown(struct h2 *h2)
{
    if (h2->is_leaving)
        return;
    h2->is_leaving = true;
    /* A notice first and the final GOAWAY later, so that calls already in transit are served. */
    nghttp2_submit_shutdown_notice(h2->session);
}

void h2_shutdown_now(struct h2 *h2)
{
    if (h2->is_left)
        return;
    h2->is_leaving = h2->is_left = true;
    nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
}

bool h2_is_greeted(const struct h2 *h2)
{
    return h2->is_greeted;
}

int64_t h2_headers_since_ns(const struct h2 *h2)
{
    return h2->headers_since_ns;
}
