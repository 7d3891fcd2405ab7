/*
 * The server's end of a sandbox: connections to its supervisor, and the one lock under which it is started, stopped and removed.
 *
 * A ward is there for every sandbox that somebody is at work with or that runs; it is found by id, counted by its users, and gone with
 * the last of them. What is in it can always be had again from the store and the supervisor.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/id.h"
#include "base/proc.h"

#define WARD_IDLE_MAX 8
#define WARD_ID_MAX 48 /* a sandbox's id, a workspace's name */
#define WARD_BUCKETS 1024
#define WARD_EXECS_KEPT 256

struct wards;

struct ward {
    struct wards *wards;
    struct ward *next; /* in its bucket */
    unsigned refs;     /* under the wards' lock */
    char id[WARD_ID_MAX];

    /* Whoever starts, stops, removes it or changes its rules; taken before everything else. */
    pthread_mutex_t life;

    /* What follows. */
    pthread_mutex_t lock;
    bool is_running;
    bool is_stopping;    /* its end is no surprise */
    unsigned generation; /* counts how often it was started */
    bool syncs;
    bool needs_sync;           /* by the janitor; see sync_later() and sync_run() */
    char *owner, *codebase_id; /* owned; set while it runs */
    int dir_fd;                /* owned; the sandbox's directory; -1: not open */
    struct proc supervisor;    /* owned: to be waited for, if it is our child */
    int idle[WARD_IDLE_MAX];   /* owned: connections that nobody uses now */
    size_t idle_count;
    uint64_t execs[WARD_EXECS_KEPT]; /* hashes of the names of the last that this server asked for: a ring */
    size_t exec_next;
    char *step; /* owned; what its start is at, if that takes its time; NULL otherwise */
    struct ward_measured {
        uint64_t requests, bytes, inodes; /* what its supervisor said when its changes were last measured */
        int64_t again_ns;                 /* monotonic clock; not before this */
    } measured;                           /* of a workspace */
};

struct wards {
    pthread_mutex_t lock;
    struct ward *buckets[WARD_BUCKETS];
    size_t count;
};

void wards_init(struct wards *wards);
void wards_done(struct wards *wards); /* what runs lives on */

/* With a reference. A ward that is not there yet is made, empty. */
struct ward *ward_get(struct wards *wards, const char *id);
/* Only one that runs, and that the caller may use: NULL otherwise. */
struct ward *ward_find_running(struct wards *wards, const char *id);
void ward_unref(struct ward *ward);
DEFINE_AUTOPTR(ward, ward_unref);

/* It runs, from now on: takes the directory and the supervisor (PROC_NONE: not our child). Adds a reference, which
 * ward_end_running() takes back. */
void ward_set_running(struct ward *ward, struct proc *supervisor, int dir_fd, const char *owner, const char *codebase_id,
                      bool syncs);
/* It does not, any more: closes all connections, waits for the supervisor if it is our child. False: it did not run. */
bool ward_end_running(struct ward *ward);

/* A connection to the supervisor, on which HELLO has been received: an idle one, or a new one. To be given back by ward_give_fd() when
 * nothing is going on on it any more, or closed. -ENOTCONN, ERR_FAILED_PRECONDITION: "sandbox is not running". */
int ward_take_fd(struct ward *ward, int *ret_fd, struct err *err);
void ward_give_fd(struct ward *ward, int fd);

/* This server asks for the exec itself, so whoever hears of its end need not see to it. */
void ward_note_exec(struct ward *ward, const char *name);
bool ward_knows_exec(struct ward *ward, const char *name);

/* What a start that takes its time is at, such as fetching an image; NULL: nothing, any more. */
void ward_set_step(struct ward *ward, const char *text);
/* New; NULL when there is nothing to tell. */
char *ward_dup_step(struct wards *wards, const char *id);

/* Every ward that runs, each referenced for the call. */
typedef void (*ward_fn)(struct ward *ward, void *cookie);
void wards_each_running(struct wards *wards, ward_fn fn, void *cookie);
