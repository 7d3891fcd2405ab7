/*
 * libcurl makes the connection and handles TLS, proxies and unix sockets. This file does the rest, because the WebSocket API of libcurl in Debian 12
 * is still experimental: it sends the upgrade request, reads the answer (upgrade.h), and exchanges frames (call/websocket.h) with curl_easy_send()
 * and curl_easy_recv(), which do not block.
 */
#include "client/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/websocket.h"
#include "client/client_int.h"
#include "client/upgrade.h"

#define FINISH_MS 5000
/* A command may leave its input unread for as long as it likes, so sending has no short limit. The WebSocket's pings detect a dead server. */
#define WRITE_MS (24 * 3600 * 1000)
#define ANSWER_MS 30000
#define REFUSAL_MAX ((size_t) 64 << 10)

struct channel {
    struct client *client;    /* borrowed */
    struct websocket *socket; /* owned */
    CURL *easy;               /* owned */
    CURLM *multi;             /* owned; keeps the connection */
    int fd;                   /* borrowed from libcurl */
    char why[CURL_ERROR_SIZE];
};

/* ---- bytes ---- */

static ssize_t of_curl(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t) n;
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

static ssize_t channel_recv_bytes(void *own, void *bytes, size_t len)
{
    struct channel *channel = own;
    size_t n = 0;
    CURLcode code = curl_easy_recv(channel->easy, bytes, len, &n);

    return of_curl(code, n);
}

static ssize_t channel_send_bytes(void *own, const void *bytes, size_t len)
{
    struct channel *channel = own;
    size_t n = 0;
    CURLcode code = curl_easy_send(channel->easy, bytes, len, &n);

    return of_curl(code, n);
}

/* Returns 0 when the caller should retry, -ETIMEDOUT at `until_ns`, -ECANCELED after an interrupt. */
static int channel_wait(const struct channel *channel, short events, int64_t until_ns, struct err *err)
{
    struct pollfd fds[] = { { .fd = channel->fd, .events = events }, { .fd = channel->client->cancel_fd, .events = POLLIN } };
    int64_t left_ms = (until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;
    int n = left_ms <= 0 ? 0 : poll(fds, ARRAY_LEN(fds), (int) left_ms);

    if (n < 0 && errno != EINTR)
        return err_errno(err, -errno, "waiting for %s", channel->client->where);
    if (n > 0 && fds[1].revents)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
    return n == 0 ? err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "%s does not answer", channel->client->where) : 0;
}

static int channel_send_all(struct channel *channel, const struct buf *bytes, int64_t until_ns, struct err *err)
{
    for (size_t at = 0; at < bytes->len;) {
        ssize_t n = channel_send_bytes(channel, bytes->data + at, bytes->len - at);
        int r = n < 0 && errno == EAGAIN ? channel_wait(channel, POLLOUT, until_ns, err) : 0;

        if (r < 0)
            return r;
        if (n < 0 && errno != EAGAIN)
            return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%s: the connection was lost", channel->client->where);
        at += n > 0 ? (size_t) n : 0;
    }
    return 0;
}

/* Returns 1 after receiving bytes, or 0 at the end of the connection. */
static int receive_more(struct channel *channel, struct buf *in, int64_t until_ns, struct err *err)
{
    char piece[4096];

    for (;;) {
        ssize_t n = channel_recv_bytes(channel, piece, sizeof(piece));
        int r;

        if (n > 0) {
            buf_add(in, piece, (size_t) n);
            return 1;
        }
        if (n == 0 || errno != EAGAIN)
            return 0;
        r = channel_wait(channel, POLLIN, until_ns, err);
        if (r < 0)
            return r;
    }
}

/* ---- the upgrade ---- */

static int receive_head(struct channel *channel, const char *key, struct buf *in, struct upgrade_answer *ret, int64_t until_ns,
                        struct err *err)
{
    for (;;) {
        int r = upgrade_read(in->data, in->len, key, ret, err);

        if (r != 0)
            return r < 0 ? err_wrap(err, r, "%s", channel->client->where) : 0;
        r = receive_more(channel, in, until_ns, err);
        if (r == 0)
            return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%s hung up before it had answered", channel->client->where);
        if (r < 0)
            return r;
    }
}

/* Reads the body of a refusal: as many bytes as Content-Length announces, at most REFUSAL_MAX. */
static int receive_refusal(struct channel *channel, const struct upgrade_answer *head, struct buf *in, struct buf *answer,
                           int64_t until_ns, struct err *err)
{
    size_t wanted = head->content_bytes >= 0 ? (size_t) head->content_bytes : REFUSAL_MAX;
    int r = 1;

    wanted = wanted < REFUSAL_MAX ? wanted : REFUSAL_MAX;
    while (r > 0 && in->len - head->head_len < wanted)
        r = receive_more(channel, in, until_ns, err);
    if (r < 0)
        return r;
    buf_add(answer, in->data + head->head_len, in->len - head->head_len);
    return 0;
}

