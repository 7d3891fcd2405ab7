/*
 * Inside the module: the two ways a call is carried. Each is opened once, and carries one call after the other.
 */
#pragma once

#include "api/api.h"
#include "call/method.h"
#include "call/peer.h"
#include "call/websocket.h"
#include "client/client.h"

struct remote;
struct route_table;

/* What carries a WebSocket: a descriptor to wait for, and maybe more between it and the bytes. */
struct carrier {
    int fd;                     /* borrowed */
    struct websocket_wire wire; /* recv NULL: the descriptor itself */
    struct buf early;           /* owned: frames that came with the answer */
    void (*close)(void *own);   /* NULL: there is nothing */
    void *own;
};

/* The service in this process. */
struct embedded {
    struct service *service;         /* owned; NULL: others may have the state now */
    struct service_options *resting; /* owned: to have it again */
    struct route_table *routes;      /* owned: of workspaces; made when the first is called */
    struct api api;
    uid_t uid;
    struct peer peer; /* ourselves */
    int cancel_fd;    /* borrowed */
};

/* `server` stands for that of the options. */
int remote_open(const char *server, const struct client_options *options, struct remote **ret, struct err *err);
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

/* -EBUSY: another process has the state. */
int embedded_open(const struct service_options *options, int cancel_fd, struct embedded **ret, struct err *err);
void embedded_close(struct embedded *embedded);
DEFINE_AUTOPTR(embedded, embedded_close);
int embedded_call(struct embedded *embedded, const struct method *method, const struct client_call *call, struct err *err);
int embedded_web(struct embedded *embedded, const struct client_web *request, int *ret_status, struct buf *ret,
                 struct err *err);
int embedded_connect(struct embedded *embedded, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                     struct err *err);
/* Gives the state back to whoever else wants it, and takes it again. Nothing of it may be in use. */
void embedded_rest(struct embedded *embedded);
int embedded_wake(struct embedded *embedded, struct err *err);
int embedded_health(struct embedded *embedded, struct buf *out, struct err *err);

int client_connect(struct client *client, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                   struct err *err);

/* Whether a server that is ours or root's answers at "localhost:8080": on a shared host anybody may listen there. */
bool server_is_ours(const char *address);
