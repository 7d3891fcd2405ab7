/*
 * Paths of the host that sandboxes over directories hold for themselves (store/sandbox_row.h), and whether another one could have some.
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

/* Those of the sandboxes of this host that the caller sees, sorted by path. `path` not "": only those of this path, one above or one beneath. */
int reservations_list(struct service *service, const struct caller *caller, const char *path, struct reservation_list *ret,
                      struct err *err);

/* What a sandbox would have that is made with this request; to be done with, also after a failure. */
struct reservation_check {
    struct sandbox_scope scope;
    struct sandbox_admission room; /* its conflicts after -EBUSY */
};

#define RESERVATION_CHECK_NONE ((struct reservation_check){ .scope = SANDBOX_SCOPE_NONE })

void reservation_check_done(struct reservation_check *check);

/* 0: a sandbox could be made there now. Otherwise what sandboxes_create() would say, SCOPE_CONFLICT with `ret->room.conflicts`. Nobody is kept
 * from taking the paths between this and a creation. `wish->state_path` is set here, and an empty `project_root` is the server's. */
int reservations_check(struct service *service, const struct caller *caller, const struct sandbox_scope_request *wish,
                       struct reservation_check *ret, struct err *err);
