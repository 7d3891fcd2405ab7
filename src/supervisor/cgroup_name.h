/*
 * What the cgroup of a sandbox is called: what its directory is called, after a mark of the directory that one lies in
 * ("4f1c09ab-sb_0123456789abcdef"). There may be several state directories on one host, and all their cgroups lie in one directory: whoever
 * removes what was left behind must not end what runs in another state directory.
 */
#pragma once

#include <stddef.h>

#include "wire/sandbox_spec.h"

#define CGROUP_NAME_MARK 9 /* characters */
#define CGROUP_NAME_MAX (CGROUP_NAME_MARK + SANDBOX_NAME_MAX)

/* `state_dir_path` is the directory in which the sandboxes' directories are. */
void cgroup_name_make(const char *state_dir_path, const char *sandbox, char out[CGROUP_NAME_MAX]);

/* What the sandbox's directory is called when it is one of this state directory, NULL otherwise. */
const char *cgroup_name_sandbox(const char *state_dir_path, const char *name);
