/* Inside the module: a server, and how libcurl gets there. */
#pragma once

#include <curl/curl.h>

#include "client/client_int.h"

struct remote {
    CURL *easy;                                   /* owned */
    CURLM *multi;                                 /* owned */
    char *server, *where, *base;                  /* owned: as it was given; as people know it; what a path is put behind */
    char *log_path;                               /* owned: of our private server; NULL: it is another one */
    char *socket;                                 /* owned: of a unix socket; NULL: TCP */
    char *token, *ca_file, *cert_file, *key_file; /* owned; NULL: none */
    bool is_near;                                 /* nothing stands between */
    int64_t timeout_ms;                           /* 0: none */
    int cancel_fd;
};

/* Where to, and whom to believe. `why` holds CURL_ERROR_SIZE. */
void remote_dress(const struct remote *remote, CURL *easy, const char *url, char *why);

/* Adds the handle, which stays there, and does what it is for. 0 with libcurl's word for how that went; -ECANCELED when nobody waits for it
 * any more. */
int remote_perform(const struct remote *remote, CURL *easy, CURLM *multi, CURLcode *ret);

/* What libcurl says, in our words. */
int remote_refuse(const struct remote *remote, CURLcode code, const char *why, struct err *err);
