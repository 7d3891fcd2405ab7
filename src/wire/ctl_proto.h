/*
 * The protocol between a client (serve, run) and the supervisor of one sandbox. Each message is one frame.
 *
 *     supervisor                               client
 *       │  HELLO, then STATE at each change and, │
 *       │  with a text, while the sandbox boots  │
 *       │────────────────────────────────────────▶
 *       │             EXEC, SESSION_..., ATTACH  │   the frame's id is a tag that the client chooses, not 0
 *       ◀────────────────────────────────────────│
 *       │  STARTED, OUTPUT..., FINISHED          │   with that tag; or a single ERROR
 *       │────────────────────────────────────────▶
 *       │                          KILL, RESIZE  │   with the tag of their exec; no answer
 *       ◀────────────────────────────────────────│
 *       │                                 INPUT  │   with the tag of its exec; OK when the terminal took it, then the next may come
 *       ◀────────────────────────────────────────│
 *       │       STATUS, SET_RULES, SYNC, WATCH   │   one OK, STATUS, SYNCED or ERROR with their tag; WATCH is followed by EVENTs
 *       │                          BASE_CHANGED  │
 *       │              QUIESCE, REVERT, RELEASE  │   one OK or ERROR each: see below
 *       │                                  FILE  │   one FILE, LISTING, OK or ERROR; a READ gives a FILE, then OK or ERROR
 *       │                                   END  │   OK or ERROR
 *       │                                  STOP  │   STATE stopping, STATE stopped, end of the connection
 *
 * The supervisor sends output as fast as the client reads. A client that does not read blocks the command and every other exec
 * on the same connection, so a client that wants independent execs opens one connection for each. When a connection ends, the
 * supervisor kills the execs that were started on it, except those with CTL_RUN_DETACHED: it keeps their output, up to a bound,
 * for a client that attaches later.
 *
 * A logged exec (CTL_RUN_LOGGED) is a background process. It never depends on a connection, and its output goes to files (see
 * process_record.h). If it has a terminal, clients may also attach; they first receive the last part of the earlier output. Its
 * name identifies it.
 *
 * A command's standard input must be a pipe or a socket, so that no file of the host enters the sandbox.
 *
 * Every request has a tag, even if it has no answer. This protocol checks only the length of names, paths and texts; the code
 * that uses them checks their content.
 *
 * Decoding allocates nothing, and its results borrow from the frame. A decoder returns -EPROTO for unknown types, values out of
 * range, strings without a NUL, unexpected descriptors, missing bytes and excess bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/frame.h"
#include "wire/string_block.h"

#define CTL_PROTO_VERSION 2
#define CTL_NAME_MAX 64 /* of a sandbox, an exec or a session, including the NUL */
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
    CTL_REQUEST_ATTACH = 36,        /* attaches to a detached exec: STARTED, the kept output, and so on */
    CTL_REQUEST_KILL = 37,
    CTL_REQUEST_RESIZE = 38,
    CTL_REQUEST_SET_RULES = 39, /* with one descriptor: a file in the format of sandbox_spec_rules_encode() */
    CTL_REQUEST_STATUS = 40,
    /* With a codebase answered by SYNCED when the changes are durable in it, otherwise by OK when they are durable in the delta.
     * Other requests continue meanwhile; further SYNCs wait. */
    CTL_REQUEST_SYNC = 41,
    CTL_REQUEST_WATCH = 42,
    CTL_REQUEST_STOP = 43,
    CTL_REQUEST_BASE_CHANGED = 44, /* another program changed the base; OK when the sandbox sees the changes */
    /* Supervisors of earlier releases do not know the following types and close the connection. */
    CTL_REQUEST_QUIESCE = 45, /* OK when no file operation runs and new ones wait */
    /* Paths to remove from the delta at the RELEASE; with a descriptor, a regular file, one path whose file in the delta gets
     * that content. */
    CTL_REQUEST_REVERT = 46,
    CTL_REQUEST_RELEASE = 47, /* OK when the paths are removed, operations continue and the sandbox sees the result */
    CTL_REQUEST_FILE = 48,
    CTL_REQUEST_INPUT = 60, /* bytes for the terminal of a logged exec; the tag is that of the exec */
    /* Ends a logged exec: SIGTERM to its tree, SIGKILL after the grace period. OK when its tree is empty. */
    CTL_REQUEST_END = 61,
};

/* Quiescence ends by itself after its limit and with its connection; then the delta stays unchanged. Only one client at a time
 * can quiesce a sandbox. */
