/* Opens a WebSocket from the client's side (RFC 6455, 4.1): writes the request and parses the server's answer. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define UPGRADE_KEY_MAX 25
#define UPGRADE_HEAD_MAX ((size_t) 16 << 10)

/* Adds the request and generates `ret_key`, which upgrade_read() needs. `token` may be NULL. */
int upgrade_add_request(struct buf *out, const char *host, const char *path, const char *token, char ret_key[UPGRADE_KEY_MAX],
                        struct err *err);

struct upgrade_answer {
    int status;            /* 101: the connection is a WebSocket, and the key was confirmed */
    size_t head_len;       /* a frame or the body of a refusal follows */
    ssize_t content_bytes; /* Content-Length; -1: none */
};

/* Returns 1 when the head is complete, 0 if more bytes are needed, -EPROTO if it is not an answer to this request, -EMSGSIZE if it is too long. */
int upgrade_read(const char *bytes, size_t len, const char *key, struct upgrade_answer *ret, struct err *err);
