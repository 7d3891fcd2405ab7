/*
 * Pages that are no methods of the API: health, metrics, the OpenAPI document, files of a web interface. Registered when the server is made,
 * answered in a thread of the pool like a method, by a function that fills in the whole response.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "call/call.h"

#define REST_RESPONSE_HEADERS_MAX 8

struct rest_request {
    const char *verb;  /* "HEAD" is "GET" here */
    const char *path;  /* raw */
    const char *rest;  /* what "{name=**}" or the last "{name}" took, decoded; "" without one */
    const char *query; /* raw; "" without one */
    struct call *call; /* borrowed: who asks, and with which headers; of no method */
};

struct rest_header {
    const char *name; /* a literal */
    char *value;      /* owned */
};

struct rest_response {
    int status;               /* 200 unless told */
    const char *content_type; /* a literal; application/json unless told */
    struct buf body;          /* owned */
    int fd;                   /* owned: a file whose bytes are the body instead; -1: none */
    uint64_t fd_size_bytes;
    struct rest_header headers[REST_RESPONSE_HEADERS_MAX];
    size_t header_count;
};

typedef void (*rest_page_fn)(const struct rest_request *request, struct rest_response *response, void *cookie);

struct rest_page {
    const char *verb;
    const char *path; /* as in a method's route: "/health", "/ui/{file=**}" */
    rest_page_fn fn;
    void *cookie;
};

/* Both copied; one header too many is dropped. */
void rest_response_add_header(struct rest_response *response, const char *name, const char *value);
void rest_response_done(struct rest_response *response);
