/* The verbs of agentfense-client. Each takes argv with its name first, and returns the exit code. */
#pragma once

int cmd_apply(int argc, char **argv);
int cmd_approve(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_codebase(int argc, char **argv);
int cmd_commit(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_conflicts(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_create_workspace(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_discard(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_finish(int argc, char **argv);
int cmd_gc(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_pending(int argc, char **argv);
int cmd_processes(int argc, char **argv);
int cmd_provenance(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_rebase(int argc, char **argv);
int cmd_reject(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_rules(int argc, char **argv);
int cmd_session(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_undo(int argc, char **argv);
int cmd_workspace_sandbox(int argc, char **argv);
