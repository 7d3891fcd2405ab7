/*
 * What the cgroup of a sandbox is called: its name, after a mark of the home it lives in ("4f1c09ab-shop-x3kf"). There may be
 * several homes on one host with sandboxes of the same name, and all their cgroups lie in one directory: whoever removes what
 * was left behind must not end what another home runs.
 */
#pragma once

#include <stddef.h>

#include "wire/sandbox_spec.h"

#define CGROUP_NAME_MARK 9 /* characters */
#define CGROUP_NAME_MAX (CGROUP_NAME_MARK + SANDBOX_NAME_MAX)

/* `state_dir_path` is the directory in which the sandboxes' directories are. */
void cgroup_name_make(const char *state_dir_path, const char *sandbox, char out[CGROUP_NAME_MAX]);

/* The sandbox's name in it when it is one of this home's, NULL otherwise. */
const char *cgroup_name_sandbox(const char *state_dir_path, const char *name);
