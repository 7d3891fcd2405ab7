/*
 * Insides of an exchange, shared by its files:
 *   exchange.c         its life, and what the event thread does
 *   exchange_open.c    what is decided when the headers are there
 *   exchange_body.c    the request's body
 *   exchange_call.c    the handler's side, of methods and of web routes
 *   exchange_answer.c  the answer
 *   exchange_upgrade.c a connection that becomes a WebSocket
 *
 * Locks, in this order: the watch's, an exchange's, the watch's timer and libmicrohttpd's own.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "call/call.h"
#include "call/web.h"
#include "rest/conn_watch.h"
#include "rest/exchange.h"
#include "rest/http_server.h"
#include "rest/multipart.h"
#include "rest/route.h"

#define EXCHANGE_JSON_MAX ((size_t) 4 << 20)       /* of a body that is kept whole */
#define EXCHANGE_DISCARD_MAX ((uint64_t) 16 << 20) /* of a body that nobody wants any more, before the connection is cut */
#define EXCHANGE_INBOX_MAX ((size_t) 256 << 10)
#define EXCHANGE_OUTBOX_MAX ((size_t) 256 << 10)
#define EXCHANGE_TRAILERS_MAX 16

/* A daemon cannot change its certificate, so each certificate that was loaded has a daemon. Connections stay with the daemon that they came to. */
struct https {
    struct MHD_Daemon *daemon; /* owned */
    struct buf certificate, key, client_ca;
    struct https *older;
};

struct http_server {
    struct http_server_options options; /* with the defaults filled in */
    struct route_table *routes;         /* owned */
    struct conn_watch *watch;           /* owned */
    struct MHD_Daemon *plain;           /* owned; NULL: not needed */
    struct https *https;                /* owned, the newest first; NULL: not needed. Under the lock */
    bool has_plain, has_secure, is_started;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    /* Guarded by lock. */
    struct buf openapi; /* empty until somebody asks for it */
    size_t calls;       /* handlers at work */
    size_t answers;     /* requests that a handler was started for and whose answer is not sent yet */
    bool is_stopping;
};

/* What happens to the body. */
enum body_mode { BODY_IGNORED, BODY_WHOLE, BODY_STREAMED };

struct exchange {
    struct call call; /* first */
    struct http_server *server;
    struct http_conn *conn; /* a reference */
    atomic_uint refs;

    /* Set by exchange_open() and not changed afterwards. */
    enum body_mode body_mode;
    size_t body_max;                   /* of one that is kept whole */
    struct MHD_Connection *connection; /* valid until exchange_close() */
    char *target;                      /* owned; path and query point into it */
    const char *path, *query;          /* the path is not ended by a NUL */
    size_t path_len, query_len;
    char *verb;               /* owned */
    char *allowed_origin;     /* owned; NULL: no headers for other origins */
    struct web_pair *headers; /* owned */
    size_t header_count, header_cap;
    const char *head_flaw; /* a literal: what is wrong with the request line or the headers; NULL: nothing */
    struct route_match match;
    int64_t total_size; /* of the body as it was announced; -1: it was not */
    bool is_head, is_http_1_0, is_form, is_multipart, has_body;

    /* Of the event thread alone. */
    bool is_open, is_answered;
    bool is_unsound;    /* where the request ends is in doubt */
    bool form_is_file;  /* the field that is being read */
    int refusal_status; /* what is answered instead, when the body has been read; 0: nothing */
    enum err_code refusal_code;
    char *refusal;          /* owned */
    struct multipart *form; /* owned */
    struct buf form_name, form_value;

    /* Guarded by the lock from here on. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_suspended; /* the connection; the thread that clears it resumes */
    bool is_submitted; /* to the pool */
    bool has_ended;    /* the handler returned */
    bool has_begun;    /* a streamed answer may be sent: there is some of it, or begin_by_ns has passed */
    bool is_cancelled, is_late;
    int cancel_fd;      /* owned; -1: nobody asked */
    bool is_broken;     /* a stream that must not look complete */
    bool has_answer;    /* of a method with one answer: it is in the response */
    bool request_taken; /* the handler has had its only request */

