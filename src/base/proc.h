/*
 * A child process. This is the only place of the project that starts one.
 *
 * The child gets what the spec names and nothing by accident: its own environment, the listed descriptors and no others, an empty
 * signal mask and default dispositions (the ignored ones too). proc_spawn() returns when the program runs or with the exact
 * reason why it does not. It may be called from any thread and from several at once. A child is owned by whoever spawned it: it
 * stays a zombie until proc_wait(), so nothing else in the process may wait for "any child" or ignore SIGCHLD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct proc_fd {
    int fd;     /* borrowed: ours stays open */
    int target; /* its number in the child */
};

struct proc_rlimit {
    int resource;
    struct rlimit limit;
};

struct proc_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary, replacing all */
    size_t group_count;
};

/* All borrowed for the call. Zeroed fields mean: none, as it is. */
struct proc_spec {
    const char *path;          /* NULL: argv[0]. Without a slash it is looked up in the PATH of `envp` */
    const char *const *argv;   /* ended by NULL, at least argv[0] */
    const char *const *envp;   /* ended by NULL; NULL: an empty environment */
    const struct proc_fd *fds; /* targets 0, 1 and 2 that are not listed are /dev/null */
    size_t fd_count;
    int cwd_fd;       /* a directory, when > 0 */
    const char *cwd;  /* after cwd_fd and relative to it */
    bool new_session; /* setsid(), which is a new process group as well */
    bool new_group;
    int death_signal; /* sent when the *thread* that spawned ends; 0: none. A set-user-ID program clears it */
    const struct proc_user *user;
    const struct proc_rlimit *rlimits;
    size_t rlimit_count;
    const int *joins; /* files of cgroups, into which the child writes itself, as "0", before anything else */
    size_t join_count;
};

struct proc {
    pid_t pid;
    int pidfd; /* owned; readable when the child has ended; -1 where the kernel has none (before 5.3) */
    bool reaped;
    int status;
};

#define PROC_NONE ((struct proc){ .pidfd = -1 })

/* -ENOENT when there is no such program, -EACCES when it cannot be run, and so on: what the failing step said. */
int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *err);

/* Wait for the end and give the status as waitpid() does; asked again they repeat it. proc_wait_timeout: -ETIMEDOUT. */
int proc_wait(struct proc *proc, int *ret_status);
int proc_wait_timeout(struct proc *proc, int timeout_ms, int *ret_status);

/* -ESRCH once it was waited for: the pid may be another's by then. */
int proc_signal(struct proc *proc, int signal);

/* Runs it to its end, for which it has `timeout_ms`; then it is killed: -ETIMEDOUT. `out` gets what it prints on its standard output, which
 * has to fit into a pipe; NULL: nothing. The spec names no descriptors. */
int proc_run(const struct proc_spec *spec, int timeout_ms, struct buf *out, int *ret_status, struct err *err);

/* What a shell shows: the exit code, or 128 + n for death by signal n. */
int proc_exit_code(int status);

/* Closes the pidfd. Neither ends the child nor waits for it: one that was not waited for stays a zombie while we live. */
void proc_done(struct proc *proc);

/* A non-blocking descriptor for SIGTERM, SIGINT, SIGHUP and `one_more` (0: none), which are blocked, as SIGPIPE is. Before the first
 * thread, so that all have it. */
int proc_open_signals(int one_more);
