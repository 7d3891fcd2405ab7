/*
 * The whole server: the service, its APIs (gRPC, REST) and the authentication (api/gate.h).
 */
#pragma once

#include "api/api.h"
#include "base/err.h"
#include "call/listener.h"
#include "call/pool.h"
#include "call/tls.h"
#include "rest/http_server.h"
#include "rpc/server.h"
#include "server/config.h"
#include "server/metrics.h"

#define SERVER_LISTENERS_MAX 8

struct server {
    const struct config *config; /* borrowed */
    struct service *service;
    struct pool *pool;
    struct api api;
    uid_t *uids; /* owned: api.allowed_uids */
    struct method_table methods;
    struct metrics *metrics;
    struct tls *tls;
    struct tls_files tls_files; /* borrowed from the configuration */
    struct listener grpc[SERVER_LISTENERS_MAX], http[SERVER_LISTENERS_MAX];
    size_t grpc_count, http_count;
    struct rpc_server *rpc;
    struct http_server *rest;
    int64_t started_ns; /* wall clock */
};

/* Returns 0 when the server accepts calls. Call server_done() also after a failure. Signals must be blocked. */
int server_start(struct server *server, const struct config *config, struct err *err);

/* Reads the certificates again. */
int server_reload(struct server *server, struct err *err);

/* Accepts nothing more and waits for running calls, at most server.drain_timeout. */
void server_drain(struct server *server);
void server_done(struct server *server);
