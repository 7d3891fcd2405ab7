/*
 * The fence: a FUSE file system that shows a base directory under rules and keeps every change in a delta beside it.
 *
 *     fence_new(&config, &fence, err);      opens the directories and loads the delta
 *     fence_mount(fence, "/mnt", err);      mounts; requests wait until fence_run() serves them
 *     fence_run(fence);                     serves until fence_stop() or an unmount from outside
 *     fence_free(fence);
 *
 * Answers depend on the rules and on what they show, never on what they hide. There is one exception: a file that is hidden
 * under one name is hidden under all its names (hidden_link.h).
 *
 * The fence never writes to the base. Rules may be swapped while it runs. Whatever a client of the mount does, the worst it
 * gets is an errno: no function here exits or aborts because of it. All functions but new, mount, run and free may be called
 * from any thread while fence_run() is at work; none of them may be called from inside a callback.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "policy/required_level.h"
#include "policy/ruleset.h"

#define FENCE_EXEC_MAX 64 /* an exec id and its NUL */

struct fence;

/* A refusal. The strings are borrowed for the call. */
struct fence_denial {
    int64_t wall_ns;
    const char *path; /* absolute within the workspace, any bytes */
    enum policy_op op;
    enum level level;
    int error;          /* the positive errno that the caller got */
    pid_t pid;          /* in our pid namespace; 0: unknown */
    uint64_t repeats;   /* earlier refusals of the same kind that the rate limit held back */
    const char *detail; /* the system call if /proc showed it, else NULL */
    const char *exec;   /* the result of `exec_of` at the time; "" if it was not called */
};

/* Runs in a thread of its own. If it is slow, events are lost (and counted), but no client waits. */
typedef void (*fence_denial_fn)(const struct fence_denial *denial, void *cookie);

/* Writes the exec that a process belongs to, "" for none. `pid` 0 means that the process is unknown: then the set of running
 * execs. Runs in worker threads, so it must not block. */
typedef void (*fence_exec_fn)(pid_t pid, char out[FENCE_EXEC_MAX], void *cookie);

enum fence_data_path {
    FENCE_DATA_AUTO,
    FENCE_DATA_CACHED,      /* no message per open; the mount caches pages */
    FENCE_DATA_PASSTHROUGH, /* a message per open; the kernel serves files of level read from the base */
};

/* Borrowed for the call to fence_new(), which takes a reference to `rules`. */
struct fence_config {
    const char *base_path;
    int base_fd; /* if > 0, the base, and `base_path` only its name; the delta is then bound to this one directory */
    const char *delta_path;
    struct ruleset *rules;
    uid_t uid; /* shown as the owner of all files */
    gid_t gid;
    uint64_t quota_bytes;  /* 0: none */
    uint64_t quota_inodes; /* 0: none */
    bool is_live;          /* others change the base meanwhile */
    bool syncs_out;        /* changes may be synced to the base: sync_out.h */
    bool keeps_other_base; /* accept a delta that was made over another base */
    bool is_at_rest;       /* the fence will not serve: leave umask and limits of the process alone */
    unsigned threads;      /* the most workers; 0: a default */
    enum fence_data_path data_path;
    int64_t version_time_ns; /* shown as the time of unchanged directories; 0: when the delta was made */
    fence_denial_fn on_denial;
    fence_exec_fn exec_of;
    void *cookie;
};

int fence_new(const struct fence_config *config, struct fence **ret_fence, struct err *err);
void fence_free(struct fence *fence); /* unmounts if still mounted */
DEFINE_AUTOPTR(fence, fence_free);

/* Makes the delta if there is none, finishes what the last fence left unfinished in it, and closes it again. It applies no
 * rules, whatever `config` says, so it makes no directories that only rules ask for. Returns -EBUSY while the delta is in
 * use. */
int fence_recover_delta(const struct fence_config *config, struct err *err);

/* Uses mount(2) directly, so it needs root in the user namespace that owns the mount namespace. A supervisor has that in its
 * own. */
int fence_mount(struct fence *fence, const char *mount_point, struct err *err);

/* Serves in this thread and others until the mount is gone. Returns 0, or -errno if the connection broke. */
int fence_run(struct fence *fence);

/* Makes fence_run() return soon. The only function here that a signal handler may call. */
void fence_stop(struct fence *fence);

/* The new rules hold for every operation that begins after this returns, kernel caches included. Returns -EOPNOTSUPP with the
 * passthrough data path, where the kernel reads open files without asking us. */
int fence_set_rules(struct fence *fence, struct ruleset *rules);

/* Reports that others replaced, added or removed these paths of the base ("/src/a.py", absolute within the workspace). A
 * directory includes all below it; of a new one only the top need be named. No paths: anything may have changed except the base
 * directory itself.
 *
 * Every operation that begins after this returns sees the current base where the delta does not cover it, kernel caches
 * included. A process that has a replaced or removed file open keeps the old one, as on any file system; a file written in
 * place shows its new content. A directory that still exists remains the working directory of the processes in it. Meant for
 * bases that are not live, harmless for those that are. Returns -EINVAL for a path that is not absolute and clean; then nothing
 * was done. */
int fence_base_changed(struct fence *fence, const char *const *paths, size_t count);

/* Makes everything acknowledged so far survive a power cut. */
int fence_sync(struct fence *fence);

struct fence_stats {
    uint64_t ops[POLICY_OPS];
    uint64_t denied[POLICY_OPS];
    uint64_t requests; /* messages from the kernel */
    uint64_t denials_dropped;
    uint64_t inodes; /* in memory */
    uint64_t handles;
    uint64_t used_bytes, used_inodes; /* of the delta */
    uint64_t copied_up;
    uint64_t link_walks; /* walks over the base for hidden files with several names (hidden_link.h) */
    unsigned workers;
};

void fence_stats(struct fence *fence, struct fence_stats *ret_stats);
