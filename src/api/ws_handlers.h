/* Handlers of the workspace routes, by the file that they are in. */
#pragma once

#include "api/ws_call.h"

/* ws_about.c */
int ws_about(struct ws *ws, struct err *err);

/* ws_sandbox.c */
extern const char *const ws_create_keys[];
extern const char *const ws_step_keys[];
extern const char *const ws_delete_keys[];
int ws_create(struct ws *ws, struct err *err);
int ws_list(struct ws *ws, struct err *err);
int ws_get(struct ws *ws, struct err *err);
int ws_delete(struct ws *ws, struct err *err);
int ws_restore(struct ws *ws, struct err *err);
int ws_stop(struct ws *ws, struct err *err);
int ws_start(struct ws *ws, struct err *err);
int ws_workspace(struct ws *ws, struct err *err);
int ws_validate_path(struct ws *ws, struct err *err);

/* ws_gc.c */
extern const char *const ws_gc_keys[];
int ws_gc(struct ws *ws, struct err *err);
int ws_gc_preview(struct ws *ws, struct err *err);

/* ws_status.c */
int ws_health(struct ws *ws, struct err *err);
int ws_stats(struct ws *ws, struct err *err);
int ws_metrics(struct ws *ws, struct err *err);
int ws_audit(struct ws *ws, struct err *err);
int ws_audit_one(struct ws *ws, struct err *err);

/* ws_driver.c */
extern const char *const ws_driver_keys[];
int ws_driver_info(struct ws *ws, struct err *err);
int ws_driver_options(struct ws *ws, struct err *err);
int ws_driver_select(struct ws *ws, struct err *err);
int ws_driver_preference(struct ws *ws, struct err *err);
int ws_driver_bwrap(struct ws *ws, struct err *err);

/* ws_command.c */
extern const char *const ws_command_keys[];

/* ws_exec.c */
int ws_exec(struct ws *ws, struct err *err);

/* ws_process.c */
extern const char *const ws_process_end_keys[];
int ws_process_start(struct ws *ws, struct err *err);
int ws_process_list(struct ws *ws, struct err *err);
int ws_process_end(struct ws *ws, struct err *err);
int ws_process_end_all(struct ws *ws, struct err *err);
int ws_process_stats(struct ws *ws, struct err *err);
int ws_log_list(struct ws *ws, struct err *err);
int ws_log_read(struct ws *ws, struct err *err);
int ws_log_follow(struct ws *ws, struct err *err);

/* ws_terminal.c */
int ws_terminal(struct ws *ws, struct err *err);

/* ws_files.c */
extern const char *const ws_file_write_keys[];
extern const char *const ws_file_mkdir_keys[];
int ws_file_list(struct ws *ws, struct err *err);
int ws_file_read(struct ws *ws, struct err *err);
int ws_file_write(struct ws *ws, struct err *err);
int ws_file_delete(struct ws *ws, struct err *err);
int ws_file_mkdir(struct ws *ws, struct err *err);
int ws_file_download(struct ws *ws, struct err *err);

/* ws_execution.c */
extern const char *const ws_execution_keys[];
extern const char *const ws_profile_keys[];
int ws_profile_list(struct ws *ws, struct err *err);
int ws_profile_get(struct ws *ws, struct err *err);
int ws_profile_put(struct ws *ws, struct err *err);
int ws_profile_delete(struct ws *ws, struct err *err);
int ws_execution_get(struct ws *ws, struct err *err);
int ws_execution_put(struct ws *ws, struct err *err);

/* ws_review_diff.c */
extern const char *const ws_diff_shown_keys[];
int ws_diff(struct ws *ws, struct err *err);
int ws_diff_shown(struct ws *ws, struct err *err);

/* ws_review_approve.c */
extern const char *const ws_approve_keys[];
int ws_approve(struct ws *ws, struct err *err);
int ws_partial_approve(struct ws *ws, struct err *err);

/* ws_review.c */
extern const char *const ws_decide_keys[], *const ws_finish_keys[], *const ws_discard_keys[], *const ws_rebase_keys[],
                                                                                                  *const ws_undo_keys[];
int ws_reject(struct ws *ws, struct err *err);
int ws_finish(struct ws *ws, struct err *err);
int ws_discard(struct ws *ws, struct err *err);
int ws_conflicts(struct ws *ws, struct err *err);
int ws_rebase(struct ws *ws, struct err *err);
int ws_undo(struct ws *ws, struct err *err);

/* ws_review_commit.c */
extern const char *const ws_commit_keys[];
int ws_pending(struct ws *ws, struct err *err);
int ws_provenance(struct ws *ws, struct err *err);
int ws_commit_preview(struct ws *ws, struct err *err);
int ws_commit_pending(struct ws *ws, struct err *err);
