#include "api/methods.h"

#include "api/handlers.h"
#include "base/mem.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/file.pb-c.h>
#include <sandbox/v1/process.pb-c.h>
#include <sandbox/v1/reservation.pb-c.h>
#include <sandbox/v1/retention.pb-c.h>
#include <sandbox/v1/review.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>
#include <sandbox/v1/server.pb-c.h>
#include <sandbox/v1/terminal.pb-c.h>

#define SANDBOXES "sandbox.v1.SandboxService"
#define CODEBASES "sandbox.v1.CodebaseService"
#define FILES "sandbox.v1.FileService"
#define PROCESSES "sandbox.v1.ProcessService"
#define REVIEWS "sandbox.v1.ReviewService"
#define TERMINALS "sandbox.v1.TerminalService"
#define RETENTION "sandbox.v1.RetentionService"
#define RESERVATIONS "sandbox.v1.ReservationService"
#define SERVER "sandbox.v1.ServerService"

#define ROUTE(verb, path, body, answer)                                                                                        \
    {                                                                                                                          \
        verb, path, METHOD_BODY_##body, METHOD_ANSWER_##answer                                                                 \
    }
#define GET(path) ROUTE("GET", path, NONE, JSON)
#define DELETE(path) ROUTE("DELETE", path, NONE, JSON)
#define POST(path) ROUTE("POST", path, JSON, JSON)
#define STEP(path) ROUTE("POST", path, NONE, JSON)
#define PUT(path) ROUTE("PUT", path, JSON, JSON)

/* `in` and `out` are messages by the names that protoc-c gives them. */
#define METHOD(service, name, flags, in, out, run, serve, summary, ...)                                                        \
    {                                                                                                                          \
        service, name, flags, &sandbox__v1__##in##__descriptor, &sandbox__v1__##out##__descriptor, run, { __VA_ARGS__ },       \
            summary, serve                                                                                                     \
    }
/* ONE: the handler gets the single request. MANY: the handler receives the requests itself. */
#define ONE(service, name, flags, in, out, handler, ...)                                                                       \
    METHOD(service, name, flags, in, out, request_run, handler, __VA_ARGS__)
#define MANY(service, name, flags, in, out, handler, ...) METHOD(service, name, flags, in, out, handler, NULL, __VA_ARGS__)

