/*
 * Every workspace route, and who serves it. A new one is a line here, a function in a ws_*.c, and its declaration in ws_handlers.h. Paths
 * are relative to the root of the server; "{id}" behind /sandboxes is a workspace's id and is checked before the handler is called.
 */
#include "api/ws_routes.h"

#include <assert.h>

#include "api/ws_handlers.h"
#include "base/mem.h"

#define V1 "/api/v1"
#define ONE V1 "/sandboxes/{id}"

static const struct ws_route routes[] = {
    /* what there is */
    { "GET", "/", ws_about, .summary = "Tells what this is.", .flags = WS_PUBLIC },
    { "GET", "/api", ws_about, .summary = "Tells what this is.", .flags = WS_PUBLIC },

    { "GET", V1 "/health", ws_health, .summary = "Tells whether it can do its work.", .flags = WS_PUBLIC },
    { "GET", V1 "/metrics", ws_metrics, .summary = "Counters, for Prometheus or as JSON." },
    { "GET", V1 "/stats", ws_stats, .summary = "Counts sandboxes by their status." },
    { "GET", V1 "/audit", ws_audit, .summary = "What happened, the newest first." },
    { "GET", V1 "/driver/info", ws_driver_info, .summary = "Tells which driver sandboxes get." },
    { "GET", V1 "/driver/options", ws_driver_options, .summary = "Lists drivers, and what they need." },
    { "POST", V1 "/driver/select", ws_driver_select, .summary = "Chooses the driver of new sandboxes.", .flags = WS_NEEDS_BODY,
      .keys = ws_driver_keys },
    { "GET", V1 "/driver/preference", ws_driver_preference, .summary = "Tells which driver was chosen." },
    { "GET", V1 "/driver/bwrap", ws_driver_bwrap, .summary = "Tells whether bubblewrap is there." },
    { "GET", V1 "/validate-path", ws_validate_path, .summary = "Tells whether a sandbox could be over a path." },

    /* life */
    { "POST", V1 "/sandboxes", ws_create, .summary = "Makes a sandbox over a live directory.", .flags = WS_NEEDS_BODY,
      .keys = ws_create_keys },
    { "GET", V1 "/sandboxes", ws_list, .summary = "Lists sandboxes, the newest first." },
    { "GET", ONE, ws_get, .summary = "Tells about a sandbox." },
    { "DELETE", ONE, ws_delete, .summary = "Deletes a sandbox; its changes stay in the trash for a while.", .flags = WS_BODY,
      .keys = ws_delete_keys },
    { "POST", ONE "/restore", ws_restore, .summary = "Brings a deleted, rejected or approved sandbox back.", .flags = WS_BODY,
      .keys = ws_decide_keys },
    { "POST", ONE "/stop", ws_stop, .summary = "Stops a sandbox; its changes stay.", .flags = WS_BODY, .keys = ws_step_keys },
    { "POST", ONE "/start", ws_start, .summary = "Starts a stopped sandbox.", .flags = WS_BODY, .keys = ws_step_keys },
    { "GET", ONE "/workspace", ws_workspace, .summary = "Tells which directory of the host has a sandbox's files." },
    { "GET", ONE "/audit", ws_audit_one, .summary = "What happened to a sandbox, the newest first." },
    { "POST", V1 "/gc", ws_gc, .summary = "Collects sandboxes that nobody needs.", .flags = WS_BODY, .keys = ws_gc_keys },
    { "POST", V1 "/gc/preview", ws_gc_preview, .summary = "Tells what would be collected.", .flags = WS_BODY,
      .keys = ws_gc_keys },

    /* commands, processes, logs, terminals, files */
    { "POST", ONE "/exec", ws_exec, "Runs a command and waits for its end.", .flags = WS_NEEDS_BODY, .keys = ws_command_keys },
    { "POST", ONE "/processes", ws_process_start, "Starts a process in the background.", .flags = WS_NEEDS_BODY,
      .keys = ws_command_keys },
    { "POST", ONE "/start-process", ws_process_start, "Starts a process in the background.", .flags = WS_NEEDS_BODY,
      .keys = ws_command_keys },
    { "GET", ONE "/processes", ws_process_list, "Lists the processes in the background.", .flags = 0 },
    { "DELETE", ONE "/processes", ws_process_end_all, "Ends all processes in the background.", .flags = 0 },
    { "POST", ONE "/processes/kill-all", ws_process_end_all, "Ends all processes in the background.", .flags = WS_BODY,
      .keys = ws_process_end_keys },
    { "DELETE", ONE "/processes/{pid}", ws_process_end, "Ends a process.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs", ws_log_read, "What a process printed.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs/stream", ws_log_follow, "What a process prints, as events.", .flags = 0,
      .answer = WEB_ANSWER_EVENTS },
    { "GET", ONE "/logs", ws_log_list, "Lists the logs of processes.", .flags = 0 },
    { "GET", ONE "/exec-interactive", ws_terminal, "A terminal, over a WebSocket.", .flags = 0 },
    { "GET", ONE "/files", ws_file_list, "Lists a directory.", .flags = 0 },
    { "GET", ONE "/files/content", ws_file_read, "A file, as JSON.", .flags = 0 },
    { "PUT", ONE "/files/content", ws_file_write, "Makes a file, or replaces it.", .flags = WS_NEEDS_BODY,
      .keys = ws_file_write_keys, .body_max = (size_t) 16 << 20 },
    { "DELETE", ONE "/files/content", ws_file_delete, "Deletes a file, or a directory.", .flags = 0 },
    { "POST", ONE "/files/mkdir", ws_file_mkdir, "Makes a directory, and those above it.", .flags = WS_NEEDS_BODY,
      .keys = ws_file_mkdir_keys },
    { "GET", ONE "/files/download", ws_file_download, "A file, as it is.", .flags = 0, .answer = WEB_ANSWER_BYTES },
    { "GET", V1 "/stats/processes", ws_process_stats, "How many processes there are.", .flags = 0 },
    { "GET", V1 "/config/execution", ws_execution_get, "Limits of commands, and the default profile.", .flags = 0 },
    { "PUT", V1 "/config/execution", ws_execution_put, "Replaces these.", .flags = WS_NEEDS_BODY, .keys = ws_execution_keys },
    { "GET", V1 "/config/profiles", ws_profile_list, "Lists the isolation profiles.", .flags = 0 },
    { "GET", V1 "/config/profiles/{profile}", ws_profile_get, "One of them.", .flags = 0 },
    { "PUT", V1 "/config/profiles/{profile}", ws_profile_put, "Makes one, or replaces it.", .flags = WS_NEEDS_BODY,
      .keys = ws_profile_keys },
    { "DELETE", V1 "/config/profiles/{profile}", ws_profile_delete, "Removes one.", .flags = 0 },

    /* review */
    { "GET", ONE "/diff", ws_diff, "What the agent changed, as JSON or as a patch.", .flags = 0, .answer = WEB_ANSWER_BYTES },
    { "POST", ONE "/diff/shown", ws_diff_shown, "Tells which changes somebody was shown.", .flags = WS_NEEDS_BODY,
      .keys = ws_diff_shown_keys },
    { "POST", ONE "/approve", ws_approve, "Applies changes to the project.", .flags = WS_BODY, .keys = ws_approve_keys },
    { "POST", ONE "/partial-approve", ws_partial_approve, "Applies some changes to the project.", .flags = WS_NEEDS_BODY,
      .keys = ws_approve_keys },
    { "POST", ONE "/reject", ws_reject, "Ends a sandbox, and applies nothing.", .flags = WS_BODY, .keys = ws_decide_keys },
    { "POST", ONE "/finish", ws_finish, "Tells that the work in it is over; decides what needs no person.", .flags = WS_BODY,
      .keys = ws_finish_keys },
    { "POST", ONE "/discard", ws_discard, "Gives up changes of files.", .flags = WS_NEEDS_BODY, .keys = ws_discard_keys },
    { "GET", ONE "/conflicts", ws_conflicts, "How the changes stand to the project as it is now.", .flags = 0 },
    { "POST", ONE "/rebase", ws_rebase, "Brings the changes onto the project as it is now.", .flags = WS_BODY,
      .keys = ws_rebase_keys },
    { "POST", ONE "/undo", ws_undo, "Takes an approval back.", .flags = WS_BODY, .keys = ws_undo_keys },
    { "GET", V1 "/pending", ws_pending, "What was applied and is not committed.", .flags = 0 },
    { "GET", V1 "/provenance", ws_provenance, "Which sandboxes changed a file.", .flags = 0 },
    { "GET", V1 "/commit-preview", ws_commit_preview, "What a commit would contain.", .flags = 0 },
    { "POST", V1 "/commit-preview", ws_commit_preview, "What a commit would contain.", .flags = WS_BODY,
      .keys = ws_commit_keys },
    { "POST", V1 "/commit-pending", ws_commit_pending, "Commits what was applied.", .flags = WS_BODY, .keys = ws_commit_keys },
};

const struct web_table *ws_routes_make(struct api *api)
{
    static struct web_route list[ARRAY_LEN(routes)];
    static struct web_table table;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        assert(routes[i].keys || !(routes[i].flags & (WS_BODY | WS_NEEDS_BODY)));
        list[i] = (struct web_route){
            .verb = routes[i].verb,
            .path = routes[i].path,
            .run = ws_run,
            .answer = routes[i].answer,
            .has_body = routes[i].flags & (WS_BODY | WS_NEEDS_BODY | WS_RAW_BODY),
            .body_max = routes[i].body_max,
            .summary = routes[i].summary,
            .detail = &routes[i],
        };
    }
    table = (struct web_table){ .routes = list, .count = ARRAY_LEN(list), .cookie = api };
    return &table;
}
