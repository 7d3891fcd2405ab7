/* Handlers of the workspace routes, by the file that they are in. */
#pragma once

#include "api/compat_workspace_call.h"

/* compat_workspace_about.c */
int compat_about(struct ws *ws, struct err *err);

/* compat_workspace_sandbox.c */
extern const char *const compat_create_keys[];
extern const char *const compat_step_keys[];
extern const char *const compat_delete_keys[];
int compat_create(struct ws *ws, struct err *err);
int compat_list(struct ws *ws, struct err *err);
int compat_get(struct ws *ws, struct err *err);
int compat_delete(struct ws *ws, struct err *err);
int compat_restore(struct ws *ws, struct err *err);
int compat_stop(struct ws *ws, struct err *err);
int compat_start(struct ws *ws, struct err *err);
int compat_workspace(struct ws *ws, struct err *err);
int compat_validate_path(struct ws *ws, struct err *err);

/* compat_gc.c */
extern const char *const compat_gc_keys[];
int compat_gc(struct ws *ws, struct err *err);
int compat_gc_preview(struct ws *ws, struct err *err);

/* compat_workspace_status.c */
int compat_health(struct ws *ws, struct err *err);
int compat_stats(struct ws *ws, struct err *err);
int compat_metrics(struct ws *ws, struct err *err);
int compat_audit(struct ws *ws, struct err *err);
int compat_audit_one(struct ws *ws, struct err *err);

/* compat_workspace_driver.c */
extern const char *const compat_driver_keys[];
int compat_driver_info(struct ws *ws, struct err *err);
int compat_driver_options(struct ws *ws, struct err *err);
int compat_driver_select(struct ws *ws, struct err *err);
int compat_driver_preference(struct ws *ws, struct err *err);
int compat_driver_bwrap(struct ws *ws, struct err *err);

/* compat_workspace_command.c */
extern const char *const compat_command_keys[];

/* compat_workspace_exec.c */
int compat_exec(struct ws *ws, struct err *err);

/* compat_workspace_process.c */
extern const char *const compat_process_end_keys[];
int compat_process_start(struct ws *ws, struct err *err);
int compat_process_list(struct ws *ws, struct err *err);
int compat_process_end(struct ws *ws, struct err *err);
int compat_process_end_all(struct ws *ws, struct err *err);
int compat_process_stats(struct ws *ws, struct err *err);
int compat_log_list(struct ws *ws, struct err *err);
int compat_log_read(struct ws *ws, struct err *err);
int compat_log_follow(struct ws *ws, struct err *err);

/* compat_workspace_terminal.c */
int compat_terminal(struct ws *ws, struct err *err);

/* compat_workspace_files.c */
extern const char *const compat_file_write_keys[];
extern const char *const compat_file_mkdir_keys[];
int compat_file_list(struct ws *ws, struct err *err);
int compat_file_read(struct ws *ws, struct err *err);
int compat_file_write(struct ws *ws, struct err *err);
int compat_file_delete(struct ws *ws, struct err *err);
int compat_file_mkdir(struct ws *ws, struct err *err);
int compat_file_download(struct ws *ws, struct err *err);

/* compat_workspace_execution.c */
extern const char *const compat_execution_keys[];
extern const char *const compat_profile_keys[];
int compat_profile_list(struct ws *ws, struct err *err);
int compat_profile_get(struct ws *ws, struct err *err);
int compat_profile_put(struct ws *ws, struct err *err);
int compat_profile_delete(struct ws *ws, struct err *err);
int compat_execution_get(struct ws *ws, struct err *err);
int compat_execution_put(struct ws *ws, struct err *err);

/* compat_workspace_review_diff.c */
extern const char *const compat_diff_shown_keys[];
int compat_diff(struct ws *ws, struct err *err);
int compat_diff_shown(struct ws *ws, struct err *err);

/* compat_workspace_review_approve.c */
extern const char *const compat_approve_keys[];
int compat_approve(struct ws *ws, struct err *err);
int compat_partial_approve(struct ws *ws, struct err *err);

/* compat_workspace_review.c */
extern const char *const compat_decide_keys[],
    *const compat_finish_keys[], *const compat_discard_keys[], *const compat_rebase_keys[], *const compat_undo_keys[];
int compat_reject(struct ws *ws, struct err *err);
int compat_finish(struct ws *ws, struct err *err);
int compat_discard(struct ws *ws, struct err *err);
int compat_conflicts(struct ws *ws, struct err *err);
int compat_rebase(struct ws *ws, struct err *err);
int compat_undo(struct ws *ws, struct err *err);

/* compat_workspace_review_commit.c */
extern const char *const compat_commit_keys[];
int compat_pending(struct ws *ws, struct err *err);
int compat_provenance(struct ws *ws, struct err *err);
int compat_commit_preview(struct ws *ws, struct err *err);
int compat_commit_pending(struct ws *ws, struct err *err);
