/*
 * A WebSocket (RFC 6455) on a socket that has been upgraded: messages in and out, with bounds on both. The server's end of it, or the
 * client's.
 *
 * Its owner polls websocket_fd() for websocket_events() beside whatever else it waits for, no longer than websocket_timeout_ms(), and then
 * calls websocket_work(). A message that is too long, text that is not UTF-8 or what is no frame ends it with the status that the
 * protocol has for that. Pings are answered, and sent to a peer that is silent; one that stays silent, or does not take what was sent,
 * is given up. Nothing is read while more than WEBSOCKET_QUEUE_MAX wait to be sent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

#define WEBSOCKET_MESSAGE_MAX ((size_t) 64 << 10)
#define WEBSOCKET_QUEUE_MAX ((size_t) 256 << 10)

/* RFC 6455, 7.4.1. */
enum websocket_status {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_PROTOCOL_ERROR = 1002,
    WEBSOCKET_UNSUPPORTED = 1003,
    WEBSOCKET_POLICY = 1008,
    WEBSOCKET_INTERNAL_ERROR = 1011,
    WEBSOCKET_TRY_LATER = 1013,
};

struct websocket;

/* A message, lent. A negative answer ends the reading: nothing more is handed on. */
typedef int (*websocket_fn)(bool is_binary, const void *bytes, size_t len, void *cookie);

/* What carries the bytes where it is no plain socket: as recv(2) and send(2) that never wait, errno too. */
struct websocket_wire {
    ssize_t (*recv)(void *cookie, void *bytes, size_t len);
    ssize_t (*send)(void *cookie, const void *bytes, size_t len);
    void *cookie;
};

struct websocket_options {
    unsigned ping_ms;                  /* [30000] of silence before it is asked whether it lives; 0: the default */
    unsigned silence_ms;               /* [90000] of silence after which it does not */
    unsigned write_ms;                 /* [60000] in which something must be taken */
    size_t message_max;                /* [WEBSOCKET_MESSAGE_MAX] bytes that a message may have */
    bool is_client;                    /* ours are masked, theirs are not */
    const struct websocket_wire *wire; /* NULL: the socket, or the TLS session */
};

struct gnutls_session_int;

/* The socket stays the caller's, as does the TLS session on it; NULL: there is none. `early` are bytes that came with the request. */
int websocket_new(int fd, struct gnutls_session_int *tls, const void *early, size_t early_len,
                  const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret);
void websocket_free(struct websocket *socket);
DEFINE_AUTOPTR(websocket, websocket_free);

int websocket_fd(const struct websocket *socket);

/* From the next message on. */
void websocket_set_message_max(struct websocket *socket, size_t max);

/* No message is handed on while this is so: set by who has no room for them. The peer hears from us all the same. */
void websocket_pause(struct websocket *socket, bool on);

short websocket_events(const struct websocket *socket);
int websocket_timeout_ms(const struct websocket *socket);

/* What poll(2) said is done, and what is due. 0; negative: it is over. */
int websocket_work(struct websocket *socket, short revents);

/* Copied. -EPIPE when nothing may be sent any more. */
int websocket_send(struct websocket *socket, bool is_binary, const void *bytes, size_t len);

/* How many bytes the peer has not taken yet. */
size_t websocket_queued(const struct websocket *socket);

/* Says good-bye; it is over when the peer has said so too, or in a while. */
void websocket_close(struct websocket *socket, enum websocket_status status, const char *reason);

/* Why it is over, for people: sets `err`, ERR_UNAVAILABLE, and returns -EPIPE, or -EPROTO for a peer that broke the protocol. */
int websocket_explain_end(const struct websocket *socket, struct err *err);

/* Until the peer has taken all and the end was told by both, or `timeout_ms` have passed, or the descriptor (-1: none) is readable. */
void websocket_finish(struct websocket *socket, int timeout_ms, int cancel_fd);

/* The answer to the header Sec-WebSocket-Key. False: it is no such key. */
#define WEBSOCKET_ACCEPT_MAX 32
bool websocket_accept_key(const char *key, char out[WEBSOCKET_ACCEPT_MAX]);

/* Whether a header that is a list of tokens has this one; a list of NULL has none. */
bool websocket_has_token(const char *list, const char *token);
