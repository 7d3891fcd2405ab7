/*
 * Inside the module: a server that calls go to, by HTTP. It is opened once, and takes one call after the other.
 */
#pragma once

#include "call/method.h"
#include "call/websocket.h"
#include "client/client.h"

struct remote;

/* What carries a WebSocket: a descriptor to wait for, and maybe more between it and the bytes. */
struct carrier {
    int fd;                     /* borrowed */
    struct websocket_wire wire; /* recv NULL: the descriptor itself */
    struct buf early;           /* owned: frames that came with the answer */
    void (*close)(void *own);   /* NULL: there is nothing */
    void *own;
};

/* `server` stands for that of the options. `log_path`: it is our private server, whose log this is; NULL: it is another one. */
int remote_open(const char *server, const char *log_path, const struct client_options *options, struct remote **ret,
                struct err *err);
int remote_open_twin(const struct remote *remote, struct remote **ret, struct err *err);
void remote_close(struct remote *remote);
DEFINE_AUTOPTR(remote, remote_close);
const char *remote_where(const struct remote *remote);
int remote_call(struct remote *remote, const struct method *method, const struct client_call *call, struct err *err);
int remote_web(struct remote *remote, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err);
/* Asks for a WebSocket. A status other than 101 is a refusal, with nothing to close and the answer in `answer`. */
int remote_connect(struct remote *remote, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                   struct err *err);
/* A page as it is. */
int remote_get(struct remote *remote, const char *path, struct buf *out, struct err *err);

int client_connect(struct client *client, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                   struct err *err);

/* Whether a server that is ours or root's answers at "localhost:8080": on a shared host anybody may listen there. */
bool server_is_ours(const char *address);
