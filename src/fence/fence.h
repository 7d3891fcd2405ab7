/*
 * The fence: a FUSE filesystem that shows a base directory under rules and keeps every change in a delta beside it.
 *
 *     fence_new(&config, &fence, err);      looks at the directories, loads the delta
 *     fence_mount(fence, "/mnt", err);      from here on the mount point answers, as soon as fence_run() serves it
 *     fence_run(fence);                     serves until fence_stop() or an unmount from outside
 *     fence_free(fence);
 *
 * Answers depend on the rules and on what they show, never on what they hide, with one exception: a file that is hidden under one name is
 * hidden under all its names (hidden_link.h).
 *
 * The base is never written. Rules may be swapped while it runs. Whatever a client of the mount does, it gets an errno at
 * worst: no function here exits or aborts because of it. All functions but new, mount, run and free may be called from any
 * thread while fence_run() is at work; none of them from inside a callback.
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

#define FENCE_EXEC_MAX 64 /* an exec id with its NUL */

struct fence;

/* Something was refused. Strings are borrowed for the call. */
struct fence_denial {
    int64_t wall_ns;
    const char *path; /* absolute within the workspace, any bytes */
    enum policy_op op;
    enum level level;
    int error;          /* positive errno the caller got */
    pid_t pid;          /* as our pid namespace numbers it; 0: not known */
    uint64_t repeats;   /* earlier refusals of the same kind that were not reported for the rate limit */
    const char *detail; /* the system call, where /proc told it; NULL otherwise */
    const char *exec;   /* what `exec_of` said when it was refused; "": it was not asked */
};

/* Called from a thread of the fence's own; slow ones make it lose events (counted), never make a client wait. */
typedef void (*fence_denial_fn)(const struct fence_denial *denial, void *cookie);

/* Which exec does this process belong to? Writes "" for none. `pid` 0 means nobody knows: the set of running ones. Called from
 * worker threads: must not block. */
typedef void (*fence_exec_fn)(pid_t pid, char out[FENCE_EXEC_MAX], void *cookie);

enum fence_data_path {
    FENCE_DATA_AUTO,
    FENCE_DATA_CACHED,      /* zero-message opens, pages cached by the mount */
    FENCE_DATA_PASSTHROUGH, /* a message per open; files of level read are served by the kernel from the base */
};

/* Borrowed for the call to fence_new(), `rules` is ref'ed. */
struct fence_config {
    const char *base_path;
    int base_fd; /* the base, when > 0, and `base_path` is only its name; from then on the delta is for this one directory */
    const char *delta_path;
    struct ruleset *rules;
    uid_t uid; /* shown as the owner of everything */
    gid_t gid;
    uint64_t quota_bytes;  /* 0: none */
    uint64_t quota_inodes; /* 0: none */
    bool is_live;          /* others edit the base meanwhile */
    bool syncs_out;        /* changes may be given to the base: sync_out.h */
    bool keeps_other_base; /* take a delta that was made over another base */
    bool is_at_rest;       /* nobody is going to be served: the mask and limits of the process stay as they are */
    unsigned threads;      /* most workers; 0: a default */
    enum fence_data_path data_path;
    int64_t version_time_ns; /* times of directories nobody changed; 0: when the delta was made */
    fence_denial_fn on_denial;
    fence_exec_fn exec_of;
    void *cookie;
};

int fence_new(const struct fence_config *config, struct fence **ret_fence, struct err *err);
void fence_free(struct fence *fence); /* unmounts what is still mounted */
DEFINE_AUTOPTR(fence, fence_free);

/* Makes the delta where there is none, finishes what the last fence left undone in it, and lets it go again. Under no rules, whatever
 * `config` says, so that nothing is made which only rules ask for. -EBUSY while somebody has the delta. */
int fence_recover_delta(const struct fence_config *config, struct err *err);

/* Mounts with the kernel directly, so it needs root in the mount namespace's user namespace, as a supervisor has in its own. */
int fence_mount(struct fence *fence, const char *mount_point, struct err *err);

/* Serves in this thread and others until the mount is gone. 0, or -errno when the connection broke. */
int fence_run(struct fence *fence);

/* Makes fence_run() return soon. The only one that may be called from a signal handler. */
void fence_stop(struct fence *fence);

/* New rules hold for every operation that begins after this returns, kernel caches included. -EOPNOTSUPP with the data path passthrough: what is
 * open there is read past us. */
int fence_set_rules(struct fence *fence, struct ruleset *rules);

/* Somebody else replaced, added or removed these paths of the base ("/src/a.py", absolute within the workspace; a directory stands for
 * all below it, a new one need only be named itself); no paths: anything may have changed, but for the base directory itself. Every
 * operation that begins after this returns sees the base as it is where the delta does not cover it, kernel caches included. Who has
 * a file open that was replaced or removed keeps the old one, as on any file system; one written in place shows its new content.
 * A directory that is one still stays the one that processes stand in. For bases that are not live, and does no harm to those that are.
 * -EINVAL for a path that is not absolute and clean: then nothing was done. */
int fence_base_changed(struct fence *fence, const char *const *paths, size_t count);

/* What was acknowledged so far survives a power cut. */
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
    uint64_t link_walks; /* of the base, for hidden files with several names (hidden_link.h) */
    unsigned workers;
};

void fence_stats(struct fence *fence, struct fence_stats *ret_stats);
