/*
 * The server's end of a sandbox: connections to its supervisor, and the one lock under which it is started, stopped and removed.
 *
 * A conn exists for every sandbox that runs or that a call is working with. It is found by id, counts its users, and is freed with the last
 * of them. Everything in it can be rebuilt from the store and the supervisor.
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

    /* Held while it is started, stopped, removed or its rules are changed. Taken before all other locks. */
    pthread_mutex_t life;

    /* Guards the fields below. */
    pthread_mutex_t lock;
    bool is_running;
    bool is_stopping;    /* expect its end */
    unsigned generation; /* counts how often it was started */
    bool syncs;
    bool needs_sync;                 /* the janitor must sync it; see sync_later() and sync_run() */
    char *owner, *codebase_id;       /* owned; set while it runs */
    int dir_fd;                      /* owned; the sandbox's directory; -1: not open */
    struct proc supervisor;          /* owned: wait for it if it is our child */
    int idle[SANDBOX_CONN_IDLE_MAX]; /* owned: unused connections */
    size_t idle_count;
    uint64_t execs[SANDBOX_CONN_EXECS_KEPT]; /* ring: hashes of the names of the last execs that this server requested */
    size_t exec_next;
    char *step; /* owned; the current step of a start that takes long; NULL otherwise */
    struct sandbox_conn_measured {
        uint64_t requests, bytes, inodes; /* as its supervisor reported when its changes were last measured */
        int64_t again_ns;                 /* monotonic clock; do not measure before */
    } measured;                           /* of a workspace */
};

struct sandbox_conns {
    pthread_mutex_t lock;
    struct sandbox_conn *buckets[SANDBOX_CONN_BUCKETS];
    size_t count;
};

void sandbox_conns_init(struct sandbox_conns *conns);
void sandbox_conns_done(struct sandbox_conns *conns); /* running sandboxes live on */

/* Returns a referenced conn, and creates an empty one if needed. */
struct sandbox_conn *sandbox_conn_get(struct sandbox_conns *conns, const char *id);
/* Returns a referenced conn of a running sandbox, else NULL. */
struct sandbox_conn *sandbox_conn_find_running(struct sandbox_conns *conns, const char *id);
void sandbox_conn_unref(struct sandbox_conn *conn);
DEFINE_AUTOPTR(sandbox_conn, sandbox_conn_unref);

/* Marks it as running; takes ownership of the directory and the supervisor (PROC_NONE: not our child). Adds a reference, which
 * sandbox_conn_end_running() drops. */
void sandbox_conn_set_running(struct sandbox_conn *conn, struct proc *supervisor, int dir_fd, const char *owner,
                              const char *codebase_id, bool syncs);
/* Marks it as not running: closes all connections, and waits for the supervisor if it is our child. Returns false if it did not run. */
bool sandbox_conn_end_running(struct sandbox_conn *conn);

/* Returns a connection to the supervisor on which HELLO has been received: an idle one, or a new one. Give it back with
 * sandbox_conn_give_fd() when it is idle again, or close it. -ENOTCONN, ERR_FAILED_PRECONDITION: "sandbox is not running". */
int sandbox_conn_take_fd(struct sandbox_conn *conn, int *ret_fd, struct err *err);
void sandbox_conn_give_fd(struct sandbox_conn *conn, int fd);

/* Notes that this server requested the exec itself, so the watch thread need not sync after its end. */
void sandbox_conn_note_exec(struct sandbox_conn *conn, const char *name);
bool sandbox_conn_knows_exec(struct sandbox_conn *conn, const char *name);

/* Sets the current step of a start that takes long, such as fetching an image; NULL: none. */
void sandbox_conn_set_step(struct sandbox_conn *conn, const char *text);
/* Returns a new string, or NULL if there is no step. */
char *sandbox_conn_dup_step(struct sandbox_conns *conns, const char *id);

/* Calls `fn` for every running conn, with a reference during the call. */
typedef void (*sandbox_conn_fn)(struct sandbox_conn *conn, void *cookie);
void sandbox_conns_each_running(struct sandbox_conns *conns, sandbox_conn_fn fn, void *cookie);
