/* How a WebSocket begins, from the client's side (RFC 6455, 4.1): the request, and what a server answers to it. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define UPGRADE_KEY_MAX 25
#define UPGRADE_HEAD_MAX ((size_t) 16 << 10)

/* Adds the request, and makes the key up that the answer must know. `token` may be NULL. */
int upgrade_add_request(struct buf *out, const char *host, const char *path, const char *token, char ret_key[UPGRADE_KEY_MAX],
                        struct err *err);

struct upgrade_answer {
    int status;            /* 101: it is a WebSocket, and answers to the key */
    size_t head_len;       /* what comes behind is a frame, or the page of who refuses */
    ssize_t content_bytes; /* of that; -1: not told */
};

/* 1 when the head is whole; 0: more is to come. -EPROTO for what is no answer to this request, -EMSGSIZE for one without an end. */
int upgrade_read(const char *bytes, size_t len, const char *key, struct upgrade_answer *ret, struct err *err);
