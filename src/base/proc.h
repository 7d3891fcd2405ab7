/*
 * A child process. The whole project starts child processes only here.
 *
 * The child inherits only what the spec names: its own environment, the listed descriptors, an empty signal mask and default
 * dispositions, including for signals that we ignore. proc_spawn() returns after the program has started, or with the exact
 * reason for the failure. Any thread may call it, several at once. The caller owns the child, which stays a zombie until
 * proc_wait(). Nothing else in the process may wait for "any child" or ignore SIGCHLD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct proc_fd {
    int fd;     /* borrowed: stays open in this process */
    int target; /* its number in the child */
};

struct proc_rlimit {
    int resource;
    struct rlimit limit;
};

struct proc_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* replace all supplementary groups */
    size_t group_count;
};

/* Everything is borrowed for the call. A zeroed field means none, or unchanged. */
struct proc_spec {
    const char *path;          /* NULL: argv[0]. A name without a slash is searched in the PATH of `envp` */
    const char *const *argv;   /* ends with NULL, has at least argv[0] */
    const char *const *envp;   /* ends with NULL; NULL: an empty environment */
    const struct proc_fd *fds; /* 0, 1 and 2 are /dev/null unless they are listed as targets */
    size_t fd_count;
    const char *cwd;  /* NULL: the current directory */
    bool new_session; /* setsid(), which also makes a new process group */
    bool new_group;
    int death_signal; /* sent when the *thread* that spawned ends; 0: none. The kernel clears it for set-user-ID programs */
    const struct proc_user *user;
    const struct proc_rlimit *rlimits;
    size_t rlimit_count;
    const int *joins; /* open files of cgroups to which the child writes "0", that is itself, before anything else */
    size_t join_count;
};

struct proc {
    pid_t pid;
    int pidfd; /* owned; readable after the child has ended; -1 where the kernel has no pidfds (before 5.3) */
    bool reaped;
    int status;
};

#define PROC_NONE ((struct proc){ .pidfd = -1 })

/* Returns the error of the step that failed: -ENOENT if the program does not exist, -EACCES if it is not executable. */
int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *err);

/* Wait for the end and return the status of waitpid(). Later calls return it again. proc_wait_timeout() may give -ETIMEDOUT. */
int proc_wait(struct proc *proc, int *ret_status);
int proc_wait_timeout(struct proc *proc, int timeout_ms, int *ret_status);

/* Returns -ESRCH after the child was waited for, because the pid may belong to another process then. */
int proc_signal(struct proc *proc, int signal);

/* Runs a program to its end. After `timeout_ms` it is killed and -ETIMEDOUT returned. `out` receives its standard output, which
 * must fit into a pipe; NULL discards it. The spec must not list descriptors. */
int proc_run(const struct proc_spec *spec, int timeout_ms, struct buf *out, int *ret_status, struct err *err);

/* Reads the beginning of /proc/<pid>/<file> and adds a NUL. Returns the number of bytes; 0 if it cannot be read. */
size_t proc_read_file(pid_t pid, const char *file, char *text, size_t cap);

/* Returns the exit code as a shell shows it: 128 + n after death by signal n. */
int proc_exit_code(int status);

/* Closes the pidfd. Neither kills the child nor waits for it. */
void proc_done(struct proc *proc);

/* Blocks SIGTERM, SIGINT, SIGHUP, SIGPIPE and `one_more` (0: none), and returns a non-blocking signalfd for all but SIGPIPE.
 * Call it before the first thread starts, so that all threads inherit the mask. */
int proc_open_signals(int one_more);
