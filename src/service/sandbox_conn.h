/*
 * The server's end of a sandbox: connections to its supervisor, and the one lock under which it is started, stopped and removed.
 *
 * A conn is there for every sandbox that somebody is at work with or that runs; it is found by id, counted by its users, and gone with
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

#define SANDBOX_CONN_IDLE_MAX 8
#define SANDBOX_CONN_ID_MAX 48 /* a sandbox's id, a workspace's name */
#define SANDBOX_CONN_BUCKETS 1024
#define SANDBOX_CONN_EXECS_KEPT 256

struct sandbox_conns;

struct sandbox_conn {
    struct sandbox_conns *conns;
    struct sandbox_conn *next; /* in its bucket */
    unsigned refs;             /* under the conns' lock */
    char id[SANDBOX_CONN_ID_MAX];

    /* Whoever starts, stops, removes it or changes its rules; taken before everything else. */
    pthread_mutex_t life;

    /* What follows. */
    pthread_mutex_t lock;
    bool is_running;
    bool is_stopping;    /* its end is no surprise */
    unsigned generation; /* counts how often it was started */
    bool syncs;
    bool needs_sync;                 /* by the janitor; see sync_later() and sync_run() */
    char *owner, *codebase_id;       /* owned; set while it runs */
    int dir_fd;                      /* owned; the sandbox's directory; -1: not open */
    struct proc supervisor;          /* owned: to be waited for, if it is our child */
    int idle[SANDBOX_CONN_IDLE_MAX]; /* owned: connections that nobody uses now */
    size_t idle_count;
    uint64_t execs[SANDBOX_CONN_EXECS_KEPT]; /* hashes of the names of the last that this server asked for: a ring */
    size_t exec_next;
    char *step; /* owned; what its start is at, if that takes its time; NULL otherwise */
    struct sandbox_conn_measured {
        uint64_t requests, bytes, inodes; /* what its supervisor said when its changes were last measured */
        int64_t again_ns;                 /* monotonic clock; not before this */
    } measured;                           /* of a workspace */
};

struct sandbox_conns {
    pthread_mutex_t lock;
    struct sandbox_conn *buckets[SANDBOX_CONN_BUCKETS];
    size_t count;
};

void sandbox_conns_init(struct sandbox_conns *conns);
void sandbox_conns_done(struct sandbox_conns *conns); /* what runs lives on */

/* With a reference. A conn that is not there yet is made, empty. */
struct sandbox_conn *sandbox_conn_get(struct sandbox_conns *conns, const char *id);
/* Only one that runs, and that the caller may use: NULL otherwise. */
struct sandbox_conn *sandbox_conn_find_running(struct sandbox_conns *conns, const char *id);
void sandbox_conn_unref(struct sandbox_conn *conn);
DEFINE_AUTOPTR(sandbox_conn, sandbox_conn_unref);

/* It runs, from now on: takes the directory and the supervisor (PROC_NONE: not our child). Adds a reference, which
 * sandbox_conn_end_running() takes back. */
void sandbox_conn_set_running(struct sandbox_conn *conn, struct proc *supervisor, int dir_fd, const char *owner,
                              const char *codebase_id, bool syncs);
/* It does not, any more: closes all connections, waits for the supervisor if it is our child. False: it did not run. */
bool sandbox_conn_end_running(struct sandbox_conn *conn);

/* A connection to the supervisor, on which HELLO has been received: an idle one, or a new one. To be given back by sandbox_conn_give_fd() when
 * nothing is going on on it any more, or closed. -ENOTCONN, ERR_FAILED_PRECONDITION: "sandbox is not running". */
int sandbox_conn_take_fd(struct sandbox_conn *conn, int *ret_fd, struct err *err);
void sandbox_conn_give_fd(struct sandbox_conn *conn, int fd);

/* This server asks for the exec itself, so whoever hears of its end need not see to it. */
void sandbox_conn_note_exec(struct sandbox_conn *conn, const char *name);
bool sandbox_conn_knows_exec(struct sandbox_conn *conn, const char *name);

/* What a start that takes its time is at, such as fetching an image; NULL: nothing, any more. */
void sandbox_conn_set_step(struct sandbox_conn *conn, const char *text);
/* New; NULL when there is nothing to tell. */
char *sandbox_conn_dup_step(struct sandbox_conns *conns, const char *id);

/* Every conn that runs, each referenced for the call. */
typedef void (*sandbox_conn_fn)(struct sandbox_conn *conn, void *cookie);
void sandbox_conns_each_running(struct sandbox_conns *conns, sandbox_conn_fn fn, void *cookie);
