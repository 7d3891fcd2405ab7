/* Accepting connections: as many as there may be, and none when there is nothing to hold them with. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "rest/conn_watch_int.h"

#define ACCEPTS_MAX 32 /* in one turn, so that a flood of connections does not keep us from the others */

int conn_watch_add_listener(struct conn_watch *watch, const struct listener *listener, bool with_tls, struct err *err)
{
    struct watched_listener *watched = &watch->listeners[watch->listener_count];
    int r;

    if (watch->listener_count == CONN_WATCH_LISTENERS_MAX)
        return err_invalid(err, "more than %d addresses to listen on", CONN_WATCH_LISTENERS_MAX);
    *watched = (struct watched_listener){ .fd = listener->fd, .with_tls = with_tls };
    r = conn_watch_epoll_add(watch, watched->fd, EPOLLIN, watched);
    if (r < 0)
        return err_errno(err, r, "listening on %s", listener->text);
    watch->listener_count++;
    return 0;
}

/* With the lock held. What waits in the kernel's queue meanwhile is not lost. */
static void watch_listeners(struct conn_watch *watch, bool open)
{
    for (size_t i = 0; i < watch->listener_count; i++) {
        struct epoll_event event = { .events = open ? EPOLLIN : 0, .data.ptr = &watch->listeners[i] };
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->listeners[i].fd, &event);
    }
}

void conn_watch_update_listeners(struct conn_watch *watch)
{
    bool is_full = watch->is_closed_to_new || watch->count >= watch->options.connections_max;

    if (is_full != watch->is_full)
        watch_listeners(watch, !is_full);
    watch->is_full = is_full;
}

/* Of an IPv6 peer the network counts: each host has as many addresses as it likes. */
static bool is_same_host(const struct peer *a, const struct peer *b)
{
    const struct sockaddr_in *a4 = (const void *) &a->remote, *b4 = (const void *) &b->remote;
    const struct sockaddr_in6 *a6 = (const void *) &a->remote, *b6 = (const void *) &b->remote;

    if (a->kind != PEER_REMOTE || b->kind != PEER_REMOTE || a->remote.ss_family != b->remote.ss_family)
        return false;
    if (a->remote.ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, 8) == 0;
}

/* A connection that says nothing is held for as long as a request's header may take. Were strangers' not bounded, one of them could hold all
 * that there are, again and again: another user of this host, or a sandbox on its network. */
static bool has_too_many(const struct conn_watch *watch, const struct peer *peer)
{
    size_t same = 0, other_users = 0;

    if (peer_is_our_user(peer))
        return false;
    for (const struct http_conn *conn = watch->conns; conn; conn = conn->next) {
        same += is_same_host(&conn->peer, peer);
        other_users += !peer_is_our_user(&conn->peer);
    }
    return same >= watch->options.peer_connections_max || other_users >= PEER_OTHER_USERS_MAX(watch->options.connections_max);
}

/* Told once, until somebody is taken again. */
static void note_refusal(struct conn_watch *watch)
{
    if (!watch->is_starved)
        log_error("no descriptor left for connections: they are closed");
    watch->is_starved = true;
    pthread_mutex_lock(&watch->lock);
    watch->refused++;
    pthread_mutex_unlock(&watch->lock);
}

static void take_connection(struct conn_watch *watch, int accepted, const struct watched_listener *watched)
{
    autofd int fd = accepted;
    struct http_conn *conn;
    struct peer peer;
    int one = 1, r;

    r = peer_init(&peer, fd);
    /* It may have gone already; if not, we had not the means to find out who it is. */
    if (r < 0 && r != -ENOTCONN)
        note_refusal(watch);
    if (r < 0)
        return;
    watch->is_starved = false;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* a unix socket has none */
    peer.is_tls = watched->with_tls;
    conn = xnew(struct http_conn);
    *conn = (struct http_conn){ .refs = 1, .fd = fd, .peer = peer };
    pthread_mutex_lock(&watch->lock);
    bool refuse = has_too_many(watch, &peer);
    watch->refused += refuse;
    r = refuse ? -EMFILE : conn_watch_add(watch, conn);
    pthread_mutex_unlock(&watch->lock);
    if (r < 0) {
        http_conn_unref(conn);
        return;
    }
    /* The other thread may close it from here on; it is freed by this one alone. */
    if (watch->options.adopt(watch->options.cookie, steal_fd(&fd), &conn->peer, watched->with_tls))
        return;
    log_warn("a connection could not be taken", LOG_STR("peer", conn->peer.text));
    pthread_mutex_lock(&watch->lock);
    if (!conn->is_closed)
        conn_watch_remove(watch, conn);
    pthread_mutex_unlock(&watch->lock);
}

/* Without a descriptor to spare nobody can be accepted, and the queue would wake us for ever: with the one kept for this, the first in
 * the queue is accepted and closed. */
static bool conn_watch_reject_one(struct conn_watch *watch, int listen_fd)
{
    note_refusal(watch);
    cleanup_fd(&watch->reserve_fd);
    watch->reserve_fd = -1;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

void conn_watch_accept_from(struct conn_watch *watch, const struct watched_listener *watched)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        pthread_mutex_lock(&watch->lock);
        bool is_full = watch->is_full;
        pthread_mutex_unlock(&watch->lock);
        if (is_full)
            return;
        int fd = accept4(watched->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_connection(watch, fd, watched);
        } else if (err_errno_is_exhaustion(-errno)) {
            if (!conn_watch_reject_one(watch, watched->fd))
                return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            return;
        }
    }
}

void conn_watch_stop_accepting(struct conn_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_closed_to_new = true;
    conn_watch_update_listeners(watch);
    pthread_mutex_unlock(&watch->lock);
}
