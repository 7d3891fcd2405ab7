/*
 * The protocol between a supervisor and agentfense-init. Each message is one frame.
 *
 *     init                                supervisor
 *       │  HELLO                              │   once, first
 *       │─────────────────────────────────────▶
 *       │                              SPAWN  │   with descriptors; see init_spawn.h
 *       ◀─────────────────────────────────────│
 *       │  SPAWNED, and PTY if it has one     │   or SPAWN_FAILED, the only report about this id
 *       │─────────────────────────────────────▶
 *       │                    KILL, any number │   ignored if the id is not running
 *       ◀─────────────────────────────────────│
 *       │  EXITED                             │   the main process has ended; others may still write to its descriptors
 *       │  GONE                               │   no process of this exec is left
 *       │─────────────────────────────────────▶
 *       │                           SHUTDOWN  │   init kills everything and ends
 *       ◀─────────────────────────────────────│
 *
 * The supervisor chooses an id for each exec, never 0 and never used twice. Closing the socket means SHUTDOWN. init trusts the
 * supervisor and ends with INIT_EXIT_PROTOCOL at the first invalid frame. The supervisor does not trust init: it ignores
 * reports with unknown ids, repeated reports and reports in another order. If an agent kills the reaper of an exec, EXITED or
 * SPAWN_FAILED may arrive after other reports of that id.
 *
 * The holder of a terminal's master sets its size (TIOCSWINSZ), so no message exists for it.
 *
 * Decoding allocates nothing, and its results borrow from the frame. A decoder returns -EPROTO for unknown types, values out of
 * range, unexpected descriptors, missing bytes and excess bytes.
 */
#pragma once

#include <stdint.h>

#include "wire/frame.h"
#include "wire/init_spawn.h"

#define INIT_PROTO_VERSION 2

/* Exit codes of init. */
enum init_exit {
    INIT_EXIT_SHUTDOWN = 0,
    INIT_EXIT_SETUP = 1,    /* the sandbox lacks something that init needs; standard error names it */
    INIT_EXIT_USAGE = 2,    /* invalid command line */
    INIT_EXIT_PEER = 3,     /* the supervisor closed the socket */
    INIT_EXIT_PROTOCOL = 4, /* the supervisor sent an invalid request */
};

enum init_report_type {
    INIT_REPORT_HELLO = 1,
    INIT_REPORT_SPAWNED = 2,
    INIT_REPORT_SPAWN_FAILED = 3,
    INIT_REPORT_PTY = 4, /* the frame's one descriptor is the master of the exec's terminal */
    INIT_REPORT_EXITED = 5,
    INIT_REPORT_GONE = 6,
};

enum init_hello_flag {
    /* init is pid 1, so the kernel kills everything with it; otherwise a tree may outlive a killed init */
    INIT_HELLO_PID1 = 1 << 0,
    INIT_HELLO_PROC = 1 << 1, /* /proc is mounted; without it KILL reaches only the process group of the main process */
    INIT_HELLO_ALL = (1 << 2) - 1,
};

/* The step at which starting a command failed. */
enum init_step {
    /* EEXIST: the id is in use; EAGAIN: INIT_EXECS_MAX are running; EINVAL: invalid strings, see init_spawn.h */
    INIT_STEP_REQUEST = 1,
    INIT_STEP_FORK,
    INIT_STEP_REAPER, /* ECANCELED: the reaper that starts the command was killed */
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

/* The type of the one frame that passes init its socket, the frame's descriptor, where init cannot inherit it. Its id is 0. */
#define INIT_SOCKET_FRAME 32

struct init_report {
    enum init_report_type type;
    uint64_t id; /* 0 for HELLO */
    union {
        struct {
            uint32_t version;
            uint32_t pid;   /* of init, in its pid namespace */
            uint32_t flags; /* of enum init_hello_flag */
        } hello;
        struct {
            uint32_t pid; /* of the main process, in its pid namespace */
        } spawned;
        struct {
            int32_t error; /* a positive errno */
            enum init_step step;
        } spawn_failed;
        struct {
            int32_t status;                           /* as from waitpid(2): exited or killed */
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
    INIT_KILL_MAIN = 0,  /* the main process while it runs */
    INIT_KILL_TREE = 1,  /* every process of the exec; SIGKILL is repeated until none is left, other signals are sent once */
    INIT_KILL_BELOW = 2, /* like TREE, but without the main process, and only once */
};

struct init_request {
    enum init_request_type type;
    uint64_t id; /* 0 for SHUTDOWN */
    union {
        struct init_spawn spawn;
        struct {
            int32_t signal;
            enum init_kill_scope scope;
            /* For TREE with signals other than SIGKILL, and for BELOW: skips a process that started earlier, with everything
             * below it; directly below the main process it skips only the process itself. In clock ticks since boot
             * (CLOCK_BOOTTIME in units of 1/sysconf(_SC_CLK_TCK) s), as in /proc/<pid>/stat; a process that started in this
             * tick is signalled. Without /proc no process is. 0: all. */
            uint64_t since_ticks;
        } kill;
    };
};

/* Enough for every report and every request except SPAWN, which needs FRAME_PAYLOAD_MAX. */
#define INIT_PROTO_SMALL_MAX 64

/* Encoders write the payload into `buf`, from which `ret` borrows; the caller adds the descriptor of a PTY. -EINVAL for values
 * that no decoder accepts. For SPAWN use init_spawn_encode(). */
int init_report_encode(const struct init_report *report, void *buf, size_t cap, struct frame *ret);
int init_request_encode(const struct init_request *request, void *buf, size_t cap, struct frame *ret);

int init_report_decode(const struct frame *frame, struct init_report *ret);
int init_request_decode(const struct frame *frame, struct init_request *ret);

const char *init_step_text(enum init_step step);
