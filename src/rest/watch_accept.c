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
#include "rest/watch_int.h"

#define ACCEPTS_MAX 32 /* in one turn, so that a flood of connections does not keep us from the others */

int watch_add_listener(struct watch *watch, const struct listener *listener, bool with_tls, struct err *err)
{
    struct gate *gate = &watch->gates[watch->gate_count];
    int r;

    if (watch->gate_count == WATCH_LISTENERS_MAX)
        return err_invalid(err, "more than %d addresses to listen on", WATCH_LISTENERS_MAX);
    *gate = (struct gate){ .fd = listener->fd, .with_tls = with_tls };
    r = watch_epoll_add(watch, gate->fd, EPOLLIN, gate);
    if (r < 0)
        return err_errno(err, r, "listening on %s", listener->text);
    watch->gate_count++;
    return 0;
}

/* With the lock held. What waits in the kernel's queue meanwhile is not lost. */
static void open_gates(struct watch *watch, bool open)
{
    for (size_t i = 0; i < watch->gate_count; i++) {
        struct epoll_event event = { .events = open ? EPOLLIN : 0, .data.ptr = &watch->gates[i] };
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->gates[i].fd, &event);
    }
}

void watch_update_gates(struct watch *watch)
{
    bool is_full = watch->is_closed_to_new || watch->count >= watch->options.connections_max;

    if (is_full != watch->is_full)
        open_gates(watch, !is_full);
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
static bool has_too_many(const struct watch *watch, const struct peer *peer)
{
    size_t same = 0, strangers = 0;

    if (peer_is_our_user(peer))
        return false;
    for (const struct line *line = watch->lines; line; line = line->next) {
        same += is_same_host(&line->peer, peer);
        strangers += !peer_is_our_user(&line->peer);
    }
    return same >= watch->options.peer_connections_max || strangers >= PEER_STRANGERS_MAX(watch->options.connections_max);
}

/* Told once, until somebody is taken again. */
static void note_refusal(struct watch *watch)
{
    if (!watch->is_starved)
        log_error("no descriptor left for connections: they are closed");
    watch->is_starved = true;
    pthread_mutex_lock(&watch->lock);
    watch->refused++;
    pthread_mutex_unlock(&watch->lock);
}

static void take_connection(struct watch *watch, int accepted, const struct gate *gate)
{
    autofd int fd = accepted;
    struct line *line;
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
    peer.is_tls = gate->with_tls;
    line = xnew(struct line);
    *line = (struct line){ .refs = 1, .fd = fd, .peer = peer };
    pthread_mutex_lock(&watch->lock);
    bool refuse = has_too_many(watch, &peer);
    watch->refused += refuse;
    r = refuse ? -EMFILE : watch_add_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
    if (r < 0) {
        line_unref(line);
        return;
    }
    /* The other thread may close it from here on; it is freed by this one alone. */
    if (watch->options.adopt(watch->options.cookie, steal_fd(&fd), &line->peer, gate->with_tls))
        return;
    log_warn("a connection could not be taken", LOG_STR("peer", line->peer.text));
    pthread_mutex_lock(&watch->lock);
    if (!line->is_closed)
        watch_remove_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
}

/* Without a descriptor to spare nobody can be accepted, and the queue would wake us for ever: with the one kept for this, the first in
 * the queue is accepted and closed. */
static bool shed(struct watch *watch, int gate_fd)
{
    note_refusal(watch);
    cleanup_fd(&watch->reserve_fd);
    watch->reserve_fd = -1;
    int fd = accept4(gate_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

void watch_accept_from(struct watch *watch, const struct gate *gate)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        pthread_mutex_lock(&watch->lock);
        bool is_full = watch->is_full;
        pthread_mutex_unlock(&watch->lock);
        if (is_full)
            return;
        int fd = accept4(gate->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_connection(watch, fd, gate);
        } else if (err_errno_is_short(-errno)) {
            if (!shed(watch, gate->fd))
                return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            return;
        }
    }
}

void watch_stop_accepting(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_closed_to_new = true;
    watch_update_gates(watch);
    pthread_mutex_unlock(&watch->lock);
}