    bool body_is_complete, body_is_too_large;
    bool body_was_held;  /* since it was last looked at: by us, there being no room */
    bool file_has_begun; /* multipart: the part with the file */
    char *body_refusal;  /* owned: why the body is not what it should be; NULL: it is */
    struct buf body;     /* whole */
    struct buf inbox;    /* streamed, from inbox_at */
    size_t inbox_at;
    ProtobufCMessage *metadata; /* owned: of a streamed body, until the handler took it */
    uint64_t received, discarded;
    uint64_t received_before;
    int64_t body_check_ns; /* when it must have made progress; 0: not watched */

    struct web_response
        response;      /* status and headers, and the body of an answer that is whole; the handler's alone until has_begun or
                                     has_ended, the event thread's afterwards */
    struct buf outbox; /* streamed, from outbox_at */
    size_t outbox_at;
    bool is_drained;           /* all of it was sent, and there was no more */
    struct web_pair *trailers; /* owned */
    size_t trailer_count, trailer_cap;
    int64_t started_ns, heartbeat_ns;
    int64_t begin_by_ns; /* a stream of events begins then even if it is empty; INT64_MAX: only when its handler begins it */

    char *upgrade_accept;                      /* owned: the handler wants a WebSocket, and this is the answer to its key */
    struct MHD_UpgradeResponseHandle *upgrade; /* it has it; NULL: not yet, or no more */
    int upgrade_fd;
    bool is_taken;    /* with TLS: the connection stays suspended, and its session is the handler's; afterwards it is closed */
    struct buf early; /* what came behind the request */
};

extern const struct call_ops exchange_call_ops;

void web_pairs_free(struct web_pair *pairs, size_t count);

/* A header of the request, lower-case name. NULL: not sent. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* Call with the lock held. Resume and suspend the connection. */
void exchange_wake(struct exchange *exchange);
void exchange_suspend(struct exchange *exchange);

/* Call with the lock held. */
void exchange_cancel_locked(struct exchange *exchange);

/* Starts the handler in a thread of the pool; -EAGAIN when there is none. If is_submitted is set then, exchange_count_answer() must follow at the end. */
int exchange_submit(struct exchange *exchange);
void exchange_count_answer(struct exchange *exchange);

/* Of exchange_upgrade.c. In the handler's thread: the socket is its own until it hangs up; -EPROTONOSUPPORT when the request asks for no
 * WebSocket, or for another version. In the event thread: the answer. */
int exchange_upgrade(struct exchange *exchange, struct web_socket *ret, struct err *err);
void exchange_hang_up(struct exchange *exchange);
enum MHD_Result exchange_send_upgrade(struct exchange *exchange);

/* Sends exchange->response whole, and, for exchange_upgrade.c, a response of libmicrohttpd's with the headers of every answer, which it takes. */
enum MHD_Result exchange_send_final(struct exchange *exchange);
enum MHD_Result exchange_queue_response(struct exchange *exchange, int status, struct MHD_Response *response);
/* Sends exchange->response with the outbox as its body, as it fills. */
enum MHD_Result exchange_send_stream(struct exchange *exchange);

/* Refuse a request, in the event thread. The refusal is sent after the body has been read, because only then can the connection go on and the
 * client is sure to see the refusal. It is sent at once if the body is long, or if the client waits to hear whether it shall send one. */
enum MHD_Result exchange_reject(struct exchange *exchange, enum err_code code, const char *message);
enum MHD_Result exchange_reject_status(struct exchange *exchange, int status, enum err_code code, const char *message);

enum MHD_Result exchange_send_rejection(struct exchange *exchange);

/* {"code": ..., "message": ..., "details": [...]} */
void exchange_add_error(struct buf *out, enum err_code code, const char *message, const struct call *call);

/* The same where no handler speaks, in the form that the path has (web_is_path()). */
void exchange_add_refusal(const struct exchange *exchange, struct buf *out, int status, enum err_code code, const char *message,
                          const char *hint);

/* Of exchange_open.c: the headers once they are collected. `ret` is what the callback returns. */
void exchange_accept_headers(struct exchange *exchange, enum MHD_Result *ret);

/* Of exchange_body.c. */
int exchange_prepare_stream(struct exchange *exchange, struct err *err);
void exchange_feed(struct exchange *exchange, const char *bytes, size_t len);
void exchange_finish_body(struct exchange *exchange);
