#include "server/config_service.h"

#include <string.h>

static enum sandbox_runtime runtime_of(const char *name)
{
    if (strcmp(name, "docker") == 0)
        return SANDBOX_RUNTIME_DOCKER;
    return strcmp(name, "mock") == 0 ? SANDBOX_RUNTIME_MOCK : SANDBOX_RUNTIME_BWRAP;
}

struct service_options config_service(const struct config *config)
{
    return (struct service_options){
        .codebase_path = config->codebase_path,
        .mount_path = config->mount_path,
        .db_url = config->db_path,
        .runtime = runtime_of(config->runtime),
        .default_timeout_ns = config->default_timeout_ns,
        .max_timeout_ns = config->max_timeout_ns,
        .session_idle_ns = config->session_idle_ns,
        .max_output_bytes = config->max_output_bytes,
        .default_expiration_ns = config->default_expiration_ns,
        .cleanup_interval_ns = config->cleanup_interval_ns,
        .retention_ns = config->retention_ns,
        .max_per_user = config->max_per_user,
        .syncs = config->sync_on_completion,
        .allows_host_network = config->allow_host_network,
        .limits = { .memory_bytes = (int64_t) config->memory_bytes,
                    .cpu_quota_us = (int64_t) config->cpu_quota_us,
                    .cpu_shares = (int64_t) config->cpu_shares,
                    .pids = (int64_t) config->pids,
                    .disk_bytes = (int64_t) config->disk_bytes,
                    .disk_inodes = (int64_t) config->disk_inodes },
        .versions_kept = config->versions_kept,
        .versions_age_ns = config->versions_age_ns,
        .codebase_quota_bytes = config->codebase_quota_bytes,
        .archive_bytes_max = config->archive_bytes_max,
        .events_age_ns = config->events_age_ns,
        .container = { .engine = config->docker_host,
                       .image = config->docker_image,
                       .network = config->docker_network_mode,
                       .oci_runtime = config->docker_oci_runtime,
                       .allows_network = config->docker_enable_networking,
                       .has_read_only_root = config->docker_read_only_root,
                       .pulls = config->docker_pull },
        .project_root = config->project_root,
        .workspaces_max = (unsigned) (config->workspaces_max < UINT32_MAX ? config->workspaces_max : UINT32_MAX),
        .workspace_bytes_max = config->workspace_bytes_max,
        .workspace_total_bytes_max = config->workspace_total_bytes_max,
        .workspace_ttl_ns = config->workspace_ttl_ns,
        .workspace_idle_ns = config->workspace_idle_ns,
        .workspace_terminal_ns = config->workspace_terminal_ns,
        .collects_terminal_workspaces = config->cleans_terminal,
        .workspace_undo_ns = config->workspace_undo_ns,
        .workspace_trash_ns = config->workspace_trash_ns,
        .requires_human = config->require_human,
        .mounts_on_host = config->host_mount,
        .auto_files_max = config->auto_files_max,
        .auto_lines_max = config->auto_lines_max,
        .hooks_path = config->hooks_path,
        .allows_no_verify = config->allow_no_verify,
        .commit_template = config->commit_template,
        .commit_author = config->commit_author,
        .keeps_secrets = !config->redact,
        .redact_names = config->redact_names,
        .redact_patterns_path = config->redact_patterns_path,
    };
}
