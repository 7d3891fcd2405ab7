/*
 * A WebSocket to a server. libcurl makes the connection, with whatever is on the way: TLS, a proxy, a unix socket. The rest is ours, because
 * the libcurl of Debian 12 has no WebSockets that are stable: the request, its answer (upgrade.h), and the frames (call/websocket.h), by
 * curl_easy_send() and curl_easy_recv(), which never wait.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client/remote_int.h"
#include "client/upgrade.h"

#define ANSWER_MS 30000
#define REFUSAL_MAX ((size_t) 64 << 10)

struct tether {
    struct remote *remote; /* borrowed */
    CURL *easy;            /* owned */
    CURLM *multi;          /* owned; keeps the connection */
    int fd;                /* borrowed from libcurl */
    char why[CURL_ERROR_SIZE];
};

static void tether_close(void *own)
{
    struct tether *tether = own;

    if (tether->multi && tether->easy)
        curl_multi_remove_handle(tether->multi, tether->easy);
    curl_easy_cleanup(tether->easy);
    if (tether->multi)
        curl_multi_cleanup(tether->multi);
    free(tether);
}

/* ---- bytes ---- */

static ssize_t of_curl(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t) n;
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

static ssize_t tether_recv(void *own, void *bytes, size_t len)
{
    struct tether *tether = own;
    size_t n = 0;
    CURLcode code = curl_easy_recv(tether->easy, bytes, len, &n);

    return of_curl(code, n);
}

static ssize_t tether_send(void *own, const void *bytes, size_t len)
{
    struct tether *tether = own;
    size_t n = 0;
    CURLcode code = curl_easy_send(tether->easy, bytes, len, &n);

    return of_curl(code, n);
}

/* 0 when something may be done; the time is up at `until_ns`. */
static int tether_wait(const struct tether *tether, short events, int64_t until_ns, struct err *err)
{
    struct pollfd fds[] = { { .fd = tether->fd, .events = events }, { .fd = tether->remote->cancel_fd, .events = POLLIN } };
    int64_t left_ms = (until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;
    int n = left_ms <= 0 ? 0 : poll(fds, ARRAY_LEN(fds), (int) left_ms);

    if (n < 0 && errno != EINTR)
        return err_errno(err, -errno, "waiting for %s", tether->remote->where);
    if (n > 0 && fds[1].revents)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
    return n == 0 ? err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "%s does not answer", tether->remote->where) : 0;
}

static int send_all(struct tether *tether, const struct buf *bytes, int64_t until_ns, struct err *err)
{
    for (size_t at = 0; at < bytes->len;) {
        ssize_t n = tether_send(tether, bytes->data + at, bytes->len - at);
        int r = n < 0 && errno == EAGAIN ? tether_wait(tether, POLLOUT, until_ns, err) : 0;

        if (r < 0)
            return r;
        if (n < 0 && errno != EAGAIN)
            return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%s: the connection was lost", tether->remote->where);
        at += n > 0 ? (size_t) n : 0;
    }
    return 0;
}

/* 1; 0 at the end. */
static int receive_more(struct tether *tether, struct buf *in, int64_t until_ns, struct err *err)
{
    char piece[4096];

    for (;;) {
        ssize_t n = tether_recv(tether, piece, sizeof(piece));
        int r;

        if (n > 0) {
            buf_add(in, piece, (size_t) n);
            return 1;
        }
        if (n == 0 || errno != EAGAIN)
            return 0;
        r = tether_wait(tether, POLLIN, until_ns, err);
        if (r < 0)
            return r;
    }
}

/* ---- the answer ---- */

static int receive_head(struct tether *tether, const char *key, struct buf *in, struct upgrade_answer *ret, int64_t until_ns,
                        struct err *err)
{
    for (;;) {
        int r = upgrade_read(in->data, in->len, key, ret, err);

        if (r != 0)
            return r < 0 ? err_wrap(err, r, "%s", tether->remote->where) : 0;
        r = receive_more(tether, in, until_ns, err);
        if (r == 0)
            return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%s hung up before it had answered", tether->remote->where);
        if (r < 0)
            return r;
    }
}