#define CTL_QUIESCE_MS_MAX 60000
#define CTL_REVERTS_MAX 65536             /* paths per quiescence */
#define CTL_REVERTS_BYTES_MAX (16u << 20) /* total bytes of these paths */
#define CTL_REPLACEMENTS_MAX 512

enum ctl_file_op {
    CTL_FILE_STAT = 1,  /* answered by FILE */
    CTL_FILE_LIST = 2,  /* answered by LISTING: the names after `after` in byte order */
    CTL_FILE_READ = 3,  /* answered by FILE with a pipe for the content; then OK when all content was written to it, or ERROR */
    CTL_FILE_WRITE = 4, /* with one descriptor: a pipe or a regular file with `size` bytes; the file is created or truncated */
    CTL_FILE_MKDIR = 5,
    CTL_FILE_REMOVE = 6,
    CTL_FILE_RENAME = 7, /* `after` is the new path; supervisors of earlier releases close the connection */
};

enum ctl_file_flag {
    CTL_FILE_PARENTS = 1 << 0,   /* WRITE, MKDIR, RENAME: create missing parents; MKDIR of an existing directory succeeds */
    CTL_FILE_RECURSIVE = 1 << 1, /* REMOVE: with everything beneath */
    CTL_FILE_EXCLUSIVE = 1 << 2, /* WRITE, RENAME: fail if the target exists */
    CTL_FILE_ALL = (1 << 3) - 1,
};

#define CTL_PATH_MAX 4096 /* including the NUL */
#define CTL_FILE_SIZE_MAX ((uint64_t) 1 << 40)

enum ctl_run_flag {
    CTL_RUN_TTY = 1 << 0,        /* EXEC only: a terminal; STARTED carries its master, and there is no OUTPUT */
    CTL_RUN_DETACHED = 1 << 1,   /* continues when the connection ends */
    CTL_RUN_STDIN = 1 << 2,      /* EXEC only: the frame's first descriptor is the standard input; otherwise there is none */
    CTL_RUN_STRINGS_FD = 1 << 3, /* set by ctl_run_encode() */
    CTL_RUN_LOGGED = 1 << 4,     /* EXEC only: see above; the supervisor keeps the master of its terminal */
    CTL_RUN_LIMITS = 1 << 5,     /* EXEC only: `limits` apply */
    CTL_RUN_ALL = (1 << 6) - 1,
};

/* Limits of each process of an exec, as rlimits, which children inherit; 0: none. */
struct ctl_limits {
    uint64_t memory_bytes; /* address space */
    uint64_t cpu_sec;
    uint64_t processes; /* counts all processes of the sandbox's user */
    uint64_t files;     /* open at the same time */
};

#define CTL_NOTE_MAX 1024 /* including the NUL */
#define CTL_INPUT_MAX 8192

/* The body of EXEC, SESSION_OPEN and SESSION_EXEC. */
struct ctl_run {
    uint32_t flags;
    uint32_t timeout_ms;   /* run time of an exec, or idle time of a session; 0: no limit */
    uint64_t output_limit; /* bytes per stream; further output is dropped, which FINISHED reports; 0: no limit */
    uint16_t rows, cols;
    struct ctl_limits limits; /* with CTL_RUN_LIMITS */
    uint32_t argc;
    uint32_t envc;
    uint32_t strings_len;
    const char *strings; /* borrowed and checked; NULL while they are in the memfd */
};

/* The strings of a ctl_run: name, session, cwd, arguments, environment, in that order, each NUL-terminated. A sender may leave
 * pointers NULL for empty strings. */
struct ctl_command {
    const char *name; /* of the exec or, in SESSION_OPEN, of the session; "": the supervisor chooses one */
    /* SESSION_EXEC: the session's name; logged exec: the note for its record, at most CTL_NOTE_MAX; otherwise "". */
    const char *session;
    const char *cwd; /* "": the workspace */
    /* EXEC: at least one; SESSION_OPEN: the shell's path or nothing; SESSION_EXEC: exactly the command. */
    const char *const *argv;
    const char *const *envp; /* "NAME=value", in addition to the sandbox's environment */
};

enum ctl_kill_scope { CTL_KILL_MAIN = 0, CTL_KILL_TREE = 1 };

#define CTL_PATHS_BYTES_MAX 49152 /* of BASE_CHANGED; a client with more changes reports that everything may have changed */

