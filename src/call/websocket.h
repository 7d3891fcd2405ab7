/*
 * The server's or the client's end of a WebSocket (RFC 6455) on an upgraded socket. Received messages and queued output are bounded.
 *
 * The owner polls websocket_fd() for websocket_events(), no longer than websocket_timeout_ms(), and then calls websocket_work(). A message that is
 * too long, text that is not UTF-8 and a malformed frame end the connection with the status that the protocol defines for it. The WebSocket
 * answers pings and pings a silent peer. It gives up a peer that stays silent or does not read. It reads nothing while more than
 * WEBSOCKET_QUEUE_MAX bytes wait to be sent.
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

/* Receives a borrowed message. A negative return value stops the delivery of messages. */
typedef int (*websocket_fn)(bool is_binary, const void *bytes, size_t len, void *cookie);

/* Replaces the socket as transport. The functions behave like non-blocking recv(2) and send(2), including errno. */
struct websocket_wire {
    ssize_t (*recv)(void *cookie, void *bytes, size_t len);
    ssize_t (*send)(void *cookie, const void *bytes, size_t len);
    void *cookie;
};

struct websocket_options {
    unsigned ping_ms;                  /* [30000] of silence before a ping; 0: the default */
    unsigned silence_ms;               /* [90000] of silence after which the peer counts as dead */
    unsigned write_ms;                 /* [60000] in which the peer must read something */
    size_t message_max;                /* [WEBSOCKET_MESSAGE_MAX] maximum size of a message */
    bool is_client;                    /* masks our frames and expects unmasked ones */
    const struct websocket_wire *wire; /* NULL: the socket, or the TLS session */
};

struct gnutls_session_int;

/* The caller keeps the socket and the TLS session on it (NULL: none). `early` is what arrived together with the request. */
int websocket_new(int fd, struct gnutls_session_int *tls, const void *early, size_t early_len,
                  const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret);
void websocket_free(struct websocket *socket);
DEFINE_AUTOPTR(websocket, websocket_free);

int websocket_fd(const struct websocket *socket);

/* Takes effect with the next message. */
void websocket_set_message_max(struct websocket *socket, size_t max);

/* While paused, no message is delivered; for owners that have no room. Pings and output go on. */
void websocket_pause(struct websocket *socket, bool on);

short websocket_events(const struct websocket *socket);
int websocket_timeout_ms(const struct websocket *socket);

/* Handles the events that poll(2) reported and the timers that are due. Negative: the connection has ended. */
int websocket_work(struct websocket *socket, short revents);

/* Copies the message into the queue. -EPIPE after the close. */
int websocket_send(struct websocket *socket, bool is_binary, const void *bytes, size_t len);

/* How many bytes wait to be sent. */
size_t websocket_queued(const struct websocket *socket);

/* Sends a close frame. The connection ends when the peer has answered it, or after a timeout. */
void websocket_close(struct websocket *socket, enum websocket_status status, const char *reason);

/* Sets `err` to the reason of the end (ERR_UNAVAILABLE) and returns -EPIPE, or -EPROTO if the peer violated the protocol. */
int websocket_explain_end(const struct websocket *socket, struct err *err);

/* Works until everything is sent and both sides have closed, `timeout_ms` have passed, or `cancel_fd` (-1: none) is readable. */
void websocket_finish(struct websocket *socket, int timeout_ms, int cancel_fd);

/* Computes Sec-WebSocket-Accept. False: `key` is not a valid Sec-WebSocket-Key. */
#define WEBSOCKET_ACCEPT_MAX 32
bool websocket_accept_key(const char *key, char out[WEBSOCKET_ACCEPT_MAX]);

/* Whether a header's comma-separated list contains the token; false if `list` is NULL. */
bool websocket_has_token(const char *list, const char *token);