/* What a server says that refuses, as far as it is told how much that is. */
static int receive_refusal(struct tether *tether, const struct upgrade_answer *head, struct buf *in, struct buf *answer,
                           int64_t until_ns, struct err *err)
{
    size_t wanted = head->content_bytes >= 0 ? (size_t) head->content_bytes : REFUSAL_MAX;
    int r = 1;

    wanted = wanted < REFUSAL_MAX ? wanted : REFUSAL_MAX;
    while (r > 0 && in->len - head->head_len < wanted)
        r = receive_more(tether, in, until_ns, err);
    if (r < 0)
        return r;
    buf_add(answer, in->data + head->head_len, in->len - head->head_len);
    return 0;
}

/* ---- all of it ---- */

static int tether_open(struct remote *remote, struct tether **ret, struct err *err)
{
    struct tether *tether = xnew(struct tether);
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code = CURLE_OK;
    int r = 0;

    *tether = (struct tether){ .remote = remote, .easy = curl_easy_init(), .multi = curl_multi_init() };
    if (!tether->easy || !tether->multi)
        r = err_errno(err, -ENOMEM, "making a client");
    if (r == 0) {
        remote_dress(remote, tether->easy, remote->base, tether->why);
        curl_easy_setopt(tether->easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_easy_setopt(tether->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
        r = remote_perform(remote, tether->easy, tether->multi, &code);
        if (r < 0)
            err_set(err, r == -ECANCELED ? ERR_CANCELLED : ERR_UNAVAILABLE, r, "%s",
                    r == -ECANCELED ? "interrupted" : remote->where);
        else if (code != CURLE_OK)
            r = remote_refuse(remote, code, tether->why, err);
    }
    if (r == 0 && (curl_easy_getinfo(tether->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD))
        r = err_set(err, ERR_UNAVAILABLE, -ENOTCONN, "%s: the connection was lost", remote->where);
    if (r < 0) {
        tether_close(tether);
        return r;
    }
    tether->fd = (int) fd;
    *ret = tether;
    return 0;
}

/* "http://user@host:8080/prefix": what the request names of it. */
static int ask(struct tether *tether, const char *path, int64_t until_ns, char key[UPGRADE_KEY_MAX], struct err *err)
{
    const char *authority = strstr(tether->remote->base, "://") + 3;
    size_t len = strcspn(authority, "/?#");
    autofree char *host = xdupn(authority, len);
    autofree char *target = xprintf("%s%s", authority[len] == '/' ? authority + len : "", path);
    const char *at = strrchr(host, '@');
    autodone(buf) struct buf request = BUF_EMPTY;
    int r = 0;

    if (strpbrk(target, " \t\r\n") || strpbrk(host, " \t\r\n"))
        r = err_invalid(err, "'%s' is no path of a request", target);
    if (r == 0)
        r = upgrade_add_request(&request, at ? at + 1 : host, target, tether->remote->token, key, err);
    if (r == 0)
        r = send_all(tether, &request, until_ns, err);
    if (request.len > 0)
        explicit_bzero(request.data, request.len);
    return r;
}

static int converse(struct tether *tether, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                    struct err *err)
{
    int64_t until_ns = clock_now_ns() + ANSWER_MS * CLOCK_NS_PER_MS;
    autodone(buf) struct buf in = BUF_EMPTY;
    struct upgrade_answer head = { 0 };
    char key[UPGRADE_KEY_MAX];
    int r = ask(tether, path, until_ns, key, err);

    if (r == 0)
        r = receive_head(tether, key, &in, &head, until_ns, err);
    if (r == 0 && head.status != 101)
        r = receive_refusal(tether, &head, &in, answer, until_ns, err);
    if (r < 0)
        return r;
    *ret_status = head.status;
    if (head.status == 101)
        buf_add(&ret->early, in.data + head.head_len, in.len - head.head_len);
    return 0;
}

int remote_connect(struct remote *remote, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                   struct err *err)
{
    struct tether *tether = NULL;
    int r = tether_open(remote, &tether, err);

    if (r < 0)
        return r;
    r = converse(tether, path, ret, ret_status, answer, err);
    if (r < 0 || *ret_status != 101) {
        tether_close(tether);
        return r;
    }
    ret->fd = tether->fd;
    ret->wire = (struct websocket_wire){ .recv = tether_recv, .send = tether_send, .cookie = tether };
    ret->close = tether_close;
    ret->own = tether;
    return 0;
}