/* The request names the host and the prefix of the base URL "http://user@host:8080/prefix", without the user. */
static int channel_ask(struct channel *channel, const char *path, int64_t until_ns, char key[UPGRADE_KEY_MAX], struct err *err)
{
    const char *authority = strstr(channel->client->base, "://") + 3;
    size_t len = strcspn(authority, "/?#");
    autofree char *host = xdupn(authority, len);
    autofree char *target = xprintf("%s%s", authority[len] == '/' ? authority + len : "", path);
    const char *at = strrchr(host, '@');
    autodone(buf) struct buf request = BUF_EMPTY;
    int r = 0;

    if (strpbrk(target, " \t\r\n") || strpbrk(host, " \t\r\n"))
        r = err_invalid(err, "'%s' is not a request path", target);
    if (r == 0)
        r = upgrade_add_request(&request, at ? at + 1 : host, target, channel->client->token, key, err);
    if (r == 0)
        r = channel_send_all(channel, &request, until_ns, err);
    if (request.len > 0)
        explicit_bzero(request.data, request.len);
    return r;
}

/* `early` gets the frames that arrived together with the answer. */
static int channel_upgrade(struct channel *channel, const char *path, struct buf *early, int *ret_status, struct buf *answer,
                           struct err *err)
{
    int64_t until_ns = clock_now_ns() + ANSWER_MS * CLOCK_NS_PER_MS;
    autodone(buf) struct buf in = BUF_EMPTY;
    struct upgrade_answer head = { 0 };
    char key[UPGRADE_KEY_MAX];
    int r = channel_ask(channel, path, until_ns, key, err);

    if (r == 0)
        r = receive_head(channel, key, &in, &head, until_ns, err);
    if (r == 0 && head.status != 101)
        r = receive_refusal(channel, &head, &in, answer, until_ns, err);
    if (r < 0)
        return r;
    *ret_status = head.status;
    if (head.status == 101)
        buf_add(early, in.data + head.head_len, in.len - head.head_len);
    return 0;
}

/* ---- the channel ---- */

static int channel_connect(struct channel *channel, struct err *err)
{
    const struct client *client = channel->client;
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code = CURLE_OK;
    int r;

    channel->easy = curl_easy_init();
    channel->multi = curl_multi_init();
    if (!channel->easy || !channel->multi)
        return err_errno(err, -ENOMEM, "making a client");
    client_dress(client, channel->easy, client->base, channel->why);
    curl_easy_setopt(channel->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(channel->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    r = client_perform(client, channel->easy, channel->multi, &code);
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    if (r < 0)
        return err_set(err, ERR_UNAVAILABLE, r, "%s", client->where);
    if (code != CURLE_OK)
        return client_refuse(client, code, channel->why, err);
    if (curl_easy_getinfo(channel->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return err_set(err, ERR_UNAVAILABLE, -ENOTCONN, "%s: the connection was lost", client->where);
    channel->fd = (int) fd;
    return 0;
}

int channel_open(struct client *client, const char *path, channel_fn fn, void *cookie, struct channel **ret, int *ret_status,
                 struct buf *answer, struct err *err)
{
    autoptr(channel) channel = xnew(struct channel);
    const struct websocket_wire wire = { .recv = channel_recv_bytes, .send = channel_send_bytes, .cookie = channel };
    const struct websocket_options options = {
        .is_client = true, .message_max = CHANNEL_MESSAGE_MAX, .write_ms = WRITE_MS, .wire = &wire
    };
    autodone(buf) struct buf early = BUF_EMPTY;
    int r;

    channel->client = client;
    r = channel_connect(channel, err);
    if (r == 0)
        r = channel_upgrade(channel, path, &early, ret_status, answer, err);
    if (r < 0 || *ret_status != 101)
        return r;
    r = websocket_new(channel->fd, NULL, early.data, early.len, &options, fn, cookie, &channel->socket);
    if (r < 0)
        return err_errno(err, r, "making a WebSocket");
    *ret = steal_ptr(&channel);
    return 0;
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    websocket_free(channel->socket);
    if (channel->multi && channel->easy)
        curl_multi_remove_handle(channel->multi, channel->easy);
    curl_easy_cleanup(channel->easy);
    if (channel->multi)
        curl_multi_cleanup(channel->multi);
    free(channel);
}

int channel_fd(const struct channel *channel)
{
    return websocket_fd(channel->socket);
}

short channel_events(const struct channel *channel)
{
    return websocket_events(channel->socket);
}

int channel_timeout_ms(const struct channel *channel)
{
    return websocket_timeout_ms(channel->socket);
}

int channel_work(struct channel *channel, short revents)
{
    return websocket_work(channel->socket, revents);
}

void channel_hold(struct channel *channel, bool on)
{
    websocket_pause(channel->socket, on);
}

int channel_send(struct channel *channel, bool is_binary, const void *bytes, size_t len)
{
    return websocket_send(channel->socket, is_binary, bytes, len);
}

size_t channel_queued(const struct channel *channel)
{
    return websocket_queued(channel->socket);
}

void channel_finish(struct channel *channel)
{
    websocket_close(channel->socket, WEBSOCKET_NORMAL, "");
    websocket_finish(channel->socket, FINISH_MS, -1);
}

int channel_tell_end(const struct channel *channel, struct err *err)
{
    int r = websocket_explain_end(channel->socket, err);

    return err_wrap(err, r, "%s", channel->client->where);
}
