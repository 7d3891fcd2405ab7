/*
 * The handlers of the methods. Each parses the request, calls the module service and makes the answer. They know neither gRPC nor HTTP (see
 * call/call.h).
 */
#pragma once

#include "api/request.h"

/* For methods with one request; request_run() calls them. A handler with a stream of answers sends them itself. */
typedef int request_handler(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err);
request_handler handle_create_sandbox, handle_get_sandbox, handle_list_sandboxes, handle_start_sandbox, handle_stop_sandbox,
    handle_destroy_sandbox, handle_exec, handle_exec_stream, handle_create_session, handle_list_sessions, handle_get_session,
    handle_destroy_session, handle_session_exec, handle_session_exec_stream, handle_update_permissions,
    handle_explain_permission, handle_add_permission_rules, handle_remove_permission_rules, handle_preview_permissions,
    handle_lint_permissions, handle_list_events, handle_create_codebase, handle_get_codebase, handle_list_codebases,
    handle_delete_codebase, handle_download_file, handle_list_files, handle_delete_file, handle_download_archive,
    handle_list_versions, handle_restore_version, handle_stat_file, handle_list_directory, handle_read_file,
    handle_make_directory, handle_remove_file, handle_rename_file, handle_search_files, handle_start_process,
    handle_list_processes, handle_get_process, handle_kill_process, handle_kill_all_processes, handle_read_process_log,
    handle_follow_process_log, handle_get_diff, handle_stream_diff, handle_download_patch, handle_mark_diff_shown,
    handle_approve, handle_reject, handle_discard, handle_undo_approval, handle_list_approvals, handle_get_conflicts,
    handle_rebase, handle_finish_sandbox, handle_restore_sandbox, handle_list_pending, handle_list_provenance,
    handle_preview_commit, handle_commit_changes, handle_add_review_comment, handle_list_review_comments,
    handle_resolve_review_comment, handle_delete_review_comment, handle_get_retention, handle_collect, handle_get_disk_use,
    handle_list_reservations, handle_check_reservation, handle_get_server_status, handle_list_drivers, handle_select_driver,
    handle_get_execution_config, handle_set_execution_config, handle_list_profiles, handle_get_profile, handle_put_profile,
    handle_delete_profile;

/* For methods that receive their requests themselves. The cookie is a struct api. */
typedef int call_handler(struct call *call, void *cookie, struct err *err);
call_handler handle_upload_files, handle_upload_archive, handle_write_file, handle_open_terminal;
