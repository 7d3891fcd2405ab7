/*
 * One request to the workspace routes (/api/v1), as its handler sees it: let in by the same gate as a method, its id and its body read. The
 * table of routes is in compat_workspace_routes.c; every handler is a `compat_fn` in a ws_*.c.
 *
 * A handler answers with compat_answer() or the functions of call/web.h and returns 0; or it returns a negative errno with `err` filled in, and
 * maybe a hint, details or a status of its own choosing, and the error body is made of those. A hint that nobody gave comes from the
 * error's code.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/err.h"
#include "base/sandbox_id.h"
#include "call/web.h"
#include "service/caller.h"

struct compat_route;

struct ws {
    struct web *web;
    const struct api *api;
    struct service *service;
    struct caller caller;
    const struct compat_route *route;
    char id[SANDBOX_ID_MAX];   /* of the sandbox that "{id}" means; "" when the path has none */
    char shown[UUID_TEXT_MAX]; /* the same as the client spells it, by its UUID or its id */
    json_t *body;              /* owned: an object; NULL: there was none */

    /* Of an error. */
    int status; /* 0: what the code says */
    char *hint; /* owned; NULL: what the code says */
    bool is_retryable;
    json_t *details; /* owned */
};

typedef int (*compat_fn)(struct ws *ws, struct err *err);

enum compat_flag {
    COMPAT_PUBLIC = 1 << 0, /* for everybody, without authentication */
    COMPAT_BODY = 1 << 1,   /* may have a JSON body */
    COMPAT_NEEDS_BODY = 1 << 2,
    COMPAT_RAW_BODY = 1 << 3, /* the body is not JSON: web->body */
};

struct compat_route {
    const char *verb, *path;
    compat_fn fn;
    const char *summary;
    const char *const *keys; /* of a body, ended by NULL: any other is 400 */
    size_t body_max;         /* 0: 4 MiB */
    unsigned flags;
    enum web_answer answer;
};

/* The web_fn of all of them: `web->route->detail` is the compat_route, the cookie the api. */
void compat_run(struct web *web, void *cookie);

/* What is said of an error beside its text. The hint replaces one that is there. */
void compat_hint(struct ws *ws, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void compat_detail(struct ws *ws, const char *key, json_t *value); /* takes the value */

/* Takes the value. Returns 0. */
int compat_answer(struct ws *ws, int status, json_t *value);
int compat_answer_empty(struct ws *ws, int status);

/* The status of an error's code: unlike in /v1, what cannot be done now is a conflict, 409. */
int compat_status_of(enum err_code code);
