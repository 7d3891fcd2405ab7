/*
 * The API from the command line's side: every method by its name, with the messages of the API.
 *
 * A method is called over HTTP, by the route that the server finds it by in the same table. The server is the one that was named, or the one that
 * serves the state of this user; where none does, a private server is started, which ends by itself a few seconds after its last client.
 *
 * One thread uses a client. A call blocks until it is over; it is given up as soon as `cancel_fd` is readable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

struct client;

/* Borrowed for client_open(). Without `server` the fields from state_path on must be set. */
struct client_options {
    const char *server;               /* "http://HOST:PORT", "https://...", "unix:PATH"; NULL: nobody named one */
    const char *token;                /* NULL: none */
    const char *ca_file;              /* whom to believe, for https; NULL: whom the system believes */
    const char *cert_file, *key_file; /* who we are, for servers that ask by TLS; NULL: nobody. A file may hold both */
    int64_t timeout_ms;               /* of one request to another than a private server; 0: as long as it takes */
    int cancel_fd;                    /* -1: calls are never given up */
    const char *state_path;           /* our own state */
    const char *settings;             /* all that a server of ours would go by: config_show() */
    const char *config_file;          /* where it would read them; NULL: where nobody says otherwise */
    const char *local_address;        /* "localhost:8080", "unix:PATH": where another server of our state would answer */
    bool local_is_tls;                /* by https, then */
};

/* Without `server`: joins or starts the private server of our state. When another server has the state, that one is asked, if it answers at
 * `local_address` and is ours or root's. A server that is just ending is waited for, for a few seconds. */
int client_open(const struct client_options *options, struct client **ret, struct err *err);
void client_close(struct client *client);
DEFINE_AUTOPTR(client, client_close);

/* Another to the same, for a thread of its own. Asks only what has one answer; closed before `client` is, which stays open meanwhile. */
int client_open_twin(const struct client *client, struct client **ret, struct err *err);

/* "http://localhost:8080", or "the private server". Borrowed. */
const char *client_where(const struct client *client);
/* Returns false for a private server. */
bool client_is_remote(const struct client *client);

/* ---- a call ---- */

/* An answer; of a stream each. What it returns when negative ends the call, with `err` as it is. */
typedef int (*client_answer_fn)(const ProtobufCMessage *answer, void *cookie, struct err *err);
/* The next bytes of what is sent, as many as fit; 0 after the last. Negative: the call fails with `err`. */
typedef ssize_t (*client_source_fn)(void *bytes, size_t size, void *cookie, struct err *err);
/* What comes after the last answer. */
typedef void (*client_trailer_fn)(const char *name, const char *value, void *cookie);

/* The message that goes with a refusal: for instance which files stopped an approval. */
struct client_refusal {
    const ProtobufCMessageDescriptor *type; /* of `failure`; the caller says what the method's refusals carry */
    ProtobufCMessage *failure;              /* owned; NULL: the server gave none */
};

void client_refusal_done(struct client_refusal *refusal);

struct client_call {
    struct client_refusal *refusal;  /* filled in when the method refuses; may be NULL */
    const char *method;              /* "ExecStream" */
    const ProtobufCMessage *request; /* of a method that takes content: its first message, the metadata */
    client_source_fn source;         /* the content */
    client_answer_fn on_answer;      /* may be NULL */
    client_trailer_fn on_trailer;    /* may be NULL */
    void *cookie;
};

/* -ECANCELED when it was given up. A refusal has the server's code, text and reason in `err`. */
int client_call(struct client *client, const struct client_call *call, struct err *err);

/* A method with one answer, which is the caller's: freed with protobuf_c_message_free_unpacked(msg, NULL). */
int client_ask(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
               struct err *err);
int client_ask_refusal(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
                       struct client_refusal *refusal, struct err *err);

/* A method that lists, page by page: `fn` for each item, until all were seen or it returns a negative errno or 1 for enough. `request` has
 * a field page_token, or there is one page. */
typedef int (*client_item_fn)(const ProtobufCMessage *item, void *cookie, struct err *err);
int client_list(struct client *client, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err);

/* How it is: {"status": "healthy", "version": ..., ...}, as a server's /health tells it. */
int client_health(struct client *client, struct buf *out, struct err *err);

/* ---- workspaces ---- */

/* A request to a route that is no method (call/web.h), as HTTP has it. All borrowed. */
struct client_web {
    const char *verb, *path; /* "/api/v1/sandboxes/ID/diff?path=a%20b" */
    const json_t *body;      /* NULL: none */
    /* A piece of an answer with status 200, as it comes; NULL: it is gathered. A negative errno ends the call, with `err` as it is. */
    int (*on_bytes)(const void *bytes, size_t len, void *cookie, struct err *err);
    void *cookie;
};

/* What was answered, refusals too: it fails only when there is no answer. -ECANCELED when it was given up. Who reads a refusal passes its reason
 * to client_keep_reason(). */
int client_web(struct client *client, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err);

/* The same reason as struct err wants it: it lives as long as the process. NULL if it is NULL, or does not look like a reason. */
const char *client_keep_reason(const char *reason);
