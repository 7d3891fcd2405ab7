#include "call/websocket.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"

#define QUEUED_MESSAGES_MAX 64 /* counts pongs too, which have almost no length */
#define KEY_BYTES 16
#define KEY_TEXT_LEN 24
#define CLOSE_REASON_MAX 120
#define MAGIC "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

struct websocket {
    int fd;                     /* borrowed */
    gnutls_session_t tls;       /* borrowed; NULL: none */
    struct websocket_wire wire; /* recv NULL: none */
    bool is_dry;                /* the transport has no buffered bytes left */
    wslay_event_context_ptr wslay;
    struct buf early; /* what arrived with the request, from `early_at` on */
    size_t early_at;
    websocket_fn fn;
    void *cookie;
    unsigned ping_ms, silence_ms, write_ms;
    int64_t heard_ns, pinged_ns;
    int64_t taken_ns; /* when the peer last read something, or the queue was empty */
    bool is_paused, is_refused;
    enum websocket_status close_status; /* sent when the queue is empty; 0: no close is pending */
    char close_reason[CLOSE_REASON_MAX + 1];
    bool is_over;
    bool was_silent;                         /* the peer was silent or did not read */
    bool was_malformed;                      /* the peer sent a malformed frame */
    char their_reason[CLOSE_REASON_MAX + 4]; /* of the peer's close frame */
};

static bool is_full(const struct websocket *socket)
{
    return wslay_event_get_queued_msg_length(socket->wslay) > WEBSOCKET_QUEUE_MAX ||
           wslay_event_get_queued_msg_count(socket->wslay) > QUEUED_MESSAGES_MAX;
}

