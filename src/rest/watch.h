/*
 * The connections of a server: accepted here, handed to libmicrohttpd, and watched for what it does not see: that the client of a
 * suspended connection hung up, that a request's headers take for ever, that a deadline passed, that an event stream has been silent.
 *
 * One thread does all of it. Its lock comes before that of an exchange.
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
struct watch;

/* One connection. */
struct line {
    atomic_uint refs;
    int fd;           /* libmicrohttpd's; closed only after watch_forget() */
    struct peer peer; /* never changes, but for the TLS subject, which is set before the first call sees it */
    bool has_checked_tls;
    /* The rest is guarded by the watch's lock. */
    struct line *next, **link; /* all that are open, or the dead ones */
    struct exchange *current;  /* borrowed: the request being served; NULL between two */
    int64_t headers_by_ns;     /* while there is none; 0: not watched */
    int64_t nudge_at_ns;       /* after it hung up; 0: not */
    bool has_hung_up, is_closed;
};

void line_unref(struct line *line);

struct watch_options {
    size_t connections_max, peer_connections_max;
    unsigned header_timeout_ms;
    /* Takes the connected socket, whatever comes of it; `with_tls` as its listener was added. False: it has been closed. */
    bool (*adopt)(void *cookie, int fd, const struct peer *peer, bool with_tls);
    void *cookie;
};

int watch_new(const struct watch_options *options, struct watch **ret, struct err *err);
void watch_free(struct watch *watch);
int watch_add_listener(struct watch *watch, const struct listener *listener, bool with_tls, struct err *err);
int watch_start(struct watch *watch, struct err *err);
void watch_stop(struct watch *watch);
void watch_stop_accepting(struct watch *watch);

/* A connection that libmicrohttpd took over, by its descriptor; a reference. NULL: it is none of ours. */
struct line *watch_find(struct watch *watch, int fd);
/* It is about to be closed. Takes the reference. */
void watch_forget(struct watch *watch, struct line *line);

/* A request begins, and ends. */
void watch_begin(struct watch *watch, struct line *line, struct exchange *exchange);
void watch_end(struct watch *watch, struct line *line);

/* Something of an exchange is due then: exchange_tick() will be called. May be called with its lock held. */
void watch_arm(struct watch *watch, int64_t when_ns);

/* Cancels every call. */
void watch_cancel_all(struct watch *watch);

void watch_stats(struct watch *watch, size_t *ret_connections, uint64_t *ret_refused);
