/*
 * What supervisors that were killed have left behind: processes of a bwrap killed at the worst moment, cgroups of sandboxes
 * that do not run, and on the host the mounts of those that were containers. Swept by a thread of its own when a sandbox has
 * started, so that nobody waits for it. Containers themselves are swept by agentfense-container, which can talk to an engine.
 */
#pragma once

/* `dir_path` is the directory of our sandbox; those of the others lie beside it. */
void leftovers_sweep(const char *dir_path);

/* Whatever is mounted at the mount point in a sandbox's directory. Its lock is held, so nobody serves it. */
void leftovers_unmount(const char *dir_path);
