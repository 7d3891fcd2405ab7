/*
 * Inside the module: what its parts share.
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
    struct service_options options; /* its strings owned */
    struct store *store;
    struct codebases *codebases;
    struct state_dir state_dir;
    int lock_fd; /* owned: one server for one directory of sandboxes */
    char *host_id;
    struct sandbox_conns conns;
    struct sandbox_index *index;     /* sandbox_index.c */
    struct recorder *recorder;       /* events.c */
    struct watch_thread *watch;      /* watch.c */
    struct janitor *_Atomic janitor; /* janitor.c */
    struct sandbox_totals sandbox_totals;
    struct hook_list hooks;      /* of the server; never changed */
    struct redaction *redaction; /* owned; never changed; NULL: events keep all */
    int64_t prunes_at_ns;        /* monotonic clock; the janitor's */
    struct sandbox_drivers sandbox_drivers;
    _Atomic bool is_unsure;     /* something could not be written or asked: the janitor looks again soon; see janitor_doubt() */
    _Atomic int64_t ends_at_ns; /* monotonic clock: from then on who is cancelled is so because we end; 0: we do not */
};

/* "sandbox not found" and so on, with their reasons. */
int refuse_sandbox(struct err *err);
int refuse_session(struct err *err);
int refuse_codebase(struct err *err);
int refuse_not_running(struct err *err);

/* service_find_sandbox(), of one that lives on this host: "sandbox lives on another host". */
int service_find_own_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                             struct err *err);
/* service_find_sandbox(), of one that is not deleted. */
int service_get_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                        struct err *err);

/* Calls `fn` for each, the oldest first. The row may be changed. */
typedef void (*service_sandbox_fn)(struct service *service, struct sandbox_row *row, void *cookie);
int service_each_sandbox(struct service *service, const struct sandbox_filter *filter, service_sandbox_fn fn, void *cookie,
                         struct err *err);

/* Likewise: "codebase not found". */
int service_get_codebase(struct service *service, const struct caller *caller, const char *id, struct codebase_row *ret,
                         struct err *err);

/* "codebase lives on another host": its files are not here. */
int service_check_host(const struct service *service, const struct codebase_row *row, struct err *err);

/* The conn of a sandbox that runs and that the caller sees, with a reference. "sandbox not found", "sandbox is not running". */
int service_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                      struct err *err);
