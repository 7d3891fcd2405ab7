/*
 * All workspace routes and their handlers. compat_run() checks a sandbox's "{id}" and the keys of the body before it calls the handler; an unknown key
 * is 400.
 */
#include "api/compat_workspace_routes.h"

#include "api/compat_workspace.h"
#include "base/mem.h"

#define V1 "/api/v1"
#define ONE V1 "/sandboxes/{id}"
#define KEYS(...)                                                                                                              \
    .keys = (const char *const[])                                                                                              \
    {                                                                                                                          \
        __VA_ARGS__                                                                                                            \
    }
#define APPROVE_KEYS                                                                                                           \
    KEYS("mode", "files", "fileIds", "hunks", "hunkRanges", "actor", "commitMessage", "commitMsg", "createCommit", "force",    \
         "overrideAcceptance", "acknowledge", "dryRun", "diffHash", "fileHashes", "version", "runHooks", "noVerify", "stop",   \
         "sandboxId", NULL)
#define COMMAND_KEYS                                                                                                           \
    KEYS("command", "args", "allowNetwork", "env", "workingDir", "sessionId", "isolationLevel", "memoryLimitMB", "cpuTimeSec", \
         "timeoutSec", "maxProcesses", "maxOpenFiles", "name", "stdin", "stdinEncoding", NULL)
#define GC_KEYS KEYS("policy", "dryRun", "limit", "actor", "olderThan", "maxAge", "idleTimeout", NULL)
#define COMMIT_KEYS KEYS("projectRoot", "sandboxIds", "filePaths", "files", "commitMessage", "commitMsg", "actor", NULL)

