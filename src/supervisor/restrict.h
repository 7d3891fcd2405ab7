/*
 * Restricts a supervisor once its sandbox runs: it cannot start programs, mount, enter or make namespaces, inspect other
 * processes, load code into the kernel or use a network. This covers all threads, including the fence's. An attacker who takes
 * them over from inside the sandbox gets a process that can do little more than serve these files.
 *
 * This is not Landlock, because that would have to be enabled before the first thread and would then bind bwrap too, which must
 * mount.
 */
#pragma once

/* Applies to all threads of this process, irrevocably. -ENOTSUP on an architecture without a filter. */
int restrict_all_threads(void);
