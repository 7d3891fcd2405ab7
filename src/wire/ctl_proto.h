/*
 * What a client (serve, run) and the supervisor of one sandbox say to each other, one frame each.
 *
 *     supervisor                               client
 *       │  HELLO, then STATE at each change,     │
 *       │  and while it boots, with a text, when │
 *       │  there is something to tell of that    │
 *       │────────────────────────────────────────▶
 *       │             EXEC, SESSION_..., ATTACH  │   the frame's id is a tag of the client's own choosing, not 0
 *       ◀────────────────────────────────────────│
 *       │  STARTED, OUTPUT..., FINISHED          │   with that tag; or ERROR, and that is all
 *       │────────────────────────────────────────▶
 *       │                          KILL, RESIZE  │   with the tag of the exec they are for; no answer
 *       ◀────────────────────────────────────────│
 *       │                                 INPUT  │   with that tag too; OK when the terminal has taken it, and then the next may come
 *       ◀────────────────────────────────────────│
 *       │       STATUS, SET_RULES, SYNC, WATCH   │   one OK, STATUS, SYNCED or ERROR with their tag; WATCH then EVENTs
 *       │                          BASE_CHANGED  │
 *       │              QUIESCE, REVERT, RELEASE  │   one OK or ERROR each: see below
 *       │                                  FILE  │   one FILE, LISTING, OK or ERROR; of a READ a FILE, then OK or ERROR
 *       │                                   END  │   OK or ERROR
 *       │                                  STOP  │   STATE stopping, STATE stopped, end of the connection
 *
 * Output is sent as fast as the client reads: who does not read makes the command wait, and every other exec that was started
 * on the same connection, so a client that wants them independent opens a connection for each. When a connection ends, the
 * execs started on it are killed, except those marked CTL_RUN_DETACHED: what they print is kept, up to a bound, for whoever
 * attaches later.
 *
 * A logged exec (CTL_RUN_LOGGED) is a process in the background: it always goes on, what it prints goes to a file (process_record.h says
 * where), and with a terminal also to whoever is attached, who is first shown the end of what there was. It is known by its name.
 *
 * Only pipes and sockets are taken as a command's standard input: a file of the host never enters the sandbox.
 *
 * Every request has a tag, also those that nobody answers. Names, paths and texts are known here by their length only: whoever
 * uses them checks what is in them.
 *
 * Decoding allocates nothing; what it gives is borrowed from the frame. A decoder refuses with -EPROTO: unknown types, values
 * out of their range, strings without their end, descriptors that do not belong there, bytes missing and bytes left over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/frame.h"
#include "wire/string_block.h"

#define CTL_PROTO_VERSION 2
#define CTL_NAME_MAX 64 /* of a sandbox, an exec, a session: with its NUL */
#define CTL_TEXT_MAX 1024
#define CTL_STRINGS_BYTES_MAX STRING_BLOCK_BYTES_MAX
#define CTL_STRINGS_COUNT_MAX STRING_BLOCK_COUNT_MAX

enum ctl_state {
    CTL_STATE_BOOTING = 1,
    CTL_STATE_RUNNING = 2,
    CTL_STATE_STOPPING = 3,
    CTL_STATE_STOPPED = 4,
    CTL_STATE_FAILED = 5,
};

