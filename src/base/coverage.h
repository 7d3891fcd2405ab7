/*
 * A coverage build writes its counters in exit(). A program that ends in another way calls these first.
 */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

/* coverage_execve() is for a child that shares its parent's memory. The compiler turns every other execve() into one that saves
 * the counters first. That happens only once per process, so the parent would lose everything it counts afterwards. */
#ifdef AGENTFENSE_COVERAGE
void __gcov_dump(void); /* part of gcc's run-time, which declares it in no header */
#define coverage_save() __gcov_dump()
#define coverage_execve(path, argv, envp) syscall(SYS_execve, path, argv, envp)
#else
#define coverage_save() ((void) 0)
#define coverage_execve(path, argv, envp) execve(path, argv, envp)
#endif

/* _exit() that saves the counters first. */
#define coverage_exit(code)                                                                                                    \
    do {                                                                                                                       \
        int coverage_code = (code);                                                                                            \
        coverage_save();                                                                                                       \
        _exit(coverage_code);                                                                                                  \
    } while (0)
