/*
 * One request and its answer, over HTTP.
 *
 * Two threads meet here. The event thread (libmicrohttpd's) brings the request and takes the answer; the handler's thread, of the pool, sees
 * a `struct call`. Neither waits for the other while holding the lock, and the event thread never waits at all: where it would, it
 * suspends the connection, and whoever changes what it waits for resumes it.
 *
 *     exchange_new()          the request line is there
 *     exchange_open()         the headers are: refused at once, or a body begins; a handler that takes bytes starts here
 *     exchange_receive_body()    pieces of the body
 *     exchange_proceed()      the body is complete: the handler starts, connection suspended ... resumed: answer
 *     exchange_close()        sent, or the client is gone
 *
 * Who holds a reference: libmicrohttpd from new to close, the handler while it runs, the response while it is sent.
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

/* Of the event thread, from libmicrohttpd's callbacks: what they are to return. */
enum MHD_Result exchange_open(struct exchange *exchange, struct MHD_Connection *connection, const char *url, const char *verb,
                              const char *version);
enum MHD_Result exchange_receive_body(struct exchange *exchange, const char *bytes, size_t *len);
enum MHD_Result exchange_proceed(struct exchange *exchange);
void exchange_close(struct exchange *exchange, bool was_sent);

void exchange_ref(struct exchange *exchange);
void exchange_unref(struct exchange *exchange);

/* The client is gone, or the server goes: the handler is told, and waits for nothing any more. */
void exchange_cancel(struct exchange *exchange);

/* What is due by then is done; when to be called next, INT64_MAX: not. `*ret_is_slow`: the client is not worth waiting for. */
int64_t exchange_tick(struct exchange *exchange, int64_t now_ns, bool *ret_is_slow);
