/*
 * A server's operations, independent of the API that calls them: the functions of sandboxes.h, commands.h, sessions.h, codebases.h, tokens.h,
 * events.h on one store, one directory of codebases and one state directory.
 *
 * All calls block, and any number of threads may make them at once. Errors carry a reason for programs beside their text: see err_set_reason().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/sandbox_info.h"

struct service;

/* The defaults of sandboxes that are containers. Borrowed. */
struct container_options {
    const char *engine; /* path of its socket */
    const char *image, *network;
    const char *oci_runtime; /* "": the engine's own choice */
    bool allows_network;     /* any network but "none" */
    bool has_read_only_root;
    bool pulls; /* fetch missing images */
};

/* Borrowed for service_new(). 0 and NULL: not set, or unlimited. */
struct service_options {
    const char *codebase_path, *mount_path, *db_url;
    int lock_fd; /* taken over, also on failure: STATE_DIR_LOCK, open and locked; 0: service_new() opens and locks it */
    int runtime; /* numbered as in the API (wire/runtime_type.h) */
    int64_t default_timeout_ns, max_timeout_ns, session_idle_ns;
    uint64_t max_output_bytes;
    int64_t default_expiration_ns, cleanup_interval_ns, retention_ns;
    uint64_t max_per_user;
    bool syncs; /* the default of sandboxes */
    bool allows_host_network;
    struct sandbox_limits limits;
    uint64_t versions_kept;
    int64_t versions_age_ns;
    uint64_t codebase_quota_bytes, archive_bytes_max;
    int64_t events_age_ns;
    struct container_options container;
    const char *project_root; /* of workspaces without one */
    unsigned workspaces_max;
    uint64_t workspace_bytes_max, workspace_total_bytes_max;
    int64_t workspace_ttl_ns, workspace_idle_ns, sandbox_terminal_ns; /* collection criteria of requests without their own */
    bool collects_terminal_workspaces;                                /* collect them periodically */
    int64_t workspace_undo_ns;                                        /* how long an approval can be undone; 0: for ever */
    int64_t workspace_trash_ns;                                       /* how long a deleted workspace can be restored */
    bool requires_human;                                              /* never approve automatically */
    bool mounts_on_host;                     /* the default of workspaces: mount their files on the host */
    uint64_t auto_files_max, auto_lines_max; /* the most that may be approved automatically */
    const char *hooks_path;                  /* file with the hooks of every approval; "": none */
    bool allows_no_verify;                   /* lets callers who are not administrators approve without hooks */
    const char *commit_template;             /* of commit messages; "": the usual one */
    const char *commit_author;               /* "agent", "reviewer", "coauthored" */
    bool keeps_secrets;                      /* in events; otherwise redaction.h removes them, with the two fields below */
    const char *redact_names, *redact_patterns_path;
};

/* Opens the store and the directories, adopts running sandboxes, finishes interrupted operations, and starts the background threads
 * (expiry, events). Signals must be blocked. */
int service_new(const struct service_options *options, struct service **ret, struct err *err);

/* Calls that are cancelled at or after this time of the monotonic clock are cancelled because the server ends: their commands go on. */
void service_end_at(struct service *service, int64_t when_ns);

/* Sandboxes live on. The caller makes sure that no other call is running. */
void service_free(struct service *service);
DEFINE_AUTOPTR(service, service_free);

/* Checks that the service can work now, for a health check. */
int service_check(struct service *service, struct err *err);
