/*
 * Shell sessions: commands of one session share its shell's state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/caller.h"
#include "service/sandbox_info.h"

struct service;

enum session_phase { SESSION_ACTIVE = 1, SESSION_CLOSED = 2 };

/* Strings owned. */
struct session_info {
    char *id, *sandbox_id, *shell;
    enum session_phase phase;
    int64_t created_ns, closed_ns;
};

struct session_list {
    struct session_info *items; /* owned */
    size_t count;
};

void session_info_done(struct session_info *info);
void session_list_done(struct session_list *list);

struct session_request {
    const char *sandbox_id;
    const char *shell;           /* "": the default */
    const struct pair_list *env; /* NULL: none */
    const char *workdir;
    int64_t idle_ns; /* 0: the server's default */
};

int sessions_create(struct service *service, const struct caller *caller, const struct session_request *request,
                    struct session_info *ret, struct err *err);
int sessions_get(struct service *service, const struct caller *caller, const char *id, struct session_info *ret,
                 struct err *err);
/* Returns an empty list for an unknown sandbox. */
int sessions_list(struct service *service, const struct caller *caller, const char *sandbox_id, struct session_list *ret,
                  struct err *err);
int sessions_destroy(struct service *service, const struct caller *caller, const char *id, struct err *err);

/* Closes the rows of shells that have ended and whose end could not be written at the time. Negative: some could not be checked. */
int sessions_reconcile(struct service *service);
