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
    { "GET", "/", compat_about, .summary = "Tells what this is.", .flags = COMPAT_PUBLIC },
    { "GET", "/api", compat_about, .summary = "Tells what this is.", .flags = COMPAT_PUBLIC },
    { "GET", V1 "/health", compat_health, .summary = "Tells whether it can do its work.", .flags = COMPAT_PUBLIC },
    { "GET", V1 "/metrics", compat_metrics, .summary = "Counters, for Prometheus or as JSON." },
    { "GET", V1 "/stats", compat_stats, .summary = "Counts sandboxes by their status." },
    { "GET", V1 "/audit", compat_audit, .summary = "What happened, the newest first." },
    { "GET", V1 "/driver/info", compat_driver_info, .summary = "Tells which driver sandboxes get." },
    { "GET", V1 "/driver/options", compat_driver_options, .summary = "Lists drivers, and what they need." },
    { "POST", V1 "/driver/select", compat_driver_select, .summary = "Chooses the driver of new sandboxes.",
      KEYS("driverId", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/driver/preference", compat_driver_preference, .summary = "Tells which driver was chosen." },
    { "GET", V1 "/driver/bwrap", compat_driver_bwrap, .summary = "Tells whether bubblewrap is there." },
    { "GET", V1 "/validate-path", compat_validate_path, .summary = "Tells whether a sandbox could be over a path." },
    /* life */
    { "POST", V1 "/sandboxes", compat_create, .summary = "Makes a sandbox over a live directory.",
      KEYS("scopePath", "reservedPath", "reservedPaths", "noLock", "projectRoot", "owner", "ownerType", "tags", "metadata",
           "behavior", "idempotencyKey", "driver", "preset", "profile", "rules", "hostMount", NULL),
      .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/sandboxes", compat_list, .summary = "Lists sandboxes, the newest first." },
    { "GET", ONE, compat_get, .summary = "Tells about a sandbox." },
    { "DELETE", ONE, compat_delete, .summary = "Deletes a sandbox; its changes stay in the trash for a while.",
      KEYS("version", "purge", NULL) },
    { "POST", ONE "/restore", compat_restore, .summary = "Brings a deleted, rejected or approved sandbox back.",
      KEYS("actor", "version", "sandboxId", NULL) },
    { "POST", ONE "/stop", compat_stop, .summary = "Stops a sandbox; its changes stay.", KEYS("version", NULL) },
    { "POST", ONE "/start", compat_start, .summary = "Starts a stopped sandbox.", KEYS("version", NULL) },
    { "GET", ONE "/workspace", compat_workspace, .summary = "Tells which directory of the host has a sandbox's files." },
    { "GET", ONE "/audit", compat_audit_one, .summary = "What happened to a sandbox, the newest first." },
    { "POST", V1 "/gc", compat_gc, .summary = "Collects sandboxes that nobody needs.", GC_KEYS },
    { "POST", V1 "/gc/preview", compat_gc_preview, .summary = "Tells what would be collected.", GC_KEYS },
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
    { "GET", ONE "/processes/{pid}/logs", compat_log_read, .summary = "What a process printed." },
    { "GET", ONE "/processes/{pid}/logs/stream", compat_log_follow, .summary = "What a process prints, as events.",
      .answer = WEB_ANSWER_EVENTS },
    { "GET", ONE "/logs", compat_log_list, .summary = "Lists the logs of processes." },
    { "GET", ONE "/exec-interactive", compat_terminal, .summary = "A terminal, over a WebSocket." },
    { "GET", ONE "/files", compat_file_list, .summary = "Lists a directory." },
    { "GET", ONE "/files/content", compat_file_read, .summary = "A file, as JSON." },
    { "PUT", ONE "/files/content", compat_file_write, .summary = "Makes a file, or replaces it.",
      KEYS("content", "encoding", "mode", NULL), .flags = COMPAT_NEEDS_BODY, .body_max = (size_t) 16 << 20 },
    { "DELETE", ONE "/files/content", compat_file_delete, .summary = "Deletes a file, or a directory." },
    { "POST", ONE "/files/mkdir", compat_file_mkdir, .summary = "Makes a directory, and those above it.", KEYS("path", NULL),
      .flags = COMPAT_NEEDS_BODY },
    { "GET", ONE "/files/download", compat_file_download, .summary = "A file, as it is.", .answer = WEB_ANSWER_BYTES },
    { "GET", V1 "/stats/processes", compat_process_stats, .summary = "How many processes there are." },
    { "GET", V1 "/config/execution", compat_execution_get, .summary = "Limits of commands, and the default profile." },
    { "PUT", V1 "/config/execution", compat_execution_put, .summary = "Replaces these.",
      KEYS("defaultResourceLimits", "maxResourceLimits", "defaultIsolationProfile", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", V1 "/config/profiles", compat_profile_list, .summary = "Lists the isolation profiles." },
    { "GET", V1 "/config/profiles/{profile}", compat_profile_get, .summary = "One of them." },
    /* A profile that a client got, changed and puts back still has `id` and `builtin`, which are ignored. */
    { "PUT", V1 "/config/profiles/{profile}", compat_profile_put, .summary = "Makes one, or replaces it.",
      KEYS("id", "name", "description", "builtin", "networkAccess", "readOnlyBinds", "readWriteBinds", "environment",
           "hostname", NULL),
      .flags = COMPAT_NEEDS_BODY },
    { "DELETE", V1 "/config/profiles/{profile}", compat_profile_delete, .summary = "Removes one." },
    /* review */
    { "GET", ONE "/diff", compat_diff, .summary = "What the agent changed, as JSON or as a patch.",
      .answer = WEB_ANSWER_BYTES },
    { "POST", ONE "/diff/shown", compat_diff_shown, .summary = "Tells which changes somebody was shown.",
      KEYS("fileHashes", NULL), .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/approve", compat_approve, .summary = "Applies changes to the project.", APPROVE_KEYS },
    { "POST", ONE "/partial-approve", compat_partial_approve, .summary = "Applies some changes to the project.", APPROVE_KEYS,
      .flags = COMPAT_NEEDS_BODY },
    { "POST", ONE "/reject", compat_reject, .summary = "Ends a sandbox, and applies nothing.",
      KEYS("actor", "version", "sandboxId", NULL) },
    { "POST", ONE "/finish", compat_finish, .summary = "Tells that the work in it is over; decides what needs no person.",
      KEYS("outcome", "actor", "version", NULL) },
    { "POST", ONE "/discard", compat_discard, .summary = "Gives up changes of files.",
      KEYS("fileIds", "filePaths", "files", "actor", "version", "stop", "sandboxId", NULL), .flags = COMPAT_NEEDS_BODY },
    { "GET", ONE "/conflicts", compat_conflicts, .summary = "How the changes stand to the project as it is now." },
    { "POST", ONE "/rebase", compat_rebase, .summary = "Brings the changes onto the project as it is now.",
      KEYS("strategy", "actor", "version", "stop", "sandboxId", NULL) },
    { "POST", ONE "/undo", compat_undo, .summary = "Takes an approval back.",
      KEYS("approvalId", "dryRun", "actor", "version", "stop", NULL) },
    { "GET", V1 "/pending", compat_pending, .summary = "What was applied and is not committed." },
    { "GET", V1 "/provenance", compat_provenance, .summary = "Which sandboxes changed a file." },
    { "GET", V1 "/commit-preview", compat_commit_preview, .summary = "What a commit would contain." },
    { "POST", V1 "/commit-preview", compat_commit_preview, .summary = "What a commit would contain.", COMMIT_KEYS },
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
