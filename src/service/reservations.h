/*
 * Host paths that sandboxes over directories have reserved (store/sandbox_row.h), and a check whether another sandbox could reserve some.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/sandbox_scope.h"
#include "store/sandbox_row.h"

struct service;

struct reservation {
    char *path;                       /* owned */
    char *name, *directory, *creator; /* owned */
    char id[SANDBOX_ID_MAX];
    int status; /* enum sandbox_status */
};

struct reservation_list {
    struct reservation *items; /* owned */
    size_t count, cap;
};

void reservation_list_done(struct reservation_list *list);

/* Lists the reservations of this host's sandboxes that the caller sees, sorted by path. A nonempty `path` selects only that path and paths
 * above or beneath it. */
int reservations_list(struct service *service, const struct caller *caller, const char *path, struct reservation_list *ret,
                      struct err *err);

/* What a sandbox made with this request would reserve. Call its done function also after a failure. */
struct reservation_check {
    struct sandbox_scope scope;
    struct sandbox_admission room; /* its conflicts are set after -EBUSY */
};

#define RESERVATION_CHECK_NONE ((struct reservation_check){ .scope = SANDBOX_SCOPE_NONE })

void reservation_check_done(struct reservation_check *check);

/* Returns 0 if a sandbox could be made there now. Otherwise returns the error that sandboxes_create() would, e.g. SCOPE_CONFLICT with
 * `ret->room.conflicts`. Does not reserve anything, so a later creation may still fail. Sets `wish->state_path`, and an empty
 * `project_root` to the server's. */
int reservations_check(struct service *service, const struct caller *caller, const struct sandbox_scope_request *wish,
                       struct reservation_check *ret, struct err *err);
