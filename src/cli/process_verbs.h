/* Verbs of 'agentfense process' that other files implement or use. */
#pragma once

#include "cli/api_verb.h"

extern const struct api_verb process_start_verb; /* cmd_exec.c */

/* Prints the output of a background process of sandbox `id`: the last `tail` lines, or all for -1. With `follows` it goes on until the process
 * ends. */
int process_show_log(struct api_call *call, const char *id, const char *process, int64_t tail, bool follows, struct err *err);