/* Paths in sequence, each NUL-terminated and not empty. */
struct ctl_paths {
    uint32_t count;
    uint32_t len;
    const char *bytes; /* borrowed */
};

/* Returns the next path or NULL: for (const char *p = NULL; (p = ctl_paths_next(&paths, p));) */
const char *ctl_paths_next(const struct ctl_paths *paths, const char *last);

/* An operation on a file as the sandbox sees it, under its rules. Never follows links. */
struct ctl_file_request {
    enum ctl_file_op op;
    uint32_t flags;
    uint32_t mode;         /* WRITE, MKDIR: permission bits of the new file */
    uint64_t offset, size; /* READ: a range, size 0: to the end; WRITE: the exact size, offset 0 */
    const char *path;      /* borrowed; relative to the workspace, "." is the workspace; not empty */
    const char *after;     /* LIST: the last name of the previous page, or ""; RENAME: the new path */
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
            char by[CTL_NAME_MAX]; /* the author of the version: the exec that ended; may be "" */
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
            uint64_t after; /* the number of the last event that the client knows; 0: send all that are kept */
        } watch;
        struct {
            uint32_t grace_ms; /* between SIGTERM and SIGKILL */
        } stop;
        struct {
            uint32_t wait_ms;  /* how long to wait for running operations */
            uint32_t limit_ms; /* the longest duration; 1 to CTL_QUIESCE_MS_MAX */
        } quiesce;
        struct {
            struct ctl_paths paths; /* absolute */
            uint32_t replaces;      /* number of descriptors: 0 or 1 */
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
    CTL_REPLY_FILE = 74, /* for a READ the frame's one descriptor is the pipe */
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
    uint32_t mode; /* permission bits as the sandbox sees them */
    uint64_t size;
    int64_t mtime_ns;
    const char *text; /* borrowed; in a FILE the target of a symlink, otherwise ""; in a LISTING the name */
};

#define CTL_LISTING_BYTES_MAX 15360

struct ctl_listing {
    uint8_t has_more;
    uint32_t count, len;
    const uint8_t *bytes; /* borrowed */
};

/* Reads the next entry: for (size_t at = 0; ctl_listing_next(&listing, &at, &file);) */
bool ctl_listing_next(const struct ctl_listing *listing, size_t *at, struct ctl_file *ret);

/* Appends an entry after `len` bytes of `buf`, which has CTL_LISTING_BYTES_MAX. Returns false if it does not fit. */
bool ctl_listing_add(struct ctl_listing *listing, uint8_t *buf, const struct ctl_file *file);

enum ctl_stream { CTL_STREAM_OUT = 1, CTL_STREAM_ERR = 2 };

enum ctl_end {
    CTL_END_EXITED = 1,
    CTL_END_SIGNALED = 2,
    CTL_END_TIMED_OUT = 3,
    CTL_END_NOT_STARTED = 4, /* `text` gives the reason, `error` the errno */
    CTL_END_LOST = 5,        /* the sandbox ended first */
    CTL_END_SESSION = 6,     /* the session ended before this command ran */
};

enum ctl_finished_flag {
    CTL_FINISHED_OUT_CUT = 1 << 0,
    CTL_FINISHED_ERR_CUT = 1 << 1,
    CTL_FINISHED_OOM = 1 << 2,            /* the memory limit was reached while it ran */
    CTL_FINISHED_SESSION_CLOSED = 1 << 3, /* the command ended its session */
    CTL_FINISHED_ALL = (1 << 4) - 1,
};

struct ctl_finished {
    enum ctl_end end;
    int32_t status; /* SIGNALED: the signal; EXITED: the exit code; otherwise one of the two, or 0 */
    int32_t error;
    uint32_t flags;
    uint64_t wall_us, user_us, system_us, max_rss_kib;
    char text[CTL_TEXT_MAX];
};

struct ctl_status {
    enum ctl_state state;
    uint64_t pid;      /* of the supervisor; not 0 */
    uint64_t init_pid; /* host pid; 0: not running */
    int64_t started_ns;
    uint32_t execs, sessions, clients;
    uint64_t used_bytes, used_inodes;
    uint64_t fence_requests, denials, denials_dropped;
    uint64_t last_event;
};

#define CTL_SYNCED_PATHS_MAX 12288 /* bytes of both lists together */

struct ctl_synced {
    uint64_t version; /* of the codebase: the new one, or the current one if nothing changed */
    uint64_t change_count, conflict_count;
    uint64_t left_count;        /* changes that the codebase cannot store, which stay in the delta */
    struct ctl_paths changes;   /* absolute, as in BASE_CHANGED; fewer than change_count if there are too many to list */
    struct ctl_paths conflicts; /* likewise, after a '-' if this sandbox's change lost, or a '+' if it won */
};