enum ctl_request_type {
    CTL_REQUEST_EXEC = 32,
    CTL_REQUEST_SESSION_OPEN = 33, /* answered by OK or ERROR */
    CTL_REQUEST_SESSION_EXEC = 34,
    CTL_REQUEST_SESSION_CLOSE = 35, /* answered by OK or ERROR */
    CTL_REQUEST_ATTACH = 36,        /* to a detached exec: STARTED, what was kept, and so on */
    CTL_REQUEST_KILL = 37,
    CTL_REQUEST_RESIZE = 38,
    CTL_REQUEST_SET_RULES = 39, /* the frame's one descriptor is a file as sandbox_spec_rules_encode() writes it */
    CTL_REQUEST_STATUS = 40,
    CTL_REQUEST_SYNC =
        41, /* answered by SYNCED where there is a codebase, when what was changed is in it for good; otherwise by
                              OK, when it is safe in the delta. Others go on meanwhile; one follows the other */
    CTL_REQUEST_WATCH = 42,
    CTL_REQUEST_STOP = 43,
    CTL_REQUEST_BASE_CHANGED = 44, /* somebody else changed the base: OK when the sandbox sees it */
    /* A supervisor of an earlier release does not know what follows, and hangs up. */
    CTL_REQUEST_QUIESCE = 45, /* OK when no file operation is under way and new ones wait */
    CTL_REQUEST_REVERT =
        46, /* paths that are to leave the delta at the RELEASE; with a descriptor, a regular file, it is one path,
                                 whose file in the delta gets that content */
    CTL_REQUEST_RELEASE = 47, /* OK when they are gone, everything goes on, and the sandbox sees it */
    CTL_REQUEST_FILE = 48,
    CTL_REQUEST_INPUT = 60, /* bytes for the terminal of a logged exec; the tag is that of the exec */
    CTL_REQUEST_END = 61, /* a logged exec is ended: SIGTERM to its tree, SIGKILL after the grace. OK when nothing of it runs */
};

/* A hold ends by itself after its limit, and with the connection; then nothing leaves the delta. There is one at a time. */
#define CTL_QUIESCE_MS_MAX 60000
#define CTL_REVERTS_MAX 65536             /* paths in one hold */
#define CTL_REVERTS_BYTES_MAX (16u << 20) /* of these */
#define CTL_REPLACEMENTS_MAX 512

enum ctl_file_op {
    CTL_FILE_STAT = 1, /* FILE */
    CTL_FILE_LIST = 2, /* LISTING: names behind `after`, in the order of their bytes */
    CTL_FILE_READ = 3, /* FILE, whose descriptor is a pipe with the content; OK when all was written to it, or ERROR */
    CTL_FILE_WRITE =
        4, /* the frame's one descriptor is a pipe or a regular file with `size` bytes; the file is made, or emptied first */
    CTL_FILE_MKDIR = 5,
    CTL_FILE_REMOVE = 6,
    CTL_FILE_RENAME = 7, /* `after` is the new path. A supervisor of an earlier release hangs up */
};

enum ctl_file_flag {
    CTL_FILE_PARENTS = 1 << 0,   /* WRITE, MKDIR, RENAME: directories above are made; MKDIR of one that is there is no error */
    CTL_FILE_RECURSIVE = 1 << 1, /* REMOVE: with all that is in it */
    CTL_FILE_EXCLUSIVE = 1 << 2, /* WRITE, RENAME: must not be there */
    CTL_FILE_ALL = (1 << 3) - 1,
};

#define CTL_PATH_MAX 4096 /* with its NUL */
#define CTL_FILE_SIZE_MAX ((uint64_t) 1 << 40)

enum ctl_run_flag {
    CTL_RUN_TTY = 1 << 0,      /* EXEC only: a terminal; its master is the descriptor of STARTED, and nothing comes as OUTPUT */
    CTL_RUN_DETACHED = 1 << 1, /* goes on when the connection ends */
    CTL_RUN_STDIN = 1 << 2,    /* EXEC only: the frame's first descriptor is its standard input; otherwise there is none */
    CTL_RUN_STRINGS_FD = 1 << 3, /* set by ctl_run_encode() */
    CTL_RUN_LOGGED = 1 << 4,     /* EXEC only: see above. With a terminal, its master stays with the supervisor */
    CTL_RUN_LIMITS = 1 << 5,     /* EXEC only: `limits` hold */
    CTL_RUN_ALL = (1 << 6) - 1,
};

/* Of each process of an exec; 0: none. They are rlimits, which children inherit. */
struct ctl_limits {
    uint64_t memory_bytes; /* of address space */
    uint64_t cpu_sec;
    uint64_t processes; /* of the sandbox's user, whichever exec they belong to */
    uint64_t files;     /* open at a time */
};

#define CTL_NOTE_MAX 1024 /* with its NUL */
#define CTL_INPUT_MAX 8192

/* EXEC, SESSION_OPEN, SESSION_EXEC. */
struct ctl_run {
    uint32_t flags;
    uint32_t timeout_ms;   /* of an exec, or idle time of a session; 0: none */
    uint64_t output_limit; /* bytes of each stream; what comes after is read and dropped, and FINISHED says so. 0: none */
    uint16_t rows, cols;
    struct ctl_limits limits; /* with CTL_RUN_LIMITS */
    uint32_t argc;
    uint32_t envc;
    uint32_t strings_len;
    const char *strings; /* borrowed, checked; NULL while they are in the memfd */
};