static const struct method methods[] = {
    ONE(SANDBOXES, "CreateSandbox", 0, create_sandbox_request, sandbox, handle_create_sandbox,
        "Makes a sandbox over a codebase or a directory.", POST("/v1/sandboxes")),
    ONE(SANDBOXES, "GetSandbox", 0, get_sandbox_request, sandbox, handle_get_sandbox, "Shows a sandbox.",
        GET("/v1/sandboxes/{sandbox_id}")),
    ONE(SANDBOXES, "ListSandboxes", 0, list_sandboxes_request, list_sandboxes_response, handle_list_sandboxes,
        "Lists sandboxes.", GET("/v1/sandboxes")),
    ONE(SANDBOXES, "StartSandbox", 0, start_sandbox_request, sandbox, handle_start_sandbox, "Starts a sandbox.",
        STEP("/v1/sandboxes/{sandbox_id}/start")),
    ONE(SANDBOXES, "StopSandbox", 0, stop_sandbox_request, sandbox, handle_stop_sandbox, "Stops a sandbox; its changes stay.",
        STEP("/v1/sandboxes/{sandbox_id}/stop")),
    ONE(SANDBOXES, "DestroySandbox", 0, destroy_sandbox_request, empty, handle_destroy_sandbox,
        "Removes a sandbox with its changes.", DELETE("/v1/sandboxes/{sandbox_id}")),
    ONE(SANDBOXES, "Exec", METHOD_LASTS, exec_request, exec_result, handle_exec, "Runs a command and waits for its end.",
        POST("/v1/sandboxes/{sandbox_id}/exec")),
    ONE(SANDBOXES, "ExecStream", METHOD_SERVER_STREAMS, exec_request, exec_output, handle_exec_stream,
        "Runs a command and sends its output as it comes.",
        ROUTE("POST", "/v1/sandboxes/{sandbox_id}/exec/stream", JSON, EVENTS)),
    ONE(SANDBOXES, "CreateSession", 0, create_session_request, session, handle_create_session, "Opens a shell that remembers.",
        POST("/v1/sandboxes/{sandbox_id}/sessions")),
    ONE(SANDBOXES, "ListSessions", 0, list_sessions_request, list_sessions_response, handle_list_sessions,
        "Lists the sessions of a sandbox.", GET("/v1/sandboxes/{sandbox_id}/sessions")),
    ONE(SANDBOXES, "GetSession", 0, get_session_request, session, handle_get_session, "Shows a session.",
        GET("/v1/sessions/{session_id}")),
    ONE(SANDBOXES, "DestroySession", 0, destroy_session_request, empty, handle_destroy_session, "Closes a session.",
        DELETE("/v1/sessions/{session_id}")),
    ONE(SANDBOXES, "SessionExec", METHOD_LASTS, session_exec_request, exec_result, handle_session_exec,
        "Runs a command in a session.", POST("/v1/sessions/{session_id}/exec")),
    ONE(SANDBOXES, "SessionExecStream", METHOD_SERVER_STREAMS, session_exec_request, exec_output, handle_session_exec_stream,
        "Runs a command in a session and sends its output as it comes.",
        ROUTE("POST", "/v1/sessions/{session_id}/exec/stream", JSON, EVENTS)),
    ONE(SANDBOXES, "UpdatePermissions", 0, update_permissions_request, sandbox, handle_update_permissions,
        "Replaces the rules of a sandbox, also of one that runs.", PUT("/v1/sandboxes/{sandbox_id}/permissions")),
    ONE(SANDBOXES, "ExplainPermission", 0, explain_permission_request, explain_permission_response, handle_explain_permission,
        "Shows which rule decides about a path, and why.", GET("/v1/sandboxes/{sandbox_id}/permissions/explain")),
    ONE(SANDBOXES, "AddPermissionRules", 0, add_permission_rules_request, sandbox, handle_add_permission_rules,
        "Adds rules to those of a sandbox, also of one that runs.", POST("/v1/sandboxes/{sandbox_id}/permissions/add")),
    ONE(SANDBOXES, "RemovePermissionRules", 0, remove_permission_rules_request, sandbox, handle_remove_permission_rules,
        "Removes rules from a sandbox, also from a running one.", POST("/v1/sandboxes/{sandbox_id}/permissions/remove")),
    ONE(SANDBOXES, "PreviewPermissions", METHOD_LASTS, preview_permissions_request, preview_permissions_response,
        handle_preview_permissions, "Shows what other rules of a sandbox would mean, and changes nothing.",
        POST("/v1/sandboxes/{sandbox_id}/permissions/preview")),
    ONE(SANDBOXES, "LintPermissions", METHOD_LASTS, lint_permissions_request, lint_permissions_response,
        handle_lint_permissions, "Shows what is odd about rules.", GET("/v1/sandboxes/{sandbox_id}/permissions/lint"),
        POST("/v1/permissions/lint")),
    ONE(SANDBOXES, "ListEvents", 0, list_events_request, list_events_response, handle_list_events, "Lists what happened.",
        GET("/v1/events"), GET("/v1/sandboxes/{sandbox_id}/events")),
    ONE(CODEBASES, "CreateCodebase", 0, create_codebase_request, codebase, handle_create_codebase, "Makes an empty codebase.",
        POST("/v1/codebases")),
    ONE(CODEBASES, "GetCodebase", 0, get_codebase_request, codebase, handle_get_codebase, "Shows a codebase.",
        GET("/v1/codebases/{codebase_id}")),
    ONE(CODEBASES, "ListCodebases", 0, list_codebases_request, list_codebases_response, handle_list_codebases,
        "Lists codebases.", GET("/v1/codebases")),
    ONE(CODEBASES, "DeleteCodebase", 0, delete_codebase_request, empty, handle_delete_codebase, "Removes a codebase.",
        DELETE("/v1/codebases/{codebase_id}")),
    MANY(CODEBASES, "UploadFiles", METHOD_CLIENT_STREAMS, upload_chunk, upload_result, handle_upload_files,
         "Puts a file into a codebase.", ROUTE("PUT", "/v1/codebases/{codebase_id}/files/{file_path=**}", BYTES, JSON),
         ROUTE("POST", "/v1/codebases/{codebase_id}/files", BYTES, JSON)),
    ONE(CODEBASES, "DownloadFile", METHOD_SERVER_STREAMS, download_file_request, file_chunk, handle_download_file,
        "Gets a file of a codebase.", ROUTE("GET", "/v1/codebases/{codebase_id}/files/{file_path=**}", NONE, BYTES)),
    ONE(CODEBASES, "ListFiles", 0, list_files_request, list_files_response, handle_list_files, "Lists files of a codebase.",
        GET("/v1/codebases/{codebase_id}/files")),
    ONE(CODEBASES, "DeleteFile", 0, delete_file_request, codebase, handle_delete_file,
        "Removes a file or directory from a codebase.", DELETE("/v1/codebases/{codebase_id}/files/{file_path=**}")),
    MANY(CODEBASES, "UploadArchive", METHOD_CLIENT_STREAMS, archive_chunk, upload_archive_result, handle_upload_archive,
         "Puts all files of a tar archive into a codebase, at once.",
         ROUTE("PUT", "/v1/codebases/{codebase_id}/archive", BYTES, JSON),
         ROUTE("POST", "/v1/codebases/{codebase_id}/archive", BYTES, JSON)),
    ONE(CODEBASES, "DownloadArchive", METHOD_SERVER_STREAMS, download_archive_request, file_chunk, handle_download_archive,
        "Gets a codebase as a tar archive.", ROUTE("GET", "/v1/codebases/{codebase_id}/archive", NONE, BYTES)),
    ONE(CODEBASES, "ListVersions", 0, list_versions_request, list_versions_response, handle_list_versions,
        "Lists the versions of a codebase.", GET("/v1/codebases/{codebase_id}/versions")),
    ONE(CODEBASES, "RestoreVersion", 0, restore_version_request, version, handle_restore_version,
        "Makes a codebase, or a path in it, what it was.", POST("/v1/codebases/{codebase_id}/versions/{version}/restore")),
    ONE(FILES, "StatFile", 0, stat_file_request, file_stat, handle_stat_file, "Shows what a path of a running sandbox is.",
        GET("/v1/sandboxes/{sandbox_id}/stat")),
    ONE(FILES, "ListDirectory", 0, list_directory_request, list_directory_response, handle_list_directory,
        "Lists a directory of a running sandbox.", GET("/v1/sandboxes/{sandbox_id}/files")),
    ONE(FILES, "ReadFile", METHOD_SERVER_STREAMS, read_file_request, read_file_chunk, handle_read_file,
        "Gets a file of a running sandbox, or a part of it.",
        ROUTE("GET", "/v1/sandboxes/{sandbox_id}/files/{path=**}", NONE, BYTES)),
    MANY(FILES, "WriteFile", METHOD_CLIENT_STREAMS, write_file_chunk, write_file_result, handle_write_file,
         "Puts a file into a running sandbox, whole or not at all.",
         ROUTE("PUT", "/v1/sandboxes/{sandbox_id}/files/{path=**}", BYTES, JSON),
         ROUTE("POST", "/v1/sandboxes/{sandbox_id}/files", BYTES, JSON)),
    ONE(FILES, "MakeDirectory", 0, make_directory_request, file_stat, handle_make_directory,
        "Makes a directory in a running sandbox, and those above it.", POST("/v1/sandboxes/{sandbox_id}/mkdir")),
    ONE(FILES, "RemoveFile", 0, remove_file_request, empty, handle_remove_file,
        "Removes a file or directory of a running sandbox.", DELETE("/v1/sandboxes/{sandbox_id}/files/{path=**}")),
    ONE(FILES, "RenameFile", 0, rename_file_request, file_stat, handle_rename_file,
        "Gives a file or directory of a running sandbox another path.", POST("/v1/sandboxes/{sandbox_id}/rename")),
    ONE(FILES, "SearchFiles", METHOD_LASTS, search_files_request, search_files_response, handle_search_files,
        "Searches names, or lines of text, in a running sandbox.", GET("/v1/sandboxes/{sandbox_id}/search"),
        POST("/v1/sandboxes/{sandbox_id}/search")),
    ONE(PROCESSES, "StartProcess", 0, start_process_request, process, handle_start_process,
        "Starts a process in the background.", POST("/v1/sandboxes/{sandbox_id}/processes")),
    ONE(PROCESSES, "ListProcesses", 0, list_processes_request, list_processes_response, handle_list_processes,
        "Lists the processes in the background, also those that have ended.", GET("/v1/sandboxes/{sandbox_id}/processes")),
    ONE(PROCESSES, "GetProcess", 0, get_process_request, process, handle_get_process, "Shows a process in the background.",
        GET("/v1/sandboxes/{sandbox_id}/processes/{process_id}")),
    ONE(PROCESSES, "KillProcess", METHOD_LASTS, kill_process_request, process, handle_kill_process,
        "Kills a process in the background, with all that it started.",
        DELETE("/v1/sandboxes/{sandbox_id}/processes/{process_id}")),
    ONE(PROCESSES, "KillAllProcesses", METHOD_LASTS, kill_all_processes_request, kill_all_processes_response,
        handle_kill_all_processes, "Kills all processes in the background.", DELETE("/v1/sandboxes/{sandbox_id}/processes")),
    ONE(PROCESSES, "ReadProcessLog", 0, read_process_log_request, read_process_log_response, handle_read_process_log,
        "Reads what a process in the background has printed.", GET("/v1/sandboxes/{sandbox_id}/processes/{process_id}/log")),
    ONE(PROCESSES, "FollowProcessLog", METHOD_SERVER_STREAMS, follow_process_log_request, process_log_chunk,
        handle_follow_process_log, "Sends what a process in the background prints, as it comes.",
        ROUTE("GET", "/v1/sandboxes/{sandbox_id}/processes/{process_id}/log/stream", NONE, EVENTS)),
    ONE(REVIEWS, "GetDiff", 0, get_diff_request, diff, handle_get_diff, "Shows what a sandbox changed, page by page.",
        GET("/v1/sandboxes/{sandbox_id}/diff")),
    ONE(REVIEWS, "StreamDiff", METHOD_SERVER_STREAMS, stream_diff_request, diff_chunk, handle_stream_diff,
        "Sends all that a sandbox changed, file by file.",
        ROUTE("GET", "/v1/sandboxes/{sandbox_id}/diff/stream", NONE, EVENTS)),
    ONE(REVIEWS, "DownloadPatch", METHOD_SERVER_STREAMS, download_patch_request, file_chunk, handle_download_patch,
        "Gets what a sandbox changed as a patch, or as text.",
        ROUTE("GET", "/v1/sandboxes/{sandbox_id}/diff/patch", NONE, BYTES)),
    ONE(REVIEWS, "MarkDiffShown", METHOD_STRICT, mark_diff_shown_request, mark_diff_shown_response, handle_mark_diff_shown,
        "Notes which changes somebody was shown.", POST("/v1/sandboxes/{sandbox_id}/diff/shown")),
    ONE(REVIEWS, "Approve", METHOD_STRICT | METHOD_LASTS, approve_request, approve_response, handle_approve,
        "Applies changes of a sandbox to its project, all that are chosen or none.",
        POST("/v1/sandboxes/{sandbox_id}/approve")),
    ONE(REVIEWS, "Reject", METHOD_STRICT, reject_request, sandbox, handle_reject,
        "Decides that no change of a sandbox is applied, and stops it.", POST("/v1/sandboxes/{sandbox_id}/reject")),
    ONE(REVIEWS, "Discard", METHOD_STRICT, discard_request, discard_response, handle_discard, "Discards changes of files.",
        POST("/v1/sandboxes/{sandbox_id}/discard")),
    ONE(REVIEWS, "UndoApproval", METHOD_STRICT, undo_approval_request, undo_approval_response, handle_undo_approval,
        "Gives the project back what it had before an approval.", POST("/v1/sandboxes/{sandbox_id}/undo")),
    ONE(REVIEWS, "ListApprovals", 0, list_approvals_request, list_approvals_response, handle_list_approvals,
        "Lists what was approved and undone of a sandbox.", GET("/v1/sandboxes/{sandbox_id}/approvals")),
    ONE(REVIEWS, "GetConflicts", 0, get_conflicts_request, get_conflicts_response, handle_get_conflicts,
        "Shows how the changes of a sandbox stand to the project as it is now.", GET("/v1/sandboxes/{sandbox_id}/conflicts")),
    ONE(REVIEWS, "Rebase", METHOD_STRICT, rebase_request, rebase_response, handle_rebase,
        "Rebases the changes of a sandbox onto the current project.", POST("/v1/sandboxes/{sandbox_id}/rebase")),
    ONE(REVIEWS, "FinishSandbox", METHOD_STRICT | METHOD_LASTS, finish_sandbox_request, finish_sandbox_response,
        handle_finish_sandbox, "Says that the work in a sandbox is over, and decides what needs no person.",
        POST("/v1/sandboxes/{sandbox_id}/finish")),
    ONE(REVIEWS, "RestoreSandbox", METHOD_STRICT, restore_sandbox_request, sandbox, handle_restore_sandbox,
        "Restores a deleted, rejected or approved sandbox.", POST("/v1/sandboxes/{sandbox_id}/restore")),
    ONE(REVIEWS, "ListPending", 0, list_pending_request, list_pending_response, handle_list_pending,
        "Lists what was applied and is not committed.", GET("/v1/pending")),
    ONE(REVIEWS, "ListProvenance", 0, list_provenance_request, list_provenance_response, handle_list_provenance,
        "Lists which sandboxes changed a file of a project.", GET("/v1/provenance")),
    ONE(REVIEWS, "PreviewCommit", 0, preview_commit_request, preview_commit_response, handle_preview_commit,
        "Shows what a commit of applied changes would contain.", POST("/v1/commit/preview")),
    ONE(REVIEWS, "CommitChanges", METHOD_STRICT, commit_changes_request, commit_changes_response, handle_commit_changes,
        "Commits applied changes to the repository of their project.", POST("/v1/commit")),
    ONE(REVIEWS, "AddReviewComment", METHOD_STRICT, add_review_comment_request, review_comment, handle_add_review_comment,
        "Comments on a changed file, or on a hunk or line of it.", POST("/v1/sandboxes/{sandbox_id}/comments")),
    ONE(REVIEWS, "ListReviewComments", 0, list_review_comments_request, list_review_comments_response,
        handle_list_review_comments, "Lists the comments on the changes of a sandbox.",
        GET("/v1/sandboxes/{sandbox_id}/comments")),
    ONE(REVIEWS, "ResolveReviewComment", METHOD_STRICT, resolve_review_comment_request, review_comment,
        handle_resolve_review_comment, "Resolves a comment, or opens it again.",
        POST("/v1/sandboxes/{sandbox_id}/comments/{comment_id}/resolve")),
    ONE(REVIEWS, "DeleteReviewComment", METHOD_STRICT, delete_review_comment_request, empty, handle_delete_review_comment,
        "Deletes a comment.", DELETE("/v1/sandboxes/{sandbox_id}/comments/{comment_id}")),
    MANY(TERMINALS, "OpenTerminal", METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS, terminal_input, terminal_output,
         handle_open_terminal, "Opens a terminal in a sandbox, or attaches to one.", { 0 }),
    ONE(RETENTION, "GetRetention", 0, get_retention_request, get_retention_response, handle_get_retention,
        "Shows how long sandboxes are kept.", GET("/v1/retention")),
    ONE(RETENTION, "Collect", METHOD_STRICT | METHOD_LASTS, collect_request, collect_response, handle_collect,
        "Deletes sandboxes that nobody needs, or shows which it would delete.", POST("/v1/collect")),
    ONE(RETENTION, "GetDiskUse", METHOD_LASTS, get_disk_use_request, get_disk_use_response, handle_get_disk_use,
        "Shows how much disk sandboxes use.", GET("/v1/disk"), GET("/v1/sandboxes/{sandbox_id}/disk")),
    ONE(RESERVATIONS, "ListReservations", 0, list_reservations_request, list_reservations_response, handle_list_reservations,
        "Lists the paths that sandboxes have reserved.", GET("/v1/reservations")),
    ONE(RESERVATIONS, "CheckReservation", 0, check_reservation_request, check_reservation_response, handle_check_reservation,
        "Checks whether a sandbox could be made over a directory.", GET("/v1/reservations/check"),
        POST("/v1/reservations/check")),
    ONE(SERVER, "GetServerStatus", 0, get_server_status_request, server_status, handle_get_server_status,
        "Shows how the server is, and what it has done.", GET("/v1/server")),
    ONE(SERVER, "ListDrivers", 0, list_drivers_request, list_drivers_response, handle_list_drivers,
        "Lists the drivers of sandboxes over directories.", GET("/v1/drivers")),
    ONE(SERVER, "SelectDriver", METHOD_STRICT, select_driver_request, list_drivers_response, handle_select_driver,
        "Chooses the driver of new sandboxes that name none.", PUT("/v1/drivers/selected")),
    ONE(SERVER, "GetExecutionConfig", 0, get_execution_config_request, execution_config, handle_get_execution_config,
        "Shows the limits of commands, and the default profile.", GET("/v1/execution")),
    ONE(SERVER, "SetExecutionConfig", METHOD_STRICT, set_execution_config_request, execution_config,
        handle_set_execution_config, "Replaces the limits of commands, and the default profile.", PUT("/v1/execution")),
    ONE(SERVER, "ListProfiles", 0, list_profiles_request, list_profiles_response, handle_list_profiles,
        "Lists the profiles by which sandboxes are confined.", GET("/v1/profiles")),
    ONE(SERVER, "GetProfile", 0, get_profile_request, profile, handle_get_profile, "Shows a profile.",
        GET("/v1/profiles/{profile_id}")),
    ONE(SERVER, "PutProfile", METHOD_STRICT, put_profile_request, profile, handle_put_profile,
        "Makes a profile, or replaces it.", PUT("/v1/profiles/{profile_id}")),
    ONE(SERVER, "DeleteProfile", METHOD_STRICT, delete_profile_request, empty, handle_delete_profile, "Removes a profile.",
        DELETE("/v1/profiles/{profile_id}")),
};

const struct method *api_methods(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(methods);
    return methods;
}
