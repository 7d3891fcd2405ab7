/*
 * Workspaces: sandboxes over a live directory, whose changes are reviewed. The use cases of their life; reviewing is in others.
 *
 * A workspace is a sandbox over a directory: its row's codebase_id is "". What the row says is durable before anybody is told; what a killed
 * server left half done is finished or taken back at the next start.
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

/* The profile that it was made with; "" of one that was made before there were any to choose from. Free it. */
char *sandbox_profile(const struct sandbox_row *row);

/* The sandbox that the caller means, by id, UUID, name or prefix, whatever its status; "sandbox not found" also for one that the caller does not
 * see. */
int service_find_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                         struct err *err);
/* Those that an active one is held to. */
void sandboxes_limits(struct service *service, const struct sandbox_row *row, struct limit_report *ret);
/* The filter's account is the caller's matter. */
int sandboxes_list_rows(struct service *service, const struct caller *caller, const struct sandbox_filter *filter, size_t limit,
                        size_t offset, struct sandbox_rows *ret, int64_t *ret_total, struct err *err);

/* Whether its supervisor answers, and what was to be mounted is. */
struct sandbox_health {
    bool is_healthy;
    int64_t execs, sessions;                    /* that run, as it says */
    uint64_t requests, used_bytes, used_inodes; /* of the fence: they differ whenever the changes do */
    char error[256];                            /* when it is not healthy */
};
void sandboxes_check(struct service *service, const struct sandbox_row *row, struct sandbox_health *ret);

/* Whether its files are to be mounted on the host while it is active. */
bool sandbox_wants_host_mount(const struct sandbox_row *row);
/* The directory of the host that has its files now, as the sandbox sees them: its host mount, or what the driver copy works on. NULL:
 * there is none. Free it. */
char *sandboxes_host_path(const struct service *service, const struct sandbox_row *row);

/* Whether one that does not run has all it needs to; the reason in `err` if not. What runs, or is over, is not looked at. */
int sandboxes_check_files(struct service *service, const struct sandbox_row *row, struct err *err);

/* ---- coming back (sandbox_trash.c) ---- */

/* One that was deleted, rejected or approved is stopped afterwards, with all its changes, and has again what it had reserved. One that is
 * active or stopped is so already. -EBUSY: others have reserved it meanwhile, `ret_conflicts` as in sandboxes_create(). */
int sandboxes_restore(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                      struct sandbox_row *ret, struct sandbox_conflicts *ret_conflicts, struct err *err);

/* Until when a deleted one can be restored; 0: it cannot. */
int64_t sandboxes_trash_until(const struct service *service, const struct sandbox_row *row);

struct prune;
/* Forgets what is older than the time for undoing, of those that the caller sees (review/prune.h). */
int sandboxes_prune(struct service *service, const struct caller *caller, bool is_dry, struct prune *ret, struct err *err);

struct sandbox_trash_request {
    int64_t after_ns; /* those that were deleted longer ago go */
    bool is_dry, measures;
};

struct sandbox_trash {
    size_t kept, purged;
    int64_t kept_bytes, purged_bytes; /* on disk, if measured */
};

/* Of those that the caller sees. */
int sandboxes_empty_trash(struct service *service, const struct caller *caller, const struct sandbox_trash_request *wish,
                          struct sandbox_trash *ret, struct err *err);

/* service_find_conn(), which tells of one over a directory what it is instead: INVALID_STATE. */
int sandboxes_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                        struct err *err);
/* Opens its directory. */
int sandboxes_open_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);
/* It was used: the idle clock starts again. */
void sandboxes_touch(struct service *service, const char *id);
/* How large its changes are now, in the row too. */
int sandboxes_measure(struct service *service, struct sandbox_row *row, struct err *err);
/* The same for an active one in a list of many: only where something may have changed, as its supervisor tells, and
 * seldom where it takes long. What the driver copy works on is compared by a diff and a stop only. */
void sandboxes_remeasure(struct service *service, struct sandbox_row *row, const struct sandbox_health *health);

/* Something of its life came to be: what its behaviour says of that is done. For runs, approvals, rejections. */
void sandboxes_happened(struct service *service, const char *id, enum behavior_event event);

/* Into the audit. `type` is "sandbox_approved" and so on; `claimed` is who they say that they are, NULL or "": they do not; of what was decided
 * automatically it is what decided. The details are taken, NULL: nothing. */
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
    bool purges;     /* its room is needed: it does not go to the trash */
};

struct sandbox_gc_result {
    struct sandbox_gc_one *items; /* owned */
    size_t count, cap;
    struct sandbox_trash trash; /* without what was collected just now */
    size_t pruned_records, pruned_copies;
    uint64_t pruned_bytes;
};

void sandbox_gc_result_done(struct sandbox_gc_result *result);
int sandboxes_gc(struct service *service, const struct caller *caller, const struct sandbox_gc *gc,
                 struct sandbox_gc_result *ret, struct err *err);
/* What holds when a request says nothing. */
struct sandbox_gc sandboxes_gc_default(const struct service *service);

/* How long things can be taken back. */
struct sandbox_windows {
    int64_t undo_ns;       /* an approval; 0: always */
    int64_t trash_ns;      /* a deletion; 0: never */
    bool collects_decided; /* approved and rejected sandboxes go without anybody asking */
};

struct sandbox_windows sandboxes_windows(const struct service *service);

/* What has happened since the start. */
struct sandbox_totals {
    int64_t started_ns; /* the service; monotonic clock */
    _Atomic uint64_t created, stopped, approved, rejected, deleted, errors, gc_runs, gc_deleted, diffs, patches;
    _Atomic uint64_t create_ns, diff_ns; /* sums */
};
struct sandbox_totals *sandboxes_totals(struct service *service);

/* ---- what there is ---- */

/* The project root of those who name none; "": there is none. */
const char *sandboxes_project_root(const struct service *service);
/* The path of a file in its directory: "delta/data". Free it. */
char *sandboxes_path(const struct service *service, const char *id, const char *file);
/* Counts the sandboxes that the caller sees, by state. */
int sandboxes_count(struct service *service, const struct caller *caller, enum sandbox_base base,
                    struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err);
/* How many commands run in those that are active, as their supervisors say. */
int64_t sandboxes_processes(struct service *service);

/* The root of a project as rows have it, without links; "" stays that. ERR_PERMISSION_DENIED, ROOT_NOT_ALLOWED: not in the caller's roots,
 * whatever is there. */
int sandboxes_find_root(const struct caller *caller, const char *given, char **ret, struct err *err);

/* Whether a workspace could be there, without making one. */
struct sandbox_place {
    bool is_valid, exists, is_directory, is_within;
    char error[256]; /* when it is not valid */
};
void sandboxes_check_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                          struct sandbox_place *ret);
