/*
 * What a supervisor gives up once its sandbox runs: to start programs, to mount, to enter or make namespaces, to look into other
 * processes, to load code into the kernel, to talk to a network. All its threads do, the fence's too, so whoever should find a
 * hole in them from inside the sandbox has a process that can do little more than serve these files.
 *
 * Not Landlock: it would have to be in force before the first thread and would then be bwrap's as well, which must mount.
 */
#pragma once

/* For all threads of this process, for good. -ENOTSUP on an architecture we have no filter for. */
int restrict_all_threads(void);
