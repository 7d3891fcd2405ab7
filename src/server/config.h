/*
 * The configuration of `serve`: a YAML file, overridden by the environment, overridden by the command line.
 *
 * Every setting is one row of a table (setting.h): its key in the file ("server.grpc_addr"), from which its variable
 * (AGENTFENSE_SERVER_GRPC_ADDR) and its option (--server-grpc-addr, for some also a short name: --grpc-addr) follow. An unknown
 * key causes a warning and is ignored, so that a file may be older or newer than the program. An invalid value is an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct config_list {
    char **items; /* owned, as each item is; ended by NULL; or NULL itself */
    size_t count;
};

/* All strings are owned. Durations are nanoseconds, sizes bytes; 0 means none unless the table says otherwise. */
struct config {
    char *grpc_addr; /* "": do not serve gRPC over TCP */
    char *http_addr;
    char *unix_socket; /* a path; gRPC */
    char *tls_cert, *tls_key, *tls_client_ca;
    struct config_list allowed_uids;  /* beside the server's own */
    struct config_list allowed_hosts; /* the server's names, for the check of the Host header */
    struct config_list allowed_origins;
    bool is_private;  /* local users need a token too */
    int64_t drain_ns; /* for running calls when the server shuts down */

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
    int64_t retention_ns; /* how long to keep an expired sandbox's changes that are not in its codebase */
    bool sync_on_completion;
    bool allow_host_network;
    uint64_t memory_bytes, cpu_quota_us, cpu_shares, pids, disk_bytes, disk_inodes; /* for sandboxes that set none */

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

    /* Not settings: options that ask the program for something else. */
    bool wants_check, wants_help, wants_version;
    int lock_fd; /* borrowed: see struct service_options; 0: none */
};

void config_done(struct config *config);

/* Reads defaults, file, environment and command line, and checks that they fit together. Call config_done() also after a
 * failure. */
int config_load(struct config *config, int argc, const char *const *argv, struct err *err);

/* The effective settings as "key: value" lines. Free it. */
char *config_show(const struct config *config);

/* The usage text, made from the table. Free it. */
char *config_help(void);
