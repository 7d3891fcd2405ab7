/*
 * One request and its answer, over HTTP.
 *
 * Two threads work on it. The event thread (libmicrohttpd's) brings the request and takes the answer; the handler's thread, of the pool, sees
 * a `struct call`, or a `struct web`. Neither waits for the other while it holds the lock. The event thread never waits at all: where it would have
 * to, it suspends the connection, and the thread that changes the condition resumes it.
 *
 *     exchange_new()          the request line is there
 *     exchange_open()         the headers are: refused at once, or a body begins; a handler that takes bytes starts here
 *     exchange_receive_body()    pieces of the body
 *     exchange_proceed()      the body is complete: the handler starts, connection suspended ... resumed: answer
 *     exchange_close()        sent, or the client is gone
 *
 * libmicrohttpd holds a reference from new to close, the handler while it runs, the response while it is sent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

struct exchange;
struct http_server;

/* `target` is the raw one of the request line. */
struct exchange *exchange_new(struct http_server *server, const char *target);

bool exchange_is_open(const struct exchange *exchange);

/* For the event thread: what libmicrohttpd's callbacks return. */
enum MHD_Result exchange_open(struct exchange *exchange, struct MHD_Connection *connection, const char *url, const char *verb,
                              const char *version);
enum MHD_Result exchange_receive_body(struct exchange *exchange, const char *bytes, size_t *len);
enum MHD_Result exchange_proceed(struct exchange *exchange);
void exchange_close(struct exchange *exchange, bool was_sent);

void exchange_ref(struct exchange *exchange);
void exchange_unref(struct exchange *exchange);

/* Tells the handler that the client is gone or the server ends. It waits for nothing any more. */
void exchange_cancel(struct exchange *exchange);

/* Does what is due now. Returns when to call it next, or INT64_MAX. `*ret_is_slow`: the connection is to be closed, because the client is too slow. */
int64_t exchange_tick(struct exchange *exchange, int64_t now_ns, bool *ret_is_slow);
