/*
 * What a coverage build has counted is written by exit(). Who ends without it says so first, by this.
 */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

/* coverage_execve() is for a child that shares its parent's memory. The compiler makes every other execve() save what was counted, which
 * is done once: the parent would save nothing of what it does afterwards. */
#ifdef AGENTFENSE_COVERAGE
void __gcov_dump(void); /* of gcc's run-time, which has no header for it */
#define coverage_save() __gcov_dump()
#define coverage_execve(path, argv, envp) syscall(SYS_execve, path, argv, envp)
#else
#define coverage_save() ((void) 0)
#define coverage_execve(path, argv, envp) execve(path, argv, envp)
#endif

/* _exit(), and what is counted while the code is found out counts too. */
#define coverage_exit(code)                                                                                                    \
    do {                                                                                                                       \
        int coverage_code = (code);                                                                                            \
        coverage_save();                                                                                                       \
        _exit(coverage_code);                                                                                                  \
    } while (0)
