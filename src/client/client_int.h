/* Private to the module: the connection to a server. */
#pragma once

#include <curl/curl.h>

#include "client/client.h"
#include "client/private_server.h"

struct client {
    CURL *easy;                                   /* owned */
    CURLM *multi;                                 /* owned */
    struct private_server private_server;         /* owned; of a twin: none, because the other client outlives it */
    char *server, *where, *base;                  /* owned: as the user gave it; for messages; the prefix of all URLs */
    char *log_path;                               /* owned: the log of our private server; NULL: of another server */
    char *socket;                                 /* owned: the path of a unix socket; NULL: TCP */
    char *token, *ca_file, *cert_file, *key_file; /* owned; NULL: none */
    bool is_near;                                 /* ignore the proxy settings */
    int64_t timeout_ms;                           /* 0: none */
    int cancel_fd;
};

/* Sets the address, the credentials and the certificates. `why` is a buffer of CURL_ERROR_SIZE bytes. */
void client_dress(const struct client *client, CURL *easy, const char *url, char *why);

/* Adds the handle to `multi`, performs its transfer and leaves the handle there. Returns 0 and libcurl's result, or -ECANCELED after an interrupt. */
int client_perform(const struct client *client, CURL *easy, CURLM *multi, CURLcode *ret);

/* Sets `err` to a message for libcurl's error `code`. */
int client_refuse(const struct client *client, CURLcode code, const char *why, struct err *err);

/* Returns whether the server at "localhost:8080" runs as us or as root. On a shared host any user may listen on that port. */
bool server_is_ours(const char *address);
