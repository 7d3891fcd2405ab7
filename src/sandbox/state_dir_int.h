#pragma once

#include "sandbox/state_dir.h"

int state_dir_refuse_name(const char *name, struct err *err);

/* The directory of exactly this name. -ENOTDIR for a link too. */
int state_dir_open_sandbox(const struct state_dir *state_dir, const char *name);

/* Makes the directory `names`, if it is not there. */
int state_dir_make_names(struct state_dir *state_dir, struct err *err);