enum ctl_event_kind {
    CTL_EVENT_EXEC_STARTED = 1,  /* subject: its name; detail: the command */
    CTL_EVENT_EXEC_FINISHED = 2, /* subject: its name; numbers: enum ctl_end, status, wall_us */
    CTL_EVENT_DENIED = 3,        /* subject: path; detail: operation and level; numbers: errno, pid, repeats */
    CTL_EVENT_LIMIT = 4,         /* subject: "memory" or "pids"; numbers: count, limit */
    CTL_EVENT_SESSION_OPENED = 5,
    CTL_EVENT_SESSION_CLOSED = 6, /* subject: its name; detail: why; numbers: lifetime in us */
    /* subject: path; detail: "lost" or "won"; numbers: the version, when this and the other was changed (ns) */
    CTL_EVENT_SYNC_CONFLICT = 7,
    CTL_EVENT_LAST = CTL_EVENT_SYNC_CONFLICT,
};

#define CTL_EVENT_NUMBERS 3

struct ctl_event {
    uint64_t number; /* counts from 1; a gap means that events were dropped */
    int64_t wall_ns;
    enum ctl_event_kind kind;
    int64_t numbers[CTL_EVENT_NUMBERS];
    const char *exec; /* borrowed strings; "" if there is none, for which a sender may pass NULL */
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
            enum err_code code; /* FAILED: the reason, not OK */
            char text[CTL_TEXT_MAX];
        } state;
        struct {
            enum err_code code; /* not OK */
            char text[CTL_TEXT_MAX];
        } error;
        struct {
            char name[CTL_NAME_MAX]; /* OK of SESSION_OPEN: the session's name; otherwise "" */
        } ok;
        struct {
            char name[CTL_NAME_MAX];
            uint32_t pid; /* inside the sandbox; 0: unknown, as for a session's command */
        } started;
        struct {
            enum ctl_stream stream;
            uint64_t lost; /* bytes of this stream that were dropped before these, because a detached exec printed too much */
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

/* Enough for every payload except those of ctl_run, BASE_CHANGED, REVERT and OUTPUT, which need FRAME_PAYLOAD_MAX. */
#define CTL_PROTO_SMALL_MAX 16384
#define CTL_OUTPUT_MAX (FRAME_PAYLOAD_MAX - 64) /* bytes in one OUTPUT */

/* Encoders write the payload into `buf`, from which `ret` borrows; the bytes of an OUTPUT must not overlap it. The caller adds
 * descriptors. -EINVAL for values that no decoder accepts, -EMSGSIZE if `cap` is too small. For EXEC, SESSION_OPEN and
 * SESSION_EXEC use ctl_run_encode(). */
int ctl_request_encode(const struct ctl_request *request, void *buf, size_t cap, struct frame *ret);
int ctl_reply_encode(const struct ctl_reply *reply, void *buf, size_t cap, struct frame *ret);

int ctl_request_decode(const struct frame *frame, struct ctl_request *ret);
int ctl_reply_decode(const struct frame *frame, struct ctl_reply *ret);

/* `buf` holds FRAME_PAYLOAD_MAX bytes. Uses flags, timeout_ms, output_limit, rows, cols and limits of `run`. With CTL_RUN_STDIN
 * `stdin_fd` becomes the first descriptor of the frame. `ret_fd` is a sealed memfd with the strings if they do not fit,
 * otherwise -1; the caller closes it after sending the frame. -E2BIG beyond the limits above; -EINVAL. */
int ctl_run_encode(enum ctl_request_type type, uint64_t tag, const struct ctl_run *run, const struct ctl_command *command,
                   int stdin_fd, void *buf, struct frame *ret, int *ret_fd);

/* Maps the strings from their memfd, if there is one, until ctl_run_unmap_strings(). -EINVAL if size or seals are wrong,
 * -EPROTO if the strings are. */
int ctl_run_map_strings(struct ctl_run *run, const struct frame *frame);
void ctl_run_unmap_strings(struct ctl_run *run);

/* Sets pointers into the strings. `room` has argc + envc + 2 elements, and `ret` borrows it. */
void ctl_run_command(const struct ctl_run *run, const char **room, struct ctl_command *ret);

const char *ctl_state_name(enum ctl_state state);
