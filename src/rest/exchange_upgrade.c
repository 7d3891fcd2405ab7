/*
 * From HTTP to a WebSocket (call/websocket.h). The handler's thread asks for it and waits; the event thread sends the answer, and when
 * libmicrohttpd lets go of the socket hands it over. From then on it is the handler's, until it hangs up. Host and Origin were looked at
 * before the handler was called, as for every request: a page of another origin gets here no more than anywhere else.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "call/websocket.h"
#include "rest/exchange_int.h"

#define WEBSOCKET_VERSION "13"
#define ANSWER_MS 10000

static int exchange_check_request(const struct exchange *exchange, char accept[WEBSOCKET_ACCEPT_MAX], struct err *err)
{
    const char *version = exchange_header(exchange, "sec-websocket-version");

    if (exchange->is_head || exchange->is_http_1_0 || !websocket_has_token(exchange_header(exchange, "upgrade"), "websocket") ||
        !websocket_has_token(exchange_header(exchange, "connection"), "upgrade"))
        return err_set(err, ERR_INVALID_ARGUMENT, -EPROTONOSUPPORT, "this is a WebSocket, and the request asks for none");
    if (!version || strcmp(version, WEBSOCKET_VERSION) != 0)
        return err_set(err, ERR_INVALID_ARGUMENT, -EPROTONOSUPPORT,
                       "the request's Sec-WebSocket-Version is not " WEBSOCKET_VERSION);
    if (exchange->has_body || !websocket_accept_key(exchange_header(exchange, "sec-websocket-key"), accept))
        return err_invalid(err, "the request's Sec-WebSocket-Key is none");
    return 0;
}

/* libmicrohttpd corks the connection while it sends an answer, and may leave it corked: each piece would then wait for the kernel's timeout. */
static void exchange_uncork(int fd)
{
    int on = 1, off = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)); /* a unix socket has none */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Sends the answer by a session that no other thread uses now. */
static int exchange_answer_by_tls(const struct exchange *exchange, gnutls_session_t session, const char *accept)
{
    autofree char *text = xprintf("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                  "Sec-WebSocket-Accept: %s\r\nX-Request-Id: %s\r\n\r\n",
                                  accept, exchange->call.request_id);
    struct pollfd fd = { .fd = exchange->conn->fd, .events = POLLOUT };
    ssize_t n;

    /* After EAGAIN GnuTLS wants the same bytes again; it sends all of a record or nothing. */
    while ((n = gnutls_record_send(session, text, strlen(text))) == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
        if (poll(&fd, 1, ANSWER_MS) == 0)
            return -ETIMEDOUT;
    }
    return n == (ssize_t) strlen(text) ? 0 : -ECONNRESET;
}

/*
 * With TLS the connection stays suspended, which keeps libmicrohttpd's hands off it, and the handler uses its session: when libmicrohttpd
 * upgrades a TLS connection it passes four bytes at a time, its buffers being in use. What a client sent behind its request, which it must
 * not before it has the answer, is lost.
 */
static int exchange_take_session(struct exchange *exchange, const char *accept, struct web_socket *ret)
{
    const union MHD_ConnectionInfo *info;
    int r = 0;

    pthread_mutex_lock(&exchange->lock);
    while (!exchange->is_suspended && !exchange->is_cancelled)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    exchange->is_taken = !exchange->is_cancelled;
    r = exchange->is_cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&exchange->lock);
    if (r < 0)
        return r;
    info = MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info)
        return -ENOTCONN;
    exchange_uncork(exchange->conn->fd);
    *ret = (struct web_socket){ .fd = exchange->conn->fd, .tls = info->tls_session };
    return exchange_answer_by_tls(exchange, info->tls_session, accept);
}

static int exchange_take_socket(struct exchange *exchange, const char *accept, struct web_socket *ret)
{
    int r = 0;

    pthread_mutex_lock(&exchange->lock);
    exchange->upgrade_accept = xdup(accept);
    exchange_wake(exchange);
    while (!exchange->upgrade && !exchange->is_cancelled)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    if (exchange->upgrade) {
        *ret = (struct web_socket){ .fd = exchange->upgrade_fd, .early = exchange->early };
        exchange->early = BUF_EMPTY;
    } else {
        r = -ECANCELED;
    }
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

int exchange_upgrade(struct exchange *exchange, struct web_socket *ret, struct err *err)
{
    char accept[WEBSOCKET_ACCEPT_MAX];
    int r = exchange_check_request(exchange, accept, err);

    if (r < 0)
        return r;
    r = exchange->conn->peer.is_tls ? exchange_take_session(exchange, accept, ret)
                                    : exchange_take_socket(exchange, accept, ret);
    return r < 0 ? err_set(err, ERR_CANCELLED, -ECANCELED, "the client has gone") : 0;
}

void exchange_hang_up(struct exchange *exchange)
{
    struct MHD_UpgradeResponseHandle *upgrade;

    pthread_mutex_lock(&exchange->lock);
    upgrade = steal_ptr(&exchange->upgrade);
    pthread_mutex_unlock(&exchange->lock);
    /* Without the lock: the event thread may need it to close the connection. */
    if (upgrade)
        MHD_upgrade_action(upgrade, MHD_UPGRADE_ACTION_CLOSE);
}

/* In the event thread. */
static void exchange_on_upgraded(void *cookie, struct MHD_Connection *connection, void *context, const char *early,
                                 size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *upgrade)
{
    struct exchange *exchange = cookie;
    bool is_wanted;
    (void) connection, (void) context;

    exchange_uncork(exchange->conn->fd);
    pthread_mutex_lock(&exchange->lock);
    is_wanted = !exchange->is_cancelled && fd_set_nonblock(fd, true) == 0;
    if (is_wanted) {
        exchange->upgrade = upgrade;
        exchange->upgrade_fd = fd;
        buf_add(&exchange->early, early, early_len);
    } else {
        exchange_cancel_locked(exchange);
    }
    pthread_cond_broadcast(&exchange->changed);
    pthread_mutex_unlock(&exchange->lock);
    if (!is_wanted)
        MHD_upgrade_action(upgrade, MHD_UPGRADE_ACTION_CLOSE);
}

enum MHD_Result exchange_send_upgrade(struct exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_for_upgrade(exchange_on_upgraded, exchange);

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Upgrade", "websocket");
    MHD_add_response_header(response, "Sec-WebSocket-Accept", exchange->upgrade_accept);
    return exchange_queue_response(exchange, MHD_HTTP_SWITCHING_PROTOCOLS, response);
}
