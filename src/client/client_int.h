/*
 * Inside the room: the two ways a call is carried. Each is opened once, and carries one call after the other.
 */
#pragma once

#include "api/api.h"
#include "call/method.h"
#include "call/peer.h"
#include "client/client.h"

struct remote;
struct route_table;

/* The service in this process. */
struct embedded {
    struct service *service;    /* owned */
    struct route_table *routes; /* owned: of workspaces; made when the first is called */
    struct api api;
    uid_t uid;
    struct peer peer; /* ourselves */
    int cancel_fd;    /* borrowed */
};

/* `server` stands for that of the options. */
int remote_open(const char *server, const struct client_options *options, struct remote **ret, struct err *err);
void remote_close(struct remote *remote);
DEFINE_AUTOPTR(remote, remote_close);
const char *remote_where(const struct remote *remote);
int remote_call(struct remote *remote, const struct method *method, const struct client_call *call, struct err *err);
int remote_web(struct remote *remote, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err);
/* A page as it is. */
int remote_get(struct remote *remote, const char *path, struct buf *out, struct err *err);

/* -EBUSY: another process has the state. */
int embedded_open(const struct service_options *options, int cancel_fd, struct embedded **ret, struct err *err);
void embedded_close(struct embedded *embedded);
DEFINE_AUTOPTR(embedded, embedded_close);
int embedded_call(struct embedded *embedded, const struct method *method, const struct client_call *call, struct err *err);
int embedded_web(struct embedded *embedded, const struct client_web *request, int *ret_status, struct buf *ret,
                 struct err *err);
int embedded_health(struct embedded *embedded, struct buf *out, struct err *err);

/* Whether a server that is ours or root's answers at "localhost:8080": on a shared host anybody may listen there. */
bool server_is_ours(const char *address);
