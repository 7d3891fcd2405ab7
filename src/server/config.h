/*
 * What `serve` is told: a YAML file, over it the environment, over that the command line.
 *
 * Every setting is one row of a table (setting.h): its key in the file ("server.grpc_addr"), from which its variable
 * (AGENTFENSE_SERVER_GRPC_ADDR) and its option (--server-grpc-addr, for some also a short name: --grpc-addr) follow. A key that nobody
 * knows is warned of and passed over, so that a file may be older or newer than the program; a value that cannot be is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct config_list {
    char **items; /* owned, each too; ended by NULL; or NULL itself */
    size_t count;
};

/* All strings owned. Spans are nanoseconds, sizes bytes; 0 is none where the table does not say otherwise. */
struct config {
    char *grpc_addr; /* "": not served */
    char *http_addr;
    char *unix_socket; /* a path; gRPC */
    char *tls_cert, *tls_key, *tls_client_ca;
    struct config_list allowed_uids;  /* beside our own */
    struct config_list allowed_hosts; /* names this server goes by, for the Host header */
    struct config_list allowed_origins;
    bool is_private;  /* local users need a token too */
    int64_t drain_ns; /* for calls at work when the server is told to end */

    char *codebase_path, *mount_path, *db_path;

    char *runtime;
    char *bwrap_path;
    int64_t default_timeout_ns, max_timeout_ns;
    int64_t session_idle_ns;
    uint64_t max_output_bytes;
    char *docker_host, *docker_image, *docker_network_mode, *docker_oci_runtime;
    bool docker_enable_networking, docker_read_only_root, docker_pull;

    int64_t default_expiration_ns;
    uint64_t max_per_user;
    int64_t cleanup_interval_ns;
    int64_t retention_ns; /* how long the changes of an expired sandbox are kept that are in no codebase */
    bool sync_on_completion;
    bool allow_host_network;
    uint64_t memory_bytes, cpu_quota_us, cpu_shares, pids, disk_bytes, disk_inodes; /* where a sandbox does not say */

    uint64_t versions_kept;
    int64_t versions_age_ns;
    uint64_t codebase_quota_bytes;
    uint64_t archive_bytes_max;

    char *project_root;
    uint64_t workspaces_max, workspace_bytes_max, workspace_total_bytes_max;
    int64_t workspace_ttl_ns, workspace_idle_ns, sandbox_terminal_ns;
    bool cleans_terminal;
    int64_t workspace_trash_ns, workspace_undo_ns;
    bool require_human, host_mount;
    uint64_t auto_files_max, auto_lines_max;
    char *hooks_path;
    bool allow_no_verify;
    char *commit_template, *commit_author;

    int64_t events_age_ns;
    bool redact;
    char *redact_names, *redact_patterns_path;

    char *log_level, *log_format;

    /* Not settings: what was asked of the program. */
    bool wants_check, wants_help, wants_version;
    int lock_fd; /* borrowed: see struct service_options; 0: none */
};

void config_done(struct config *config);

/* Defaults, file, environment, command line, checks of how they fit together. `config` is to be done with also after a failure. */
int config_load(struct config *config, int argc, const char *const *argv, struct err *err);

/* "key: value" lines of what holds. Free it. */
char *config_show(const struct config *config);

/* How the program is called, made from the table. Free it. */
char *config_help(void);
