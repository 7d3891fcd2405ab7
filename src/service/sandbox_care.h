/*
 * Workspaces: sandboxes over a live directory, whose changes are reviewed. The operations of their life; reviewing is in other headers.
 *
 * The codebase_id in a workspace's row is "". A change of the row is durable before the caller is told. At the next start, the server
 * finishes or undoes what a killed server left half done.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/rule.h"
#include "sandbox/limit_report.h"
#include "service/behavior.h"
#include "service/caller.h"
#include "service/sandbox_driver.h"
#include "store/sandbox_row.h"

struct service;
struct sandbox_conn;

/* Returns the profile that it was made with; "" if it was made before profiles existed. Free it. */
char *sandbox_profile(const struct sandbox_row *row);

/* Finds the sandbox that the caller names by id, UUID, name or prefix, whatever its status. "sandbox not found" also for one that the
 * caller may not see. */
int service_find_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                         struct err *err);
/* Returns the limits in force for an active sandbox. */
void sandboxes_limits(struct service *service, const struct sandbox_row *row, struct limit_report *ret);
/* Lists sandboxes over directories. Ignores the filter's owner: administrators see all owners' sandboxes, others only their own. */
int sandboxes_list_rows(struct service *service, const struct caller *caller, const struct sandbox_filter *filter, size_t limit,
                        size_t offset, struct sandbox_rows *ret, int64_t *ret_total, struct err *err);

/* Whether its supervisor answers, and whether its mounts are in place. */
struct sandbox_health {
    bool is_healthy;
    int64_t execs, sessions;                    /* running, as reported by the supervisor */
    uint64_t requests, used_bytes, used_inodes; /* counted by the fence: they differ whenever the changes do */
    char error[256];                            /* set when it is not healthy */
};
void sandboxes_check(struct service *service, const struct sandbox_row *row, struct sandbox_health *ret);

/* Returns true if its files are to be mounted on the host while it is active. */
bool sandbox_wants_host_mount(const struct sandbox_row *row);
/* Returns the host directory that has its files now, as the sandbox sees them: its host mount, or the copy driver's working copy. NULL:
 * there is none. Free it. */
char *sandboxes_host_path(const struct service *service, const struct sandbox_row *row);

/* Checks that a sandbox at rest has all the files it needs; the reason is in `err` if not. Does not check one that runs or is over. */
int sandboxes_check_files(struct service *service, const struct sandbox_row *row, struct err *err);

/* ---- coming back (sandbox_trash.c) ---- */

/* Sets a deleted, rejected or approved sandbox to stopped, with all its changes, and reserves its paths again. Does nothing for one that is
 * active or stopped. -EBUSY: others have reserved the paths meanwhile; `ret_conflicts` as in sandboxes_create(). */
int sandboxes_restore(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                      struct sandbox_row *ret, struct sandbox_conflicts *ret_conflicts, struct err *err);

/* Returns until when a deleted sandbox can be restored; 0: it cannot. */
int64_t sandboxes_trash_until(const struct service *service, const struct sandbox_row *row);

struct prune;
/* Removes undo data that is older than the undo window, of sandboxes that the caller sees (review/prune.h). */
int sandboxes_prune(struct service *service, const struct caller *caller, bool is_dry, struct prune *ret, struct err *err);

struct sandbox_trash_request {
    int64_t after_ns; /* remove those that were deleted longer ago */
    bool is_dry, measures;
};

struct sandbox_trash {
    size_t kept, purged;
    int64_t kept_bytes, purged_bytes; /* on disk, if measured */
};

/* Empties the trash of the sandboxes that the caller sees. */
int sandboxes_empty_trash(struct service *service, const struct caller *caller, const struct sandbox_trash_request *wish,
                          struct sandbox_trash *ret, struct err *err);