/* The strings of a ctl_run: name, session, cwd, arguments, environment, each ended by a NUL, in that order. A sender may leave
 * pointers NULL where there is nothing to say. */
struct ctl_command {
    const char *name; /* of the exec, or "" for one that the supervisor makes up; of SESSION_OPEN: likewise, the session's */
    const char
        *session; /* SESSION_EXEC: its name; of a logged exec what its record is to keep beside, CTL_NOTE_MAX; otherwise "" */
    const char *cwd; /* "": the workspace */
    const char *const
        *argv; /* EXEC: at least one; SESSION_OPEN: the shell's path, or none; SESSION_EXEC: exactly the command */
    const char *const *envp; /* "NAME=value" beside those of the sandbox */
};

enum ctl_kill_scope { CTL_KILL_MAIN = 0, CTL_KILL_TREE = 1 };

#define CTL_PATHS_BYTES_MAX 49152 /* of BASE_CHANGED: whoever has more to tell says that all may have changed */

/* Paths one after the other, each ended by a NUL and not empty. */
struct ctl_paths {
    uint32_t count;
    uint32_t len;
    const char *bytes; /* borrowed */
};

/* The next one, or NULL: for (const char *p = NULL; (p = ctl_paths_next(&paths, p));) */
const char *ctl_paths_next(const struct ctl_paths *paths, const char *last);

/* An operation on a file as the sandbox sees it: its rules hold. Links are told of, never followed. */
struct ctl_file_request {
    enum ctl_file_op op;
    uint32_t flags;
    uint32_t mode;         /* WRITE, MKDIR: of what is made; permission bits */
    uint64_t offset, size; /* READ: a range, size 0: to the end; WRITE: exactly so many bytes come, offset 0 */
    const char *path;      /* borrowed; relative to the workspace, "." is itself; not empty */
    const char *after;     /* LIST: the last name of the page before, or ""; RENAME: the new path */
};

struct ctl_request {
    enum ctl_request_type type;
    uint64_t tag;
    union {
        struct ctl_run run;
        struct {
            char name[CTL_NAME_MAX];
        } session_close, attach;
        struct {
            char by[CTL_NAME_MAX]; /* who is told to have made the version: the exec that ended; may be "" */
        } sync;
        struct ctl_paths base_changed; /* absolute; none: everything may have changed */
        struct {
            int32_t signal;
            enum ctl_kill_scope scope;
        } kill;
        struct {
            uint16_t rows, cols;
        } resize;
        struct {
            uint64_t after; /* the number of the last event that is known; 0: all that are kept */
        } watch;
        struct {
            uint32_t grace_ms; /* between SIGTERM and SIGKILL */
        } stop;
        struct {
            uint32_t wait_ms;  /* how long for operations under way */
            uint32_t limit_ms; /* how long it lasts at most; 1 to CTL_QUIESCE_MS_MAX */
        } quiesce;
        struct {
            struct ctl_paths paths; /* absolute */
            uint32_t replaces;      /* 0 or 1: descriptors */
        } revert;
        struct ctl_file_request file;
        struct {
            char name[CTL_NAME_MAX];
            uint32_t grace_ms;
        } end;
        struct {
            size_t len;        /* 1 to CTL_INPUT_MAX */
            const void *bytes; /* borrowed */
        } input;
    };
};

enum ctl_reply_type {
    CTL_REPLY_HELLO = 64,
    CTL_REPLY_STATE = 65,
    CTL_REPLY_OK = 66,
    CTL_REPLY_ERROR = 67,
    CTL_REPLY_STARTED = 68, /* with CTL_RUN_TTY the frame's one descriptor is the terminal's master */
    CTL_REPLY_OUTPUT = 69,
    CTL_REPLY_FINISHED = 70,
    CTL_REPLY_STATUS = 71,
    CTL_REPLY_EVENT = 72,
    CTL_REPLY_SYNCED = 73,
    CTL_REPLY_FILE = 74, /* of a READ the frame's one descriptor is the pipe */
    CTL_REPLY_LISTING = 75,
};

