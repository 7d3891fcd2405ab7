#pragma once

#include "sandbox/state_dir.h"

int state_dir_refuse_name(const char *name, struct err *err);

/* Opens the directory of exactly this name. -ENOTDIR, also for a link. */
int state_dir_open_sandbox(const struct state_dir *state_dir, const char *name);

int state_dir_make_names(struct state_dir *state_dir, struct err *err);
