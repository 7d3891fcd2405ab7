/*
 * Cleans up after supervisors that were killed: processes of a bwrap that was killed at the worst moment, cgroups of sandboxes
 * that do not run, and on the host the mounts of containers. A sandbox sweeps some time after its start, or at its end if that
 * comes first, so even short sandboxes clean up. Nothing waits for it. agentfense-container sweeps containers, because only it
 * can talk to an engine.
 */
#pragma once

/* `dir_path` is our sandbox's directory; the other sandboxes' directories are beside it. */
void leftovers_sweep(const char *dir_path); /* in a thread */

/* Sweeps in a child process that holds none of our resources, for a supervisor that is about to exit. */
void leftovers_sweep_detached(const char *dir_path);

/* Unmounts everything from the mount point in a sandbox's directory. The caller holds the sandbox's lock, so no supervisor
 * serves it. */
void leftovers_unmount(const char *dir_path);