enum ctl_file_kind {
    CTL_FILE_REGULAR = 1,
    CTL_FILE_DIRECTORY = 2,
    CTL_FILE_SYMLINK = 3,
    CTL_FILE_OTHER = 4,
};

struct ctl_file {
    enum ctl_file_kind kind;
    uint32_t mode; /* permission bits, as shown inside */
    uint64_t size;
    int64_t mtime_ns;
    const char *text; /* borrowed; in a FILE a symlink's target, otherwise ""; in a LISTING the name */
};

#define CTL_LISTING_BYTES_MAX 15360

struct ctl_listing {
    uint8_t has_more;
    uint32_t count, len;
    const uint8_t *bytes; /* borrowed */
};

/* The next one: for (size_t at = 0; ctl_listing_next(&listing, &at, &file);) */
bool ctl_listing_next(const struct ctl_listing *listing, size_t *at, struct ctl_file *ret);

/* Adds an entry behind `len` bytes of `buf`, of CTL_LISTING_BYTES_MAX; false when there is no room. */
bool ctl_listing_add(struct ctl_listing *listing, uint8_t *buf, const struct ctl_file *file);

enum ctl_stream { CTL_STREAM_OUT = 1, CTL_STREAM_ERR = 2 };

enum ctl_end {
    CTL_END_EXITED = 1,
    CTL_END_SIGNALED = 2,
    CTL_END_TIMED_OUT = 3,
    CTL_END_NOT_STARTED = 4, /* `text` says why, `error` is the errno */
    CTL_END_LOST = 5,        /* the sandbox ended first */
    CTL_END_SESSION = 6,     /* the session ended before this command had its turn */
};

enum ctl_finished_flag {
    CTL_FINISHED_OUT_CUT = 1 << 0,
    CTL_FINISHED_ERR_CUT = 1 << 1,
    CTL_FINISHED_OOM = 1 << 2,            /* the memory limit was hit while it ran */
    CTL_FINISHED_SESSION_CLOSED = 1 << 3, /* the command ended its session */
    CTL_FINISHED_ALL = (1 << 4) - 1,
};

struct ctl_finished {
    enum ctl_end end;
    int32_t status; /* SIGNALED: the signal; EXITED: the exit code; otherwise either, or 0 */
    int32_t error;
    uint32_t flags;
    uint64_t wall_us, user_us, system_us, max_rss_kib;
    char text[CTL_TEXT_MAX];
};

struct ctl_status {
    enum ctl_state state;
    uint64_t pid;      /* the supervisor's; not 0 */
    uint64_t init_pid; /* as the host sees it; 0: not running */
    int64_t started_ns;
    uint32_t execs, sessions, clients;
    uint64_t used_bytes, used_inodes;
    uint64_t fence_requests, denials, denials_dropped;
    uint64_t last_event;
};

#define CTL_SYNCED_PATHS_MAX 12288 /* bytes of both lists */

struct ctl_synced {
    uint64_t version; /* of the codebase: a new one, or the current one when nothing changed */
    uint64_t change_count, conflict_count;
    uint64_t left_count;        /* what the codebase cannot hold, and stays in the delta */
    struct ctl_paths changes;   /* absolute, as BASE_CHANGED takes them; fewer than change_count: there are too many to list */
    struct ctl_paths conflicts; /* likewise, after a '-' where this sandbox's change lost, or a '+' where it won */
};

enum ctl_event_kind {
    CTL_EVENT_EXEC_STARTED = 1,  /* subject: its name; detail: the command */
    CTL_EVENT_EXEC_FINISHED = 2, /* subject: its name; numbers: enum ctl_end, status, wall_us */
    CTL_EVENT_DENIED = 3,        /* subject: path; detail: operation and level; numbers: errno, pid, repeats */
    CTL_EVENT_LIMIT = 4,         /* subject: "memory" or "pids"; numbers: count, limit */
    CTL_EVENT_SESSION_OPENED = 5,
    CTL_EVENT_SESSION_CLOSED = 6, /* subject: its name; detail: why; numbers: lifetime in us */
    CTL_EVENT_SYNC_CONFLICT = 7,  /* subject: path; detail: "lost" or "won"; numbers: the version, when this and the other was
                                     changed (ns) */
    CTL_EVENT_LAST = CTL_EVENT_SYNC_CONFLICT,
};

