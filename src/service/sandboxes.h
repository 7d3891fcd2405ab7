/*
 * The life of sandboxes: made, started, stopped, removed, listed, their rules changed and explained.
 *
 * The row in the store is the intent, the supervisor the fact. A step writes what it is about to do before it does it, so that
 * whoever comes after a crash knows what was meant; see recovery.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sandbox_id.h"
#include "policy/explain.h"
#include "service/caller.h"
#include "service/sandbox_info.h"

struct service;

/* All borrowed. */
struct sandbox_request {
    const char *codebase_id;
    const char *preset; /* "": none */
    const struct rule_list *rules;
    const struct pair_list *labels;
    const struct pair_list *env;
    int64_t expires_in_ns; /* 0: the server's default; negative is refused */
    int runtime;           /* numbered as in the API; 0: the server's default */
    const char *image;
    const char *network; /* "", "none", "bridge", "host" */
    enum sandbox_sync sync;
    struct sandbox_limits limits;
    const char *idempotency_key; /* "": none */
};

int sandboxes_create(struct service *service, const struct caller *caller, const struct sandbox_request *request,
                     struct sandbox_info **ret, struct err *err);
/* Its id, by whatever else people call it: a UUID, a name, the beginning of its id. ERR_NOT_FOUND; ERR_INVALID_ARGUMENT: it may be several. */
int sandboxes_find(struct service *service, const struct caller *caller, const char *text, char ret_id[SANDBOX_ID_MAX],
                   struct err *err);
int sandboxes_get(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                  struct err *err);
int sandboxes_start(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                    struct err *err);
int sandboxes_stop(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                   struct err *err);
/* With its changes; those that were to be synced and for which there is no room, by force only. */
int sandboxes_destroy(struct service *service, const struct caller *caller, const char *id, bool is_forced, struct err *err);

/* New rules for every operation that begins after this returns. */
int sandboxes_set_rules(struct service *service, const struct caller *caller, const char *id, const char *preset,
                        const struct rule_list *rules, struct sandbox_info **ret, struct err *err);

struct rule_edit;
/* The same, of the rules that it has then: nobody changes them in between. */
int sandboxes_edit_rules(struct service *service, const struct caller *caller, const char *id, const struct rule_edit *edit,
                         struct sandbox_info **ret, struct err *err);

/* `ret_rules` owns what the explanation's rule numbers mean. */
int sandboxes_explain(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct ruleset **ret_rules, struct explanation **ret, struct err *err);

struct sandbox_query {
    const char *codebase_id;  /* "": any */
    enum sandbox_phase phase; /* 0: any */
    size_t page_size;         /* 0: 100 */
    const char *page_token;   /* "" */
};

struct sandbox_page {
    struct sandbox_info **items; /* owned, each too */
    size_t count;
    char *next_token; /* owned; "": that was all */
};

void sandbox_page_done(struct sandbox_page *page);
int sandboxes_list(struct service *service, const struct caller *caller, const struct sandbox_query *filter,
                   struct sandbox_page *ret, struct err *err);
