/*
 * What supervisors that were killed have left behind: processes of a bwrap killed at the worst moment, cgroups of sandboxes
 * that do not run, and on the host the mounts of those that were containers. Swept when a sandbox has started, and by those that end
 * sooner than that: so the next start of any sandbox ends it, however short that one is. Nobody waits for it. Containers
 * themselves are swept by agentfense-container, which can talk to an engine.
 */
#pragma once

/* `dir_path` is the directory of our sandbox; those of the others lie beside it. */
void leftovers_sweep(const char *dir_path); /* by a thread */

/* By a process of its own that holds nothing of ours, for who is about to end. */
void leftovers_sweep_detached(const char *dir_path);

/* Whatever is mounted at the mount point in a sandbox's directory. Its lock is held, so nobody serves it. */
void leftovers_unmount(const char *dir_path);
