/* Inside the module: a server, and how libcurl gets there. */
#pragma once

#include <curl/curl.h>

#include "client/client.h"
#include "client/private_server.h"

struct client {
    CURL *easy;                                   /* owned */
    CURLM *multi;                                 /* owned */
    struct private_server private_server;         /* owned; a twin has none, because the other client outlives it */
    char *server, *where, *base;                  /* owned: as it was given; as people know it; what a path is put behind */
    char *log_path;                               /* owned: of our private server; NULL: it is another server */
    char *socket;                                 /* owned: of a unix socket; NULL: TCP */
    char *token, *ca_file, *cert_file, *key_file; /* owned; NULL: none */
    bool is_near;                                 /* there is no proxy on the way */
    int64_t timeout_ms;                           /* 0: none */
    int cancel_fd;
};

/* Sets where to connect, and whom to believe. `why` holds CURL_ERROR_SIZE. */
void client_dress(const struct client *client, CURL *easy, const char *url, char *why);

/* Adds the handle, which stays there, and performs its transfer. Returns 0 with libcurl's result, or -ECANCELED when the user gave it up. */
int client_perform(const struct client *client, CURL *easy, CURLM *multi, CURLcode *ret);

/* Reports libcurl's result in our words. */
int client_refuse(const struct client *client, CURLcode code, const char *why, struct err *err);

/* Returns whether a server that is ours or root's answers at "localhost:8080": on a shared host anybody may listen there. */
bool server_is_ours(const char *address);