static ssize_t would_block(struct websocket *socket)
{
    wslay_event_set_error(socket->wslay, WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t websocket_fail(struct websocket *socket)
{
    socket->is_over = true;
    wslay_event_set_error(socket->wslay, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

/* Maps a GnuTLS result to what a socket would return. */
static ssize_t of_tls(ssize_t n)
{
    if (n >= 0)
        return n;
    errno = n == GNUTLS_E_AGAIN ? EAGAIN : n == GNUTLS_E_INTERRUPTED || !gnutls_error_is_fatal((int) n) ? EINTR : ECONNRESET;
    return -1;
}

static ssize_t websocket_recv_bytes(const struct websocket *socket, void *bytes, size_t len)
{
    if (socket->wire.recv)
        return socket->wire.recv(socket->wire.cookie, bytes, len);
    return socket->tls ? of_tls(gnutls_record_recv(socket->tls, bytes, len)) : recv(socket->fd, bytes, len, MSG_DONTWAIT);
}

static ssize_t websocket_send_bytes(const struct websocket *socket, const void *bytes, size_t len, bool has_more)
{
    if (socket->wire.send)
        return socket->wire.send(socket->wire.cookie, bytes, len);
    return socket->tls ? of_tls(gnutls_record_send(socket->tls, bytes, len))
                       : send(socket->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL | (has_more ? MSG_MORE : 0));
}

/* Whether bytes have arrived that poll(2) cannot see. */
static bool has_unseen(const struct websocket *socket)
{
    return socket->early.len > socket->early_at || (socket->tls && gnutls_record_check_pending(socket->tls) > 0) ||
           (socket->wire.recv && !socket->is_dry);
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *bytes, size_t len, int flags, void *user)
{
    struct websocket *socket = user;
    size_t early = socket->early.len - socket->early_at;
    ssize_t n;
    (void) ctx, (void) flags;

    /* A peer that sends pings and reads no pongs has to wait, and must not fill our memory. */
    if (is_full(socket) || socket->is_paused)
        return would_block(socket);
    if (early > 0) {
        len = len < early ? len : early;
        memcpy(bytes, socket->early.data + socket->early_at, len);
        socket->early_at += len;
        return (ssize_t) len;
    }
    do
        n = websocket_recv_bytes(socket, bytes, len);
    while (n < 0 && errno == EINTR);
    socket->is_dry = n < 0;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return would_block(socket);
    if (n <= 0)
        return websocket_fail(socket);
    socket->heard_ns = clock_now_ns();
    return n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t len, int flags, void *user)
{
    struct websocket *socket = user;
    ssize_t n;

    (void) ctx;
    do
        n = websocket_send_bytes(socket, bytes, len, flags & WSLAY_MSG_MORE);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return would_block(socket);
    if (n < 0)
        return websocket_fail(socket);
    socket->taken_ns = clock_now_ns();
    return n;
}

/* RFC 6455, 10.3: proxies must not see bytes that an attacker chose in what a client sends. */
static int on_mask(wslay_event_context_ptr ctx, uint8_t *bytes, size_t len, void *user)
{
    (void) ctx, (void) user;
    return id_random(bytes, len) < 0 ? -1 : 0;
}

/* Two bytes of status and then the reason. */
static void note_close_frame(struct websocket *socket, const struct wslay_event_on_msg_recv_arg *arg)
{
    size_t len = arg->msg_length > 2 ? arg->msg_length - 2 : 0;

    len = len < sizeof(socket->their_reason) - 1 ? len : sizeof(socket->their_reason) - 1;
    if (len > 0)
        memcpy(socket->their_reason, arg->msg + 2, len);
    socket->their_reason[len] = '\0';
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg, void *user)
{
    struct websocket *socket = user;
    (void) ctx;

    if (arg->opcode == WSLAY_CONNECTION_CLOSE)
        note_close_frame(socket, arg);
    if (wslay_is_ctrl_frame(arg->opcode) || socket->is_refused)
        return;
    if (socket->fn(arg->opcode == WSLAY_BINARY_FRAME, arg->msg, arg->msg_length, socket->cookie) < 0)
        socket->is_refused = true;
}

int websocket_new(int fd, struct gnutls_session_int *tls, const void *early, size_t early_len,
                  const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .genmask_callback = on_mask,
        .on_msg_recv_callback = on_message,
    };
    struct websocket *socket = xnew(struct websocket);
    int r;

    *socket = (struct websocket){
        .fd = fd,
        .tls = tls,
        .fn = fn,
        .cookie = cookie,
        .ping_ms = options && options->ping_ms ? options->ping_ms : 30000,
        .silence_ms = options && options->silence_ms ? options->silence_ms : 90000,
        .write_ms = options && options->write_ms ? options->write_ms : 60000,
    };
    socket->heard_ns = socket->taken_ns = socket->pinged_ns = clock_now_ns();
    buf_add(&socket->early, early, early_len);
    if (options && options->wire)
        socket->wire = *options->wire;
    r = options && options->is_client ? wslay_event_context_client_init(&socket->wslay, &callbacks, socket)
                                      : wslay_event_context_server_init(&socket->wslay, &callbacks, socket);
    if (r != 0) {
        buf_done(&socket->early);
        free(socket);
        return -ENOMEM;
    }
    websocket_set_message_max(socket, options && options->message_max ? options->message_max : WEBSOCKET_MESSAGE_MAX);
    *ret = socket;
    return 0;
}

void websocket_free(struct websocket *socket)
{
    if (!socket)
        return;
    wslay_event_context_free(socket->wslay);
    buf_done(&socket->early);
    free(socket);
}

int websocket_fd(const struct websocket *socket)
{
    return socket->fd;
}

void websocket_set_message_max(struct websocket *socket, size_t max)
{
    wslay_event_config_set_max_recv_msg_length(socket->wslay, max);
}

void websocket_pause(struct websocket *socket, bool on)
{
    socket->is_paused = on;
}

static bool wants_read(const struct websocket *socket)
{
    return wslay_event_want_read(socket->wslay) && !is_full(socket) && !socket->is_paused;
}

short websocket_events(const struct websocket *socket)
{
    return (short) ((wants_read(socket) ? POLLIN : 0) | (wslay_event_want_write(socket->wslay) ? POLLOUT : 0));
}

/* Returns when the next timer is due. */
static int64_t next_ns(const struct websocket *socket)
{
    int64_t asked = socket->heard_ns > socket->pinged_ns ? socket->heard_ns : socket->pinged_ns;
    int64_t due = asked + socket->ping_ms * CLOCK_NS_PER_MS;
    int64_t silent = socket->heard_ns + socket->silence_ms * CLOCK_NS_PER_MS;
    int64_t stuck = socket->taken_ns + socket->write_ms * CLOCK_NS_PER_MS;

    due = silent < due ? silent : due;
    return wslay_event_want_write(socket->wslay) && stuck < due ? stuck : due;
}

int websocket_timeout_ms(const struct websocket *socket)
{
    int64_t ms = (next_ns(socket) - clock_now_ns()) / CLOCK_NS_PER_MS + 1;

    if (has_unseen(socket) && wants_read(socket))
        return 0;
    return ms < 0 ? 0 : ms > 60000 ? 60000 : (int) ms;
}

/* A peer that does not read sees no pings and must not count as dead. */
static void send_keepalive(struct websocket *socket, int64_t now)
{
    const struct wslay_event_msg pong = { .opcode = WSLAY_PONG };

    if (now - socket->pinged_ns < socket->ping_ms * CLOCK_NS_PER_MS || is_full(socket))
        return;
    socket->pinged_ns = now;
    wslay_event_queue_msg(socket->wslay, &pong);
}

/* While we do not read, we cannot expect to hear from the peer. */
static void websocket_tick(struct websocket *socket)
{
    int64_t now = clock_now_ns();
    const struct wslay_event_msg ping = { .opcode = WSLAY_PING };

    if (socket->is_paused)
        send_keepalive(socket, now);
    if (socket->is_paused || is_full(socket))
        socket->heard_ns = now;
    if (now - socket->heard_ns >= socket->silence_ms * CLOCK_NS_PER_MS ||
        (wslay_event_want_write(socket->wslay) && now - socket->taken_ns >= socket->write_ms * CLOCK_NS_PER_MS))
        socket->is_over = socket->was_silent = true;
    if (now - socket->heard_ns < socket->ping_ms * CLOCK_NS_PER_MS ||
        now - socket->pinged_ns < socket->ping_ms * CLOCK_NS_PER_MS)
        return;
    socket->pinged_ns = now;
    wslay_event_queue_msg(socket->wslay, &ping);
}

/* The peer sent a malformed frame: send it a close frame and read nothing more. */
static void websocket_reject_frame(struct websocket *socket)
{
    socket->was_malformed = !socket->is_over;
    wslay_event_shutdown_read(socket->wslay);
    wslay_event_queue_close(socket->wslay, WEBSOCKET_PROTOCOL_ERROR, NULL, 0);
}

/* wslay sends a close frame before all queued messages and nothing after it, so queue it only when the queue is empty. */
static void send_close_frame(struct websocket *socket)
{
    if (!socket->close_status || wslay_event_want_write(socket->wslay) || wslay_event_get_close_sent(socket->wslay))
        return;
    wslay_event_queue_close(socket->wslay, (uint16_t) socket->close_status, (const uint8_t *) socket->close_reason,
                            strlen(socket->close_reason));
}

int websocket_work(struct websocket *socket, short revents)
{
    if (!wslay_event_want_write(socket->wslay))
        socket->taken_ns = clock_now_ns();
    websocket_tick(socket);
    if (!socket->is_over && (revents & (POLLIN | POLLHUP | POLLERR) || has_unseen(socket)) && wants_read(socket) &&
        wslay_event_recv(socket->wslay) != 0)
        websocket_reject_frame(socket);
    if (!socket->is_over && !wslay_event_get_read_enabled(socket->wslay) && !wslay_event_get_close_received(socket->wslay))
        socket->was_malformed = true;
    if (!socket->is_over && wslay_event_want_write(socket->wslay) && wslay_event_send(socket->wslay) != 0)
        socket->is_over = true;
    send_close_frame(socket);
    if (!socket->is_over && wslay_event_want_write(socket->wslay) && wslay_event_send(socket->wslay) != 0)
        socket->is_over = true;
    /* An unread hang-up would wake us forever. */
    if (revents & (POLLHUP | POLLERR | POLLNVAL) && !wants_read(socket))
        socket->is_over = true;
    if (!wslay_event_want_read(socket->wslay) && !wslay_event_want_write(socket->wslay))
        socket->is_over = true;
    return socket->is_over ? -EPIPE : 0;
}

int websocket_send(struct websocket *socket, bool is_binary, const void *bytes, size_t len)
{
    const struct wslay_event_msg message = { .opcode = is_binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME,
                                             .msg = bytes,
                                             .msg_length = len };

    if (socket->is_over)
        return -EPIPE;
    /* The write timeout begins with the first message that the peer does not read. */
    if (!wslay_event_want_write(socket->wslay))
        socket->taken_ns = clock_now_ns();
    return wslay_event_queue_msg(socket->wslay, &message) == 0 ? 0 : -EPIPE;
}

size_t websocket_queued(const struct websocket *socket)
{
    return wslay_event_get_queued_msg_length(socket->wslay);
}

void websocket_close(struct websocket *socket, enum websocket_status status, const char *reason)
{
    size_t len = reason ? strnlen(reason, CLOSE_REASON_MAX) : 0;

    if (socket->close_status)
        return;
    /* Do not cut within a character. */
    while (len > 0 && reason[len] && ((unsigned char) reason[len] & 0xc0) == 0x80)
        len--;
    if (len > 0)
        memcpy(socket->close_reason, reason, len);
    socket->close_status = status;
}

/* wslay reports what it rejects by itself to the peer, and to us only if it could still send to the peer. */
static const char *our_rejection(const struct websocket *socket)
{
    if (!socket->was_malformed)
        return NULL;
    if (socket->close_status || !wslay_event_get_close_sent(socket->wslay) || wslay_event_get_close_received(socket->wslay))
        return "sent what is no WebSocket frame";
    switch (wslay_event_get_status_code_sent(socket->wslay)) {
    case WSLAY_CODE_MESSAGE_TOO_BIG:
        return "sent a message that is too long";
    case WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA:
        return "sent text that is not UTF-8";
    default:
        return "sent what is no WebSocket frame";
    }
}

int websocket_explain_end(const struct websocket *socket, struct err *err)
{
    autodone(buf) struct buf reason = BUF_EMPTY;
    const char *refusal = our_rejection(socket);

    if (refusal)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the other end %s", refusal);
    if (socket->was_silent)
        return err_set(err, ERR_UNAVAILABLE, -EPIPE, "nothing was heard from the other end for too long");
    if (!wslay_event_get_close_received(socket->wslay))
        return err_set(err, ERR_UNAVAILABLE, -EPIPE, "the connection was lost");
    buf_add_escaped(&reason, socket->their_reason, strlen(socket->their_reason));
    return err_set(err, ERR_UNAVAILABLE, -EPIPE, "the other end hung up%s%s (status %u)", reason.len ? ": " : "",
                   reason.len ? reason.data : "", (unsigned) wslay_event_get_status_code_received(socket->wslay));
}

static int websocket_ignore_message(bool is_binary, const void *bytes, size_t len, void *cookie)
{
    (void) is_binary, (void) bytes, (void) len, (void) cookie;
    return 0;
}

void websocket_finish(struct websocket *socket, int timeout_ms, int cancel_fd)
{
    int64_t until = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;

    socket->fn = websocket_ignore_message;
    socket->is_paused = false;
    for (short revents = 0; websocket_work(socket, revents) == 0;) {
        int64_t left = (until - clock_now_ns()) / CLOCK_NS_PER_MS;
        struct pollfd fds[] = { { .fd = socket->fd, .events = websocket_events(socket) },
                                { .fd = cancel_fd, .events = POLLIN } };

        if (left > websocket_timeout_ms(socket))
            left = websocket_timeout_ms(socket) + 1;
        if (left <= 0 || (poll(fds, 2, (int) left) < 0 && errno != EINTR) || fds[1].revents)
            return;
        revents = fds[0].revents;
    }
}

bool websocket_accept_key(const char *key, char out[WEBSOCKET_ACCEPT_MAX])
{
    uint8_t decoded[BASE64_DECODE_LENGTH(KEY_TEXT_LEN)], digest[SHA1_DIGEST_SIZE];
    struct base64_decode_ctx decoder;
    size_t len = sizeof(decoded);
    struct sha1_ctx sha;

    base64_decode_init(&decoder);
    if (!key || strlen(key) != KEY_TEXT_LEN || !base64_decode_update(&decoder, &len, decoded, KEY_TEXT_LEN, key) ||
        !base64_decode_final(&decoder) || len != KEY_BYTES)
        return false;
    sha1_init(&sha);
    sha1_update(&sha, KEY_TEXT_LEN, (const uint8_t *) key);
    sha1_update(&sha, strlen(MAGIC), (const uint8_t *) MAGIC);
    sha1_digest(&sha, sizeof(digest), digest);
    base64_encode_raw(out, sizeof(digest), digest);
    out[BASE64_ENCODE_RAW_LENGTH(sizeof(digest))] = '\0';
    return true;
}

bool websocket_has_token(const char *list, const char *token)
{
    size_t len = strlen(token);

    while (list && *list) {
        list += strspn(list, " \t,");
        size_t at = strcspn(list, " \t,");
        if (at == len && strncasecmp(list, token, len) == 0)
            return true;
        list += at;
    }
    return false;
}
