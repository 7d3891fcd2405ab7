/*
 * Runs programs in workspaces: commands that the caller waits for, background processes with logs, terminals.
 *
 * No shell is involved: a command is a program and its arguments. The supervisor keeps all state; these functions ask it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "service/caller.h"
#include "service/exec.h"
#include "service/profile.h"
#include "service/sandbox_info.h"
#include "wire/process_log.h"
#include "wire/process_record.h"

struct service;
struct sandbox_conn;

#define SANDBOX_OUTPUT_MAX ((uint64_t) 16 << 20) /* per stream, of a command that the caller waits for */
#define SANDBOX_LOG_READ_MAX ((size_t) 16 << 20)
#define SANDBOX_GRACE_MS_DEFAULT 2000

enum wish { WISH_NONE, WISH_YES, WISH_NO };

/* All borrowed. */
struct sandbox_command {
    const char *command;
    const char *const *args; /* ended by NULL, or NULL */
    const char *working_dir; /* "": the workspace; a relative path starts at the workspace */
    const struct pair_list *env;
    const char *profile; /* "": the default */
    enum wish network;
    struct execution_limits limits;
    const void *input;
    size_t input_len;
    const char *label;      /* of a process: its name for people; "" */
    const char *session_id; /* of a process: any text of the caller's for finding it; "" */
    uint16_t rows, cols;    /* of a terminal */
    bool is_piped;          /* where a terminal is possible: three pipes instead */
    int64_t timeout_ns;     /* finer than the limits' timeout; 0: use that */
    uint64_t output_limit;  /* 0: SANDBOX_OUTPUT_MAX */
};

struct sandbox_exec_result {
    uint32_t pid;
    int exit_code; /* 128 + n for signals, 124 when it took too long */
    int signal;    /* 0: none */
    bool timed_out, out_cut, err_cut, ran_out_of_memory;
    int64_t duration_ns;
};

/* Runs it to its end and passes output to `fn` as it arrives. Kills it when the caller no longer waits (its cancel_fd): -ECANCELED. A
 * command that timed out is not an error. */
int sandbox_exec(struct service *service, const struct caller *caller, const char *id, const struct sandbox_command *command,
                 exec_output_fn fn, void *cookie, struct sandbox_exec_result *ret, struct err *err);

/* ---- processes ---- */

struct process_info {
    struct process_record record;
    char *label, *session_id; /* owned */
    bool is_running;
};

void process_info_done(struct process_info *info);

struct process_info_list {
    struct process_info *items; /* owned; the oldest first */
    size_t count, running;
};

void process_info_list_done(struct process_info_list *list);

int sandbox_process_start(struct service *service, const struct caller *caller, const char *id,
                          const struct sandbox_command *command, struct process_info *ret, struct err *err);

/* Also for a sandbox that does not run. */
int sandbox_process_list(struct service *service, const struct caller *caller, const char *id, struct process_info_list *ret,
                         struct err *err);

/* `which` is the process's id ("pr_...") or its pid. Of several processes with that pid it returns the running one, or else the last.
 * -ENOENT. */
int sandbox_process_find(struct service *service, const struct caller *caller, const char *id, const char *which,
                         struct process_info *ret, struct err *err);

/* After 0 all its processes have ended. Returns 0 also if they had ended before. */
int sandbox_process_end(struct service *service, const struct caller *caller, const char *id, const char *which,
                        uint32_t grace_ms, struct err *err);

/* Returns how many ended, and one line for each that did not, with its id and the reason. */
int sandbox_process_end_all(struct service *service, const struct caller *caller, const char *id, uint32_t grace_ms,
                            size_t *ret_count, struct buf *failures, struct err *err);

/* For all sandboxes that the caller sees: calls `fn` for each workspace that runs. */
typedef void (*sandbox_process_count_fn)(const char *id, size_t tracked, size_t running, void *cookie);
void sandbox_process_count(struct service *service, const struct caller *caller, sandbox_process_count_fn fn, void *cookie);

/* ---- logs ---- */

/* A log opened for reading while the supervisor writes it. */
struct sandbox_log {
    int dir_fd;     /* owned; of the processes */
    int sandbox_fd; /* owned; its lock shows whether the sandbox runs */
    char *path;     /* owned: of the newest file */
    struct process_info process;
    struct process_log log;
};

#define SANDBOX_LOG_NONE ((struct sandbox_log){ .dir_fd = -1, .sandbox_fd = -1 })

int sandbox_log_open(struct service *service, const struct caller *caller, const char *id, const char *which,
                     struct sandbox_log *ret, struct err *err);
void sandbox_log_done(struct sandbox_log *log);

/* Reads what has been added, and whether more may follow. */
int sandbox_log_refresh(struct sandbox_log *log);

/* Adds bytes from `offset` on, at most `max`, to `out`. */
int sandbox_log_read(struct sandbox_log *log, uint64_t offset, size_t max, struct buf *out, struct err *err);

/* Returns the offset of the last `lines` lines. A last line without a newline counts. */
int sandbox_log_tail(struct sandbox_log *log, uint64_t lines, uint64_t *ret_offset, struct err *err);

/* Receives bytes of a log that start at offset `at`. Returns how many it consumed, 0 to wait for more, or a negative errno. `is_end`: no
 * more will follow. */
typedef ssize_t (*sandbox_log_fn)(const void *bytes, size_t len, uint64_t at, bool is_end, void *cookie);

/* Passes what the log has from `*at` on, and what is added, until the process has ended; advances `*at`. -ECANCELED when `cancel_fd` is
 * readable. */
int sandbox_log_follow(struct sandbox_log *log, uint64_t *at, int cancel_fd, sandbox_log_fn fn, void *cookie, struct err *err);

/* Returns true if calls are being cancelled because the server ends: then commands must not be ended with them. */
bool service_is_ending(struct service *service);

/* Returns 0 if the sandbox exists and is active. */
int sandbox_check_active(struct service *service, const struct caller *caller, const char *id, struct err *err);
