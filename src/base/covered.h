/*
 * What a coverage build has counted is written by exit(). Who ends without it says so first, by this.
 */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

/* covered_execve() is for a child that shares its parent's memory. The compiler makes every other execve() save what was counted, which
 * is done once: the parent would save nothing of what it does afterwards. */
#ifdef AGENTFENSE_COVERAGE
void __gcov_dump(void); /* of gcc's run-time, which has no header for it */
#define covered_save() __gcov_dump()
#define covered_execve(path, argv, envp) syscall(SYS_execve, path, argv, envp)
#else
#define covered_save() ((void) 0)
#define covered_execve(path, argv, envp) execve(path, argv, envp)
#endif

/* _exit(), and what is counted while the code is found out counts too. */
#define covered_exit(code)                                                                                                     \
    do {                                                                                                                       \
        int covered_code = (code);                                                                                             \
        covered_save();                                                                                                        \
        _exit(covered_code);                                                                                                   \
    } while (0)
