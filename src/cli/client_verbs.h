/* The verbs of agentfense-client. Each takes argv with its name first, and returns the exit code. */
#pragma once

int cmd_codebase(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_rules(int argc, char **argv);
int cmd_session(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stop(int argc, char **argv);