/* service_find_conn(), but for a sandbox over a directory the error INVALID_STATE names its state. */
int sandboxes_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                        struct err *err);
/* Opens its directory. */
int sandboxes_open_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);
/* Records that it was used, which restarts its idle time. */
void sandboxes_touch(struct service *service, const char *id);
/* Measures its changes, and writes their size to the row. */
int sandboxes_measure(struct service *service, struct sandbox_row *row, struct err *err);
/* The same for an active sandbox in a long list: measures only if its supervisor reports that something may have changed, and rarely if
 * measuring takes long. The copy driver's working copy is compared only by a diff and a stop. */
void sandboxes_remeasure(struct service *service, struct sandbox_row *row, const struct sandbox_health *health);

/* Applies the sandbox's behaviour to an event of its life: runs, approvals, rejections. */
void sandboxes_happened(struct service *service, const char *id, enum behavior_event event);

/* Adds an event to the audit log. `type` is "sandbox_approved" and so on. `claimed` is the name that the caller claims, or NULL or ""; for
 * an automatic decision it names what decided. Takes ownership of the details; NULL: none. */
void sandbox_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row, const char *type,
                  const char *claimed, json_t *details);

/* ---- collecting ---- */

struct sandbox_gc {
    int64_t max_age_ns, idle_ns, terminal_delay_ns; /* < 0: no criterion */
    int64_t max_total_bytes;                        /* <= 0: none */
    bool with_terminal;
    unsigned states; /* bits; 0: stopped, error, and what with_terminal adds */
    bool is_dry;
    size_t limit;
    int64_t trash_ns; /* as in struct sandbox_trash_request; < 0: the trash is left alone */
};

struct sandbox_gc_one {
    struct sandbox_row row; /* owned */
    char reason[128];
    char error[256]; /* "": it was collected, or would be */
    bool purges;     /* to free its space, it skips the trash */
};

struct sandbox_gc_result {
    struct sandbox_gc_one *items; /* owned */
    size_t count, cap;
    struct sandbox_trash trash; /* without those that this run collected */
    size_t pruned_records, pruned_copies;
    uint64_t pruned_bytes;
};

void sandbox_gc_result_done(struct sandbox_gc_result *result);
int sandboxes_gc(struct service *service, const struct caller *caller, const struct sandbox_gc *gc,
                 struct sandbox_gc_result *ret, struct err *err);
/* Returns the values for a request that sets none. */
struct sandbox_gc sandboxes_gc_default(const struct service *service);

/* How long operations can be undone. */
struct sandbox_windows {
    int64_t undo_ns;       /* an approval; 0: always */
    int64_t trash_ns;      /* a deletion; 0: never */
    bool collects_decided; /* approved and rejected sandboxes are deleted automatically */
};

struct sandbox_windows sandboxes_windows(const struct service *service);

/* Counters since the start. */
struct sandbox_totals {
    int64_t started_ns; /* of the service; monotonic clock */
    _Atomic uint64_t created, stopped, approved, rejected, deleted, errors, gc_runs, gc_deleted, diffs, patches;
    _Atomic uint64_t create_ns, diff_ns; /* sums */
};
struct sandbox_totals *sandboxes_totals(struct service *service);

/* ---- what there is ---- */

/* Returns the project root of requests without one; "": there is none. */
const char *sandboxes_project_root(const struct service *service);
/* Returns the path of a file in its directory, e.g. "delta/data". Free it. */
char *sandboxes_path(const struct service *service, const char *id, const char *file);
/* Counts the sandboxes that the caller sees, by state. */
int sandboxes_count(struct service *service, const struct caller *caller, enum sandbox_base base,
                    struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err);
/* Returns how many commands run in the active sandboxes, as reported by their supervisors. */
int64_t sandboxes_processes(struct service *service);

/* Returns the root of a project as rows store it, without links; "" stays "". ERR_PERMISSION_DENIED, ROOT_NOT_ALLOWED: it is outside of the
 * caller's roots, whether or not it exists. */
int sandboxes_find_root(const struct caller *caller, const char *given, char **ret, struct err *err);

/* Whether a workspace could be made there. */
struct sandbox_place {
    bool is_valid, exists, is_directory, is_within;
    char error[256]; /* set when it is not valid */
};
void sandboxes_check_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                          struct sandbox_place *ret);
