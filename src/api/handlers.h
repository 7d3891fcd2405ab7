/*
 * One handler for each method: takes the request apart, calls the module service, puts the answer together. They know neither gRPC nor
 * HTTP (see call/call.h); their cookie is a struct api.
 */
#pragma once

#include "call/call.h"

int handle_create_sandbox(struct call *call, void *cookie, struct err *err);
int handle_get_sandbox(struct call *call, void *cookie, struct err *err);
int handle_list_sandboxes(struct call *call, void *cookie, struct err *err);
int handle_start_sandbox(struct call *call, void *cookie, struct err *err);
int handle_stop_sandbox(struct call *call, void *cookie, struct err *err);
int handle_destroy_sandbox(struct call *call, void *cookie, struct err *err);
int handle_exec(struct call *call, void *cookie, struct err *err);
int handle_exec_stream(struct call *call, void *cookie, struct err *err);
int handle_create_session(struct call *call, void *cookie, struct err *err);
int handle_list_sessions(struct call *call, void *cookie, struct err *err);
int handle_get_session(struct call *call, void *cookie, struct err *err);
int handle_destroy_session(struct call *call, void *cookie, struct err *err);
int handle_session_exec(struct call *call, void *cookie, struct err *err);
int handle_session_exec_stream(struct call *call, void *cookie, struct err *err);
int handle_update_permissions(struct call *call, void *cookie, struct err *err);
int handle_explain_permission(struct call *call, void *cookie, struct err *err);
int handle_add_permission_rules(struct call *call, void *cookie, struct err *err);
int handle_remove_permission_rules(struct call *call, void *cookie, struct err *err);
int handle_preview_permissions(struct call *call, void *cookie, struct err *err);
int handle_lint_permissions(struct call *call, void *cookie, struct err *err);
int handle_list_events(struct call *call, void *cookie, struct err *err);
int handle_create_codebase(struct call *call, void *cookie, struct err *err);
int handle_get_codebase(struct call *call, void *cookie, struct err *err);
int handle_list_codebases(struct call *call, void *cookie, struct err *err);
int handle_delete_codebase(struct call *call, void *cookie, struct err *err);
int handle_upload_files(struct call *call, void *cookie, struct err *err);
int handle_download_file(struct call *call, void *cookie, struct err *err);
int handle_list_files(struct call *call, void *cookie, struct err *err);
int handle_delete_file(struct call *call, void *cookie, struct err *err);
int handle_upload_archive(struct call *call, void *cookie, struct err *err);
int handle_download_archive(struct call *call, void *cookie, struct err *err);
int handle_list_versions(struct call *call, void *cookie, struct err *err);
int handle_restore_version(struct call *call, void *cookie, struct err *err);
int handle_stat_file(struct call *call, void *cookie, struct err *err);
int handle_list_directory(struct call *call, void *cookie, struct err *err);
int handle_read_file(struct call *call, void *cookie, struct err *err);
int handle_write_file(struct call *call, void *cookie, struct err *err);
int handle_make_directory(struct call *call, void *cookie, struct err *err);
int handle_remove_file(struct call *call, void *cookie, struct err *err);
int handle_rename_file(struct call *call, void *cookie, struct err *err);
int handle_search_files(struct call *call, void *cookie, struct err *err);
int handle_start_process(struct call *call, void *cookie, struct err *err);
int handle_list_processes(struct call *call, void *cookie, struct err *err);
int handle_get_process(struct call *call, void *cookie, struct err *err);
int handle_kill_process(struct call *call, void *cookie, struct err *err);
int handle_kill_all_processes(struct call *call, void *cookie, struct err *err);
int handle_read_process_log(struct call *call, void *cookie, struct err *err);
int handle_follow_process_log(struct call *call, void *cookie, struct err *err);
int handle_get_diff(struct call *call, void *cookie, struct err *err);
int handle_stream_diff(struct call *call, void *cookie, struct err *err);
int handle_download_patch(struct call *call, void *cookie, struct err *err);
int handle_mark_diff_shown(struct call *call, void *cookie, struct err *err);
int handle_approve(struct call *call, void *cookie, struct err *err);
int handle_reject(struct call *call, void *cookie, struct err *err);
int handle_discard(struct call *call, void *cookie, struct err *err);
int handle_undo_approval(struct call *call, void *cookie, struct err *err);
int handle_list_approvals(struct call *call, void *cookie, struct err *err);
int handle_get_conflicts(struct call *call, void *cookie, struct err *err);
int handle_rebase(struct call *call, void *cookie, struct err *err);
int handle_finish_sandbox(struct call *call, void *cookie, struct err *err);
int handle_restore_sandbox(struct call *call, void *cookie, struct err *err);
int handle_list_pending(struct call *call, void *cookie, struct err *err);
int handle_list_provenance(struct call *call, void *cookie, struct err *err);
int handle_preview_commit(struct call *call, void *cookie, struct err *err);
int handle_commit_changes(struct call *call, void *cookie, struct err *err);
int handle_open_terminal(struct call *call, void *cookie, struct err *err);
int handle_get_retention(struct call *call, void *cookie, struct err *err);
int handle_collect(struct call *call, void *cookie, struct err *err);
int handle_get_disk_use(struct call *call, void *cookie, struct err *err);
int handle_list_reservations(struct call *call, void *cookie, struct err *err);
int handle_check_reservation(struct call *call, void *cookie, struct err *err);
int handle_get_server_status(struct call *call, void *cookie, struct err *err);
int handle_list_drivers(struct call *call, void *cookie, struct err *err);
int handle_select_driver(struct call *call, void *cookie, struct err *err);
int handle_get_execution_config(struct call *call, void *cookie, struct err *err);
int handle_set_execution_config(struct call *call, void *cookie, struct err *err);
int handle_list_profiles(struct call *call, void *cookie, struct err *err);
int handle_get_profile(struct call *call, void *cookie, struct err *err);
int handle_put_profile(struct call *call, void *cookie, struct err *err);
int handle_delete_profile(struct call *call, void *cookie, struct err *err);