static const struct compat_route routes[] = {
    /* the server */
    { "GET", "/", compat_about, .summary = "Introduces the server.", .flags = COMPAT_PUBLIC },
    { "GET", "/api", compat_about, .summary = "Introduces the server.", .flags = COMPAT_PUBLIC },
    { "GET", V1 "/health", compat_health, .summary = "Shows whether the server works.", .flags = COMPAT_PUBLIC },
    { "GET", V1 "/metrics", compat_metrics, .summary = "Shows counters, for Prometheus or as JSON." },
    { "GET", V1 "/stats", compat_stats, .summary = "Counts sandboxes by their status." },
    { "GET", V1 "/audit", compat_audit, .summary = "Lists events, the newest first." },
    { "GET", V1 "/driver/info", compat_driver_info, .summary = "Shows the driver of new sandboxes." },
    { "GET", V1 "/driver/options", compat_driver_options, .summary = "Lists drivers, and what they need." },
    { "POST", V1 "/driver/select", compat_driver_select, .summary = "Chooses the driver of new sandboxes.",
      KEYS("driverId", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/driver/preference", compat_driver_preference, .summary = "Shows the chosen driver." },
    { "GET", V1 "/driver/bwrap", compat_driver_bwrap, .summary = "Shows whether bubblewrap is installed." },
    { "GET", V1 "/validate-path", compat_validate_path, .summary = "Checks whether a sandbox could be made over a path." },
    /* life */
    { "POST", V1 "/sandboxes", compat_create, .summary = "Makes a sandbox over a live directory.",
      KEYS("scopePath", "reservedPath", "reservedPaths", "noLock", "projectRoot", "owner", "ownerType", "tags", "metadata",
           "behavior", "idempotencyKey", "driver", "preset", "profile", "rules", "hostMount", NULL),
      .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/sandboxes", compat_list, .summary = "Lists sandboxes, the newest first." },
    { "GET", ONE, compat_get, .summary = "Shows a sandbox." },
    { "DELETE", ONE, compat_delete, .summary = "Deletes a sandbox; its changes stay in the trash for a while.",
      KEYS("version", "purge", NULL) },
    { "POST", ONE "/restore", compat_restore, .summary = "Restores a deleted, rejected or approved sandbox.",
      KEYS("actor", "version", "sandboxId", NULL) },
    { "POST", ONE "/stop", compat_stop, .summary = "Stops a sandbox; its changes stay.", KEYS("version", NULL) },
    { "POST", ONE "/start", compat_start, .summary = "Starts a stopped sandbox.", KEYS("version", NULL) },
    { "GET", ONE "/workspace", compat_workspace, .summary = "Shows which directory of the host has a sandbox's files." },
    { "GET", ONE "/audit", compat_audit_one, .summary = "Lists the events of a sandbox, the newest first." },
    { "POST", V1 "/gc", compat_gc, .summary = "Collects sandboxes that nobody needs.", GC_KEYS },
    { "POST", V1 "/gc/preview", compat_gc_preview, .summary = "Shows what would be collected.", GC_KEYS },
    /* commands, processes, logs, terminals, files */
    { "POST", ONE "/exec", compat_exec, .summary = "Runs a command and waits for its end.", COMMAND_KEYS,
      .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/processes", compat_process_start, .summary = "Starts a process in the background.", COMMAND_KEYS,
      .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/start-process", compat_process_start, .summary = "Starts a process in the background.", COMMAND_KEYS,
      .flags = COMPAT_NEEDS_BODY },
    { "GET", ONE "/processes", compat_process_list, .summary = "Lists the processes in the background." },
    { "DELETE", ONE "/processes", compat_process_end_all, .summary = "Ends all processes in the background." },
    { "POST", ONE "/processes/kill-all", compat_process_end_all, .summary = "Ends all processes in the background.",
      KEYS(NULL) },
    { "DELETE", ONE "/processes/{pid}", compat_process_end, .summary = "Ends a process." },
    { "GET", ONE "/processes/{pid}/logs", compat_log_read, .summary = "Reads the log of a process." },
    { "GET", ONE "/processes/{pid}/logs/stream", compat_log_follow, .summary = "Follows the log of a process, as events.",
      .answer = WEB_ANSWER_EVENTS },
    { "GET", ONE "/logs", compat_log_list, .summary = "Lists the logs of processes." },
    { "GET", ONE "/exec-interactive", compat_terminal, .summary = "Opens a terminal over a WebSocket." },
    { "GET", ONE "/files", compat_file_list, .summary = "Lists a directory." },
    { "GET", ONE "/files/content", compat_file_read, .summary = "Reads a file, as JSON." },
    { "PUT", ONE "/files/content", compat_file_write, .summary = "Makes a file, or replaces it.",
      KEYS("content", "encoding", "mode", NULL), .flags = COMPAT_NEEDS_BODY, .body_max = (size_t) 16 << 20 },
    { "DELETE", ONE "/files/content", compat_file_delete, .summary = "Deletes a file, or a directory." },
    { "POST", ONE "/files/mkdir", compat_file_mkdir, .summary = "Makes a directory and the missing ones above it.",
      KEYS("path", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", ONE "/files/download", compat_file_download, .summary = "Downloads a file.", .answer = WEB_ANSWER_BYTES },
    { "GET", V1 "/stats/processes", compat_process_stats, .summary = "Counts processes." },
    { "GET", V1 "/config/execution", compat_execution_get, .summary = "Shows the limits of commands and the default profile." },
    { "PUT", V1 "/config/execution", compat_execution_put,
      .summary = "Replaces the limits of commands and the default profile.",
      KEYS("defaultResourceLimits", "maxResourceLimits", "defaultIsolationProfile", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/config/profiles", compat_profile_list, .summary = "Lists the isolation profiles." },
    { "GET", V1 "/config/profiles/{profile}", compat_profile_get, .summary = "Shows an isolation profile." },
    /* A profile that a client got, changed and puts back still has `id` and `builtin`, which are ignored. */
    { "PUT", V1 "/config/profiles/{profile}", compat_profile_put, .summary = "Makes an isolation profile, or replaces it.",
      KEYS("id", "name", "description", "builtin", "networkAccess", "readOnlyBinds", "readWriteBinds", "environment",
           "hostname", NULL),
      .flags = COMPAT_NEEDS_BODY },
    { "DELETE", V1 "/config/profiles/{profile}", compat_profile_delete, .summary = "Removes an isolation profile." },
    /* review */
    { "GET", ONE "/diff", compat_diff, .summary = "Shows what the agent changed, as JSON or as a patch.",
      .answer = WEB_ANSWER_BYTES },
    { "POST", ONE "/diff/shown", compat_diff_shown, .summary = "Notes which changes somebody was shown.",
      KEYS("fileHashes", NULL), .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/approve", compat_approve, .summary = "Applies changes to the project.", APPROVE_KEYS },
    { "POST", ONE "/partial-approve", compat_partial_approve, .summary = "Applies some changes to the project.", APPROVE_KEYS,
      .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/reject", compat_reject, .summary = "Rejects the changes of a sandbox.",
      KEYS("actor", "version", "sandboxId", NULL) },
    { "POST", ONE "/finish", compat_finish, .summary = "Ends the work in a sandbox, and decides what needs no person.",
      KEYS("outcome", "actor", "version", NULL) },
    { "POST", ONE "/discard", compat_discard, .summary = "Discards changes of files.",
      KEYS("fileIds", "filePaths", "files", "actor", "version", "stop", "sandboxId", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", ONE "/conflicts", compat_conflicts, .summary = "Compares the changes with the current project." },
    { "POST", ONE "/rebase", compat_rebase, .summary = "Rebases the changes onto the current project.",
      KEYS("strategy", "actor", "version", "stop", "sandboxId", NULL) },
    { "POST", ONE "/undo", compat_undo, .summary = "Undoes an approval.",
      KEYS("approvalId", "dryRun", "actor", "version", "stop", NULL) },
    { "GET", V1 "/pending", compat_pending, .summary = "Lists what was applied and is not committed." },
    { "GET", V1 "/provenance", compat_provenance, .summary = "Lists the sandboxes that changed a file." },
    { "GET", V1 "/commit-preview", compat_commit_preview, .summary = "Shows what a commit would contain." },
    { "POST", V1 "/commit-preview", compat_commit_preview, .summary = "Shows what a commit would contain.", COMMIT_KEYS },
    { "POST", V1 "/commit-pending", compat_commit_pending, .summary = "Commits what was applied.", COMMIT_KEYS },
};

const struct web_table *compat_routes_make(struct api *api)
{
    static struct web_route list[ARRAY_LEN(routes)];
    static struct web_table table;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        list[i] = (struct web_route){
            .verb = routes[i].verb,
            .path = routes[i].path,
            .run = compat_run,
            .answer = routes[i].answer,
            .has_body = routes[i].keys,
            .body_max = routes[i].body_max,
            .summary = routes[i].summary,
            .detail = &routes[i],
        };
    }
    table = (struct web_table){ .routes = list, .count = ARRAY_LEN(list), .cookie = api };
    return &table;
}
