/*
 * A client of the API: calls each method by its name, with the messages of the API.
 *
 * It sends a method over HTTP, by the route that the server looks up in the same table. It uses the server that the user named, or else the server
 * that has this user's state directory; if none is running, it starts a private server, which ends a few seconds after its last client.
 *
 * Only one thread may use a client. A call blocks until it is finished or `cancel_fd` becomes readable.
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

/* Borrowed until client_open() returns. Without `server`, the caller sets the fields from state_path on. */
struct client_options {
    const char *server;               /* "http://HOST:PORT", "https://...", "unix:PATH"; NULL: the user named none */
    const char *token;                /* NULL: none */
    const char *ca_file;              /* CA certificates for https; NULL: those of the system */
    const char *cert_file, *key_file; /* client certificate for TLS; NULL: none. One file may hold both */
    int64_t timeout_ms;               /* limit of one request, but not to a private server; 0: none */
    int cancel_fd;                    /* -1: calls cannot be interrupted */
    const char *state_path;           /* our own state directory */
    const char *settings;             /* all settings a private server would use: config_show() */
    const char *config_file;          /* the file a private server would read them from; NULL: the default file */
    const char *local_address;        /* where another server of our state would listen: "localhost:8080", "unix:PATH" */
    bool local_is_tls;                /* it would use https */
};

/* Without `server`: joins or starts the private server of our state directory. If another server has the state directory, the client uses that
 * server, provided that it listens at `local_address` and runs as us or root. If a server is just ending, this waits a few seconds for it. */
int client_open(const struct client_options *options, struct client **ret, struct err *err);
void client_close(struct client *client);
DEFINE_AUTOPTR(client, client_close);

/* Opens a second client to the same server, for another thread. It supports only methods with one answer. Close it before `client`. */
int client_open_twin(const struct client *client, struct client **ret, struct err *err);

/* "http://localhost:8080", or "the private server". Borrowed. */
const char *client_where(const struct client *client);
/* Returns false for a private server. */
bool client_is_remote(const struct client *client);

/* ---- calls ---- */

/* Receives an answer, of a stream each one. A negative return ends the call with that code and the callback's `err`. */
typedef int (*client_answer_fn)(const ProtobufCMessage *answer, void *cookie, struct err *err);
/* Fills `bytes` with the next part of the content and returns its length, 0 at the end. A negative return fails the call with `err`. */
typedef ssize_t (*client_source_fn)(void *bytes, size_t size, void *cookie, struct err *err);
/* Receives each trailer field, after the last answer. */
typedef void (*client_trailer_fn)(const char *name, const char *value, void *cookie);

/* The details of a refusal as a message: for instance the files that prevented an approval. */
struct client_refusal {
    const ProtobufCMessageDescriptor *type; /* of `failure`; set by the caller, who knows the method */
    ProtobufCMessage *failure;              /* owned; NULL: the server sent none */
};

void client_refusal_done(struct client_refusal *refusal);

struct client_call {
    struct client_refusal *refusal;  /* filled in if the method refuses; may be NULL */
    const char *method;              /* "ExecStream" */
    const ProtobufCMessage *request; /* if the method takes content: its first message, with the metadata */
    client_source_fn source;         /* NULL: the method takes no content */
    client_answer_fn on_answer;      /* may be NULL */
    client_trailer_fn on_trailer;    /* may be NULL */
    void *cookie;
};

/* Returns 0, or a negative errno: -ECANCELED after an interrupt. If the method refuses, `err` has the server's code, text and reason. */
int client_call(struct client *client, const struct client_call *call, struct err *err);

/* Calls a method with one answer. The caller frees the answer with protobuf_c_message_free_unpacked(msg, NULL). */
int client_ask(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
               struct err *err);
int client_ask_refusal(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
                       struct client_refusal *refusal, struct err *err);

/* Calls a listing method, page by page, and passes each item to `fn` until the end of the list, or until `fn` returns 1 (enough) or a negative
 * errno. Reads only one page if `request` has no field page_token. */
typedef int (*client_item_fn)(const ProtobufCMessage *item, void *cookie, struct err *err);
int client_list(struct client *client, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err);

/* Adds the JSON of the server's /health: {"status": "healthy", "version": ..., ...}. */
int client_health(struct client *client, struct buf *out, struct err *err);

/* ---- routes that are not methods ---- */

/* A request to a route that is not a method (call/web.h). All fields are borrowed. */
struct client_web {
    const char *verb, *path; /* "/api/v1/sandboxes/ID/diff?path=a%20b" */
    const json_t *body;      /* NULL: none */
    /* Receives each piece of an answer with status 200; NULL: `ret` gets the whole answer. A negative return ends the call with that code and
     * `err`. */
    int (*on_bytes)(const void *bytes, size_t len, void *cookie, struct err *err);
    void *cookie;
};

/* Returns 0 with any answer, including a refusal; fails only without an answer, or with -ECANCELED after an interrupt. A caller that parses a
 * refusal passes its reason to client_keep_reason(). */
int client_web(struct client *client, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err);

/* Returns a copy of the reason that lives as long as the process, as struct err needs it. NULL if it is NULL or malformed. */
const char *client_keep_reason(const char *reason);
