/*
 * The connections of a server. One thread accepts them, hands them to libmicrohttpd, and watches for what libmicrohttpd does not notice: a client of a
 * suspended connection that hung up, headers that never end, a deadline that passed, an event stream that has been silent.
 *
 * Its lock comes before that of an exchange.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "call/listener.h"
#include "call/peer.h"

struct exchange;
struct conn_watch;

/* One connection. */
struct http_conn {
    atomic_uint refs;
    int fd;           /* libmicrohttpd's; closed only after conn_watch_forget() */
    struct peer peer; /* never changes, but for the TLS subject, which is set before the first call sees it */
    bool has_checked_tls;
    /* The rest is guarded by the watch's lock. */
    uint32_t number;          /* no other connection has it for a long time */
    struct exchange *current; /* borrowed: the request being served; NULL between two */
    int64_t headers_by_ns;    /* while there is none; 0: not watched */
    int64_t shut_read_at_ns;  /* after it hung up; 0: not */
    bool has_hung_up;
};

void http_conn_unref(struct http_conn *conn);

struct conn_watch_options {
    size_t connections_max, peer_connections_max;
    unsigned header_timeout_ms;
    /* Takes the connected socket, also on failure; `with_tls` is that of its listener. Returns false if it closed the socket. */
    bool (*adopt)(void *cookie, int fd, const struct peer *peer, bool with_tls);
    void *cookie;
};

int conn_watch_new(const struct conn_watch_options *options, struct conn_watch **ret, struct err *err);
void conn_watch_free(struct conn_watch *watch);
int conn_watch_add_listener(struct conn_watch *watch, const struct listener *listener, bool with_tls, struct err *err);
int conn_watch_start(struct conn_watch *watch, struct err *err);
void conn_watch_stop(struct conn_watch *watch);
void conn_watch_stop_accepting(struct conn_watch *watch);

/* Returns a reference to the connection with this descriptor, or NULL if it is not one of ours. */
struct http_conn *conn_watch_find(struct conn_watch *watch, int fd);
/* libmicrohttpd is about to close it. Takes the reference. */
void conn_watch_forget(struct conn_watch *watch, struct http_conn *conn);

/* A request of the connection begins, and ends. */
void conn_watch_begin(struct conn_watch *watch, struct http_conn *conn, struct exchange *exchange);
void conn_watch_end(struct conn_watch *watch, struct http_conn *conn);

/* Makes the thread call exchange_tick() at that time. May be called with the exchange's lock held. */
void conn_watch_arm(struct conn_watch *watch, int64_t when_ns);

/* Cancels every call. */
void conn_watch_cancel_all(struct conn_watch *watch);

void conn_watch_stats(struct conn_watch *watch, size_t *ret_connections, uint64_t *ret_refused);
