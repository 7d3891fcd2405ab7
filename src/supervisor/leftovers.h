/*
 * What supervisors that were killed have left behind: processes of a bwrap killed at the worst moment, cgroups of sandboxes
 * that do not run. Swept by a thread of its own when a sandbox has started, so that nobody waits for it.
 */
#pragma once

/* `dir_path` is the directory of our sandbox; those of the others lie beside it. */
void leftovers_sweep(const char *dir_path);
