/*
 * What a server does, free of how it is asked: the use cases of sandboxes.h, commands.h, sessions.h, library.h, tokens.h, events.h on one
 * store, one directory of codebases and one of sandboxes.
 *
 * All calls block and may be made by any number of threads at once. Refusals carry, beside their text, a reason for programs:
 * see refusal.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/sandbox_info.h"

struct service;

/* Of sandboxes that are containers, where they do not say. Borrowed. */
struct container_options {
    const char *engine; /* path of its socket */
    const char *image, *network;
    const char *oci_runtime; /* "": the engine's own choice */
    bool allows_network;     /* any but none */
    bool has_read_only_root;
    bool pulls; /* images that are not there */
};

/* Borrowed for service_new(). 0 and NULL: none, or no bound. */
struct service_options {
    const char *codebase_path, *mount_path, *db_url;
    int lock_fd; /* taken over, also on failure: STATE_DIR_LOCK, open and locked; 0: service_new() opens and locks it */
    int runtime; /* numbered as in the API (wire/runtime_type.h) */
    int64_t default_timeout_ns, max_timeout_ns, session_idle_ns;
    uint64_t max_output_bytes;
    int64_t default_expiration_ns, cleanup_interval_ns, retention_ns;
    uint64_t max_per_user;
    bool syncs; /* unless a sandbox says otherwise */
    bool allows_host_network;
    struct sandbox_limits limits;
    uint64_t versions_kept;
    int64_t versions_age_ns;
    uint64_t codebase_quota_bytes, archive_bytes_max;
    int64_t events_age_ns;
    struct container_options container;
    const char *project_root; /* of workspaces that name none */
    unsigned workspaces_max;
    uint64_t workspace_bytes_max, workspace_total_bytes_max;
    int64_t workspace_ttl_ns, workspace_idle_ns, sandbox_terminal_ns; /* what is collected when a request says nothing */
    bool collects_terminal_workspaces;                                /* without being asked */
    int64_t workspace_undo_ns;                                        /* how long an approval can be undone; 0: always */
    int64_t workspace_trash_ns;                                       /* how long a deleted one can be restored */
    bool requires_human;                                              /* nothing is approved automatically */
    bool mounts_on_host;                                              /* files of workspaces that do not say */
    uint64_t auto_files_max, auto_lines_max;                          /* what may be */
    const char *hooks_path;                                           /* file with the hooks of every approval; "": none */
    bool allows_no_verify;       /* approvals without hooks, also by those who are no administrators */
    const char *commit_template; /* of messages; "": the usual one */
    const char *commit_author;   /* "agent", "reviewer", "coauthored" */
    bool keeps_secrets;          /* in events; otherwise see redaction.h, which these two are for */
    const char *redact_names, *redact_patterns_path;
};

/* Opens store and directories, adopts the sandboxes that still run, finishes what was begun, and starts what goes on by itself
 * (expiry, events). Signals must be blocked. */
int service_new(const struct service_options *options, struct service **ret, struct err *err);

/* Calls that are cancelled at this time of the monotonic clock or later are so because the server ends: commands go on. */
void service_end_at(struct service *service, int64_t when_ns);

/* Sandboxes live on. No call may be going on. */
void service_free(struct service *service);
DEFINE_AUTOPTR(service, service_free);

/* Whether it can do its work now: for a health check. */
int service_check(struct service *service, struct err *err);
