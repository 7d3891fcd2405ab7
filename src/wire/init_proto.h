/*
 * What a supervisor and agentfense-init say to each other, one frame each.
 *
 *     init                                supervisor
 *       │  HELLO                              │   once, first
 *       │─────────────────────────────────────▶
 *       │                              SPAWN  │   with descriptors; see init_spawn.h
 *       ◀─────────────────────────────────────│
 *       │  SPAWNED, and PTY if it has one     │   or SPAWN_FAILED, and that is all about this id
 *       │─────────────────────────────────────▶
 *       │                    KILL, any number │   for an id that is not running: ignored
 *       ◀─────────────────────────────────────│
 *       │  EXITED                             │   the main process has ended; others may still write to its descriptors
 *       │  GONE                               │   nothing of that exec's tree is left
 *       │─────────────────────────────────────▶
 *       │                           SHUTDOWN  │   everything is killed, init ends
 *       ◀─────────────────────────────────────│
 *
 * The supervisor names an exec by an id that it never uses twice, not 0. Closing the socket is SHUTDOWN too. init has nothing
 * to hide from the supervisor and ends with INIT_EXIT_PROTOCOL at the first frame it cannot read; the supervisor takes
 * whatever comes for a stranger's word: reports of ids it does not know, twice, or in another order mean nothing. Where an
 * agent killed our process that kept an exec, EXITED or SPAWN_FAILED may come after the other reports of that id.
 *
 * The size of a terminal is set by whoever holds its master (TIOCSWINSZ): there is no message for it.
 *
 * Decoding allocates nothing; what it gives is borrowed from the frame. A decoder refuses with -EPROTO: unknown types,
 * values out of their range, descriptors that do not belong there, bytes missing and bytes left over.
 */
#pragma once

#include <stdint.h>

#include "wire/frame.h"
#include "wire/init_spawn.h"

#define INIT_PROTO_VERSION 2

/* How init itself ends. */
enum init_exit {
    INIT_EXIT_SHUTDOWN = 0,
    INIT_EXIT_SETUP = 1,    /* the sandbox is not what it needs; standard error says why */
    INIT_EXIT_USAGE = 2,    /* bad command line */
    INIT_EXIT_PEER = 3,     /* the supervisor is gone */
    INIT_EXIT_PROTOCOL = 4, /* the supervisor sent what is no request */
};

enum init_report_type {
    INIT_REPORT_HELLO = 1,
    INIT_REPORT_SPAWNED = 2,
    INIT_REPORT_SPAWN_FAILED = 3,
    INIT_REPORT_PTY = 4, /* the master of the exec's terminal is the frame's one descriptor */
    INIT_REPORT_EXITED = 5,
    INIT_REPORT_GONE = 6,
};

enum init_hello_flag {
    INIT_HELLO_PID1 = 1 << 0, /* the kernel ends everything with init; without it a tree may outlive a killed init */
    INIT_HELLO_PROC = 1 << 1, /* /proc is there; without it KILL reaches the main process's group only */
    INIT_HELLO_ALL = (1 << 2) - 1,
};

/* Where a command failed to start. */
enum init_step {
    INIT_STEP_REQUEST = 1, /* EEXIST: the id is in use; EAGAIN: INIT_EXECS_MAX are running; EINVAL: strings, see init_spawn.h */
    INIT_STEP_FORK,
    INIT_STEP_REAPER, /* ECANCELED: our process that starts it was killed */
    INIT_STEP_TTY,
    INIT_STEP_DESCRIPTORS,
    INIT_STEP_SESSION,
    INIT_STEP_LIMITS,
    INIT_STEP_USER,
    INIT_STEP_CWD,
    INIT_STEP_EXEC,
    INIT_STEP_LAST = INIT_STEP_EXEC,
};

#define INIT_EXECS_MAX 1024

struct init_report {
    enum init_report_type type;
    uint64_t id; /* 0 for HELLO */
    union {
        struct {
            uint32_t version;
            uint32_t pid;   /* init's, as seen inside */
            uint32_t flags; /* of enum init_hello_flag */
        } hello;
        struct {
            uint32_t pid; /* the main process's, as seen inside */
        } spawned;
        struct {
            int32_t error; /* a positive errno */
            enum init_step step;
        } spawn_failed;
        struct {
            int32_t status;                           /* as of waitpid(2): exited or killed, nothing else */
            uint64_t user_us, system_us, max_rss_kib; /* of the main process and the children it waited for */
        } exited;
    };
};

enum init_request_type {
    INIT_REQUEST_SPAWN = 16,
    INIT_REQUEST_KILL = 17,
    INIT_REQUEST_SHUTDOWN = 18,
};

enum init_kill_scope {
    INIT_KILL_MAIN = 0,  /* the main process, while it runs */
    INIT_KILL_TREE = 1,  /* every process of the exec; SIGKILL is repeated until none is left, other signals go once */
    INIT_KILL_BELOW = 2, /* like TREE, without the main process, and once */
};

struct init_request {
    enum init_request_type type;
    uint64_t id; /* 0 for SHUTDOWN */
    union {
        struct init_spawn spawn;
        struct {
            int32_t signal;
            enum init_kill_scope scope;
            /* TREE with signals that go once, and BELOW: a process that started earlier is left out with all below it, but below
             * the main process only those that started earlier themselves. In clock ticks since boot (CLOCK_BOOTTIME in units of 1/sysconf(_SC_CLK_TCK) s), as /proc/<pid>/stat has it;
             * one that started in the very tick is signalled. Without /proc nobody is. 0: all. */
            uint64_t since_ticks;
        } kill;
    };
};

/* Enough for every report, and for every request but SPAWN, which needs FRAME_PAYLOAD_MAX. */
#define INIT_PROTO_SMALL_MAX 64

/* Encoding puts the payload into `buf`, which `ret` then borrows; the PTY's descriptor is the caller's to add. -EINVAL for
 * what no decoder would take. A SPAWN is made by init_spawn_encode(). */
int init_report_encode(const struct init_report *report, void *buf, size_t cap, struct frame *ret);
int init_request_encode(const struct init_request *request, void *buf, size_t cap, struct frame *ret);

int init_report_decode(const struct frame *frame, struct init_report *ret);
int init_request_decode(const struct frame *frame, struct init_request *ret);

const char *init_step_text(enum init_step step);
