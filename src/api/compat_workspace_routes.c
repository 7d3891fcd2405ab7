/*
 * Every workspace route, and who serves it. A new one is a line here, a function in a ws_*.c, and its declaration in compat_workspace_handlers.h. Paths
 * are relative to the root of the server; "{id}" behind /sandboxes is a workspace's id and is checked before the handler is called.
 */
#include "api/compat_workspace_routes.h"

#include <assert.h>

#include "api/compat_workspace_handlers.h"
#include "base/mem.h"

#define V1 "/api/v1"
#define ONE V1 "/sandboxes/{id}"

static const struct compat_route routes[] = {
    /* what there is */
    { "GET", "/", compat_about, .summary = "Tells what this is.", .flags = COMPAT_PUBLIC },
    { "GET", "/api", compat_about, .summary = "Tells what this is.", .flags = COMPAT_PUBLIC },

    { "GET", V1 "/health", compat_health, .summary = "Tells whether it can do its work.", .flags = COMPAT_PUBLIC },
    { "GET", V1 "/metrics", compat_metrics, .summary = "Counters, for Prometheus or as JSON." },
    { "GET", V1 "/stats", compat_stats, .summary = "Counts sandboxes by their status." },
    { "GET", V1 "/audit", compat_audit, .summary = "What happened, the newest first." },
    { "GET", V1 "/driver/info", compat_driver_info, .summary = "Tells which driver sandboxes get." },
    { "GET", V1 "/driver/options", compat_driver_options, .summary = "Lists drivers, and what they need." },
    { "POST", V1 "/driver/select", compat_driver_select, .summary = "Chooses the driver of new sandboxes.",
      .flags = COMPAT_NEEDS_BODY, .keys = compat_driver_keys },
    { "GET", V1 "/driver/preference", compat_driver_preference, .summary = "Tells which driver was chosen." },
    { "GET", V1 "/driver/bwrap", compat_driver_bwrap, .summary = "Tells whether bubblewrap is there." },
    { "GET", V1 "/validate-path", compat_validate_path, .summary = "Tells whether a sandbox could be over a path." },

    /* life */
    { "POST", V1 "/sandboxes", compat_create, .summary = "Makes a sandbox over a live directory.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_create_keys },
    { "GET", V1 "/sandboxes", compat_list, .summary = "Lists sandboxes, the newest first." },
    { "GET", ONE, compat_get, .summary = "Tells about a sandbox." },
    { "DELETE", ONE, compat_delete, .summary = "Deletes a sandbox; its changes stay in the trash for a while.",
      .flags = COMPAT_BODY, .keys = compat_delete_keys },
    { "POST", ONE "/restore", compat_restore, .summary = "Brings a deleted, rejected or approved sandbox back.",
      .flags = COMPAT_BODY, .keys = compat_decide_keys },
    { "POST", ONE "/stop", compat_stop, .summary = "Stops a sandbox; its changes stay.", .flags = COMPAT_BODY,
      .keys = compat_step_keys },
    { "POST", ONE "/start", compat_start, .summary = "Starts a stopped sandbox.", .flags = COMPAT_BODY,
      .keys = compat_step_keys },
    { "GET", ONE "/workspace", compat_workspace, .summary = "Tells which directory of the host has a sandbox's files." },
    { "GET", ONE "/audit", compat_audit_one, .summary = "What happened to a sandbox, the newest first." },
    { "POST", V1 "/gc", compat_gc, .summary = "Collects sandboxes that nobody needs.", .flags = COMPAT_BODY,
      .keys = compat_gc_keys },
    { "POST", V1 "/gc/preview", compat_gc_preview, .summary = "Tells what would be collected.", .flags = COMPAT_BODY,
      .keys = compat_gc_keys },

    /* commands, processes, logs, terminals, files */
    { "POST", ONE "/exec", compat_exec, "Runs a command and waits for its end.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_command_keys },
    { "POST", ONE "/processes", compat_process_start, "Starts a process in the background.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_command_keys },
    { "POST", ONE "/start-process", compat_process_start, "Starts a process in the background.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_command_keys },
    { "GET", ONE "/processes", compat_process_list, "Lists the processes in the background.", .flags = 0 },
    { "DELETE", ONE "/processes", compat_process_end_all, "Ends all processes in the background.", .flags = 0 },
    { "POST", ONE "/processes/kill-all", compat_process_end_all, "Ends all processes in the background.", .flags = COMPAT_BODY,
      .keys = compat_process_end_keys },
    { "DELETE", ONE "/processes/{pid}", compat_process_end, "Ends a process.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs", compat_log_read, "What a process printed.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs/stream", compat_log_follow, "What a process prints, as events.", .flags = 0,
      .answer = WEB_ANSWER_EVENTS },
    { "GET", ONE "/logs", compat_log_list, "Lists the logs of processes.", .flags = 0 },
    { "GET", ONE "/exec-interactive", compat_terminal, "A terminal, over a WebSocket.", .flags = 0 },
    { "GET", ONE "/files", compat_file_list, "Lists a directory.", .flags = 0 },
    { "GET", ONE "/files/content", compat_file_read, "A file, as JSON.", .flags = 0 },
    { "PUT", ONE "/files/content", compat_file_write, "Makes a file, or replaces it.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_file_write_keys, .body_max = (size_t) 16 << 20 },
    { "DELETE", ONE "/files/content", compat_file_delete, "Deletes a file, or a directory.", .flags = 0 },
    { "POST", ONE "/files/mkdir", compat_file_mkdir, "Makes a directory, and those above it.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_file_mkdir_keys },
    { "GET", ONE "/files/download", compat_file_download, "A file, as it is.", .flags = 0, .answer = WEB_ANSWER_BYTES },
    { "GET", V1 "/stats/processes", compat_process_stats, "How many processes there are.", .flags = 0 },
    { "GET", V1 "/config/execution", compat_execution_get, "Limits of commands, and the default profile.", .flags = 0 },
    { "PUT", V1 "/config/execution", compat_execution_put, "Replaces these.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_execution_keys },
    { "GET", V1 "/config/profiles", compat_profile_list, "Lists the isolation profiles.", .flags = 0 },
    { "GET", V1 "/config/profiles/{profile}", compat_profile_get, "One of them.", .flags = 0 },
    { "PUT", V1 "/config/profiles/{profile}", compat_profile_put, "Makes one, or replaces it.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_profile_keys },
    { "DELETE", V1 "/config/profiles/{profile}", compat_profile_delete, "Removes one.", .flags = 0 },

    /* review */
    { "GET", ONE "/diff", compat_diff, "What the agent changed, as JSON or as a patch.", .flags = 0,
      .answer = WEB_ANSWER_BYTES },
    { "POST", ONE "/diff/shown", compat_diff_shown, "Tells which changes somebody was shown.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_diff_shown_keys },
    { "POST", ONE "/approve", compat_approve, "Applies changes to the project.", .flags = COMPAT_BODY,
      .keys = compat_approve_keys },
    { "POST", ONE "/partial-approve", compat_partial_approve, "Applies some changes to the project.",
      .flags = COMPAT_NEEDS_BODY, .keys = compat_approve_keys },
    { "POST", ONE "/reject", compat_reject, "Ends a sandbox, and applies nothing.", .flags = COMPAT_BODY,
      .keys = compat_decide_keys },
    { "POST", ONE "/finish", compat_finish, "Tells that the work in it is over; decides what needs no person.",
      .flags = COMPAT_BODY, .keys = compat_finish_keys },
    { "POST", ONE "/discard", compat_discard, "Gives up changes of files.", .flags = COMPAT_NEEDS_BODY,
      .keys = compat_discard_keys },
    { "GET", ONE "/conflicts", compat_conflicts, "How the changes stand to the project as it is now.", .flags = 0 },
    { "POST", ONE "/rebase", compat_rebase, "Brings the changes onto the project as it is now.", .flags = COMPAT_BODY,
      .keys = compat_rebase_keys },
    { "POST", ONE "/undo", compat_undo, "Takes an approval back.", .flags = COMPAT_BODY, .keys = compat_undo_keys },
    { "GET", V1 "/pending", compat_pending, "What was applied and is not committed.", .flags = 0 },
    { "GET", V1 "/provenance", compat_provenance, "Which sandboxes changed a file.", .flags = 0 },
    { "GET", V1 "/commit-preview", compat_commit_preview, "What a commit would contain.", .flags = 0 },
    { "POST", V1 "/commit-preview", compat_commit_preview, "What a commit would contain.", .flags = COMPAT_BODY,
      .keys = compat_commit_keys },
    { "POST", V1 "/commit-pending", compat_commit_pending, "Commits what was applied.", .flags = COMPAT_BODY,
      .keys = compat_commit_keys },
};

const struct web_table *compat_routes_make(struct api *api)
{
    static struct web_route list[ARRAY_LEN(routes)];
    static struct web_table table;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        assert(routes[i].keys || !(routes[i].flags & (COMPAT_BODY | COMPAT_NEEDS_BODY)));
        list[i] = (struct web_route){
            .verb = routes[i].verb,
            .path = routes[i].path,
            .run = compat_run,
            .answer = routes[i].answer,
            .has_body = routes[i].flags & (COMPAT_BODY | COMPAT_NEEDS_BODY | COMPAT_RAW_BODY),
            .body_max = routes[i].body_max,
            .summary = routes[i].summary,
            .detail = &routes[i],
        };
    }
    table = (struct web_table){ .routes = list, .count = ARRAY_LEN(list), .cookie = api };
    return &table;
}