#define CTL_EVENT_NUMBERS 3

struct ctl_event {
    uint64_t number; /* counts from 1; what is missing between two was dropped */
    int64_t wall_ns;
    enum ctl_event_kind kind;
    int64_t numbers[CTL_EVENT_NUMBERS];
    const char *exec; /* borrowed strings; "" when there is none, for which a sender may say NULL */
    const char *subject;
    const char *detail;
};

struct ctl_reply {
    enum ctl_reply_type type;
    uint64_t tag; /* 0 for HELLO and STATE */
    union {
        struct {
            uint32_t version;
            enum ctl_state state;
            char name[CTL_NAME_MAX];
        } hello;
        struct {
            enum ctl_state state;
            enum err_code code; /* FAILED: why, not OK */
            char text[CTL_TEXT_MAX];
        } state;
        struct {
            enum err_code code; /* not OK */
            char text[CTL_TEXT_MAX];
        } error;
        struct {
            char name[CTL_NAME_MAX]; /* OK of SESSION_OPEN: the session's; otherwise "" */
        } ok;
        struct {
            char name[CTL_NAME_MAX];
            uint32_t pid; /* inside; 0: not known, as for a session's command */
        } started;
        struct {
            enum ctl_stream stream;
            uint64_t lost; /* bytes of this stream that were dropped before these: a detached exec printed too much */
            size_t len;
            const void *bytes; /* borrowed */
        } output;
        struct ctl_finished finished;
        struct ctl_status status;
        struct ctl_synced synced;
        struct ctl_event event;
        struct ctl_file file;
        struct ctl_listing listing;
    };
};

/* Room for any payload but those of ctl_run, BASE_CHANGED, REVERT and OUTPUT, which need FRAME_PAYLOAD_MAX. */
#define CTL_PROTO_SMALL_MAX 16384
#define CTL_OUTPUT_MAX (FRAME_PAYLOAD_MAX - 64) /* bytes in one OUTPUT */

/* Encoding puts the payload into `buf`, which `ret` then borrows, and which an OUTPUT's bytes may not overlap; descriptors are the
 * caller's to add. -EINVAL for what no decoder would take, -EMSGSIZE when `cap` is too small. EXEC, SESSION_OPEN and
 * SESSION_EXEC are made by ctl_run_encode(). */
int ctl_request_encode(const struct ctl_request *request, void *buf, size_t cap, struct frame *ret);
int ctl_reply_encode(const struct ctl_reply *reply, void *buf, size_t cap, struct frame *ret);

int ctl_request_decode(const struct frame *frame, struct ctl_request *ret);
int ctl_reply_decode(const struct frame *frame, struct ctl_reply *ret);

/* `buf` holds FRAME_PAYLOAD_MAX bytes. Of `run` flags, timeout_ms, output_limit, rows, cols and limits count. `stdin_fd` is put first
 * into the frame when CTL_RUN_STDIN is set. `ret_fd` is a sealed memfd with the strings when they do not fit, to be closed by
 * the caller when the frame was sent, or -1. -E2BIG: more than the limits above; -EINVAL. */
int ctl_run_encode(enum ctl_request_type type, uint64_t tag, const struct ctl_run *run, const struct ctl_command *command,
                   int stdin_fd, void *buf, struct frame *ret, int *ret_fd);

/* Maps the strings from their memfd into `run`, if they are there. -EINVAL when size or seals are not as they must be, -EPROTO
 * when the strings are not. The mapping lasts until ctl_run_unmap_strings(). */
int ctl_run_map_strings(struct ctl_run *run, const struct frame *frame);
void ctl_run_unmap_strings(struct ctl_run *run);

/* Points into the strings. `room` has argc + envc + 2 elements, and `ret` borrows it. */
void ctl_run_command(const struct ctl_run *run, const char **room, struct ctl_command *ret);

const char *ctl_state_name(enum ctl_state state);
const char *ctl_event_kind_name(enum ctl_event_kind kind); /* as in the audit log: "command_executed", "permission_denied" */
