/*
 * The name of a sandbox's cgroup: a mark of the state directory, then the name of the sandbox's directory
 * ("4f1c09ab-sb_0123456789abcdef"). A host may have several state directories, and their cgroups share one parent: the mark
 * keeps a sweep from ending the sandboxes of another state directory.
 */
#pragma once

#include <stddef.h>

#include "wire/sandbox_spec.h"

#define CGROUP_NAME_MARK 9 /* characters */
#define CGROUP_NAME_MAX (CGROUP_NAME_MARK + SANDBOX_NAME_MAX)

/* `state_dir_path` is the directory that contains the sandboxes' directories. */
void cgroup_name_make(const char *state_dir_path, const char *sandbox, char out[CGROUP_NAME_MAX]);

/* Returns the name of the sandbox's directory if the cgroup belongs to this state directory, otherwise NULL. */
const char *cgroup_name_sandbox(const char *state_dir_path, const char *name);
