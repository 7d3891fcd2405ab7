/*
 * Private to the module: what its files share.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "codebase/codebase.h"
#include "sandbox/state_dir.h"
#include "service/caller.h"
#include "service/hook.h"
#include "service/sandbox_care.h"
#include "service/sandbox_conn.h"
#include "service/sandbox_driver.h"
#include "service/service.h"
#include "store/codebase_row.h"
#include "store/sandbox_row.h"
#include "store/store.h"

struct recorder;
struct sandbox_index;
struct watch_thread;
struct janitor;

struct service {
    struct service_options options; /* its strings are owned */
    struct store *store;
    struct codebases *codebases;
    struct state_dir state_dir;
    int lock_fd; /* owned: only one server may use the state directory */
    char *host_id;
    struct sandbox_conns conns;
    struct sandbox_index *index;
    struct recorder *recorder;
    struct watch_thread *watch;
    struct janitor *_Atomic janitor;
    struct sandbox_totals sandbox_totals;
    struct hook_list hooks;      /* the server's hooks; never changed */
    struct redaction *redaction; /* owned; never changed; NULL: events keep secrets */
    int64_t prunes_at_ns;        /* monotonic clock; used by the janitor only */
    struct sandbox_drivers sandbox_drivers;
    _Atomic bool is_unsure; /* a write or a query failed: the janitor looks again soon; see janitor_doubt() */
    _Atomic int64_t
        ends_at_ns; /* monotonic clock: calls cancelled from then on are cancelled because the server ends; 0: it does not end */
};

/* Set "sandbox not found" and so on, with their reasons. */
int refuse_sandbox(struct err *err);
int refuse_session(struct err *err);
int refuse_codebase(struct err *err);
int refuse_not_running(struct err *err);

/* service_find_sandbox(), which also refuses a sandbox of another host: "sandbox lives on another host". */
int service_find_own_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                             struct err *err);
/* service_find_sandbox(), which also refuses a deleted sandbox. */
int service_get_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                        struct err *err);

/* Calls `fn` for each, the oldest first. `fn` may change the row. */
typedef void (*service_sandbox_fn)(struct service *service, struct sandbox_row *row, void *cookie);
int service_each_sandbox(struct service *service, const struct sandbox_filter *filter, service_sandbox_fn fn, void *cookie,
                         struct err *err);

/* The same for codebases: "codebase not found". */
int service_get_codebase(struct service *service, const struct caller *caller, const char *id, struct codebase_row *ret,
                         struct err *err);

/* Refuses a codebase whose files are not on this host: "codebase lives on another host". */
int service_check_host(const struct service *service, const struct codebase_row *row, struct err *err);

/* Returns a referenced conn of a running sandbox that the caller sees. "sandbox not found", "sandbox is not running". */
int service_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                      struct err *err);
