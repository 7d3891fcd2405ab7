/*
 * Running things in workspaces: commands that are waited for, processes in the background with their logs, terminals.
 *
 * Nothing here has a shell in between: a command is a program and its arguments. All of it is the supervisor's to keep; this asks.
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

#define SANDBOX_OUTPUT_MAX ((uint64_t) 16 << 20) /* of each stream of a command that is waited for */
#define SANDBOX_LOG_READ_MAX ((size_t) 16 << 20)
#define SANDBOX_GRACE_MS_DEFAULT 2000

enum wish { WISH_NONE, WISH_YES, WISH_NO };

/* All borrowed. */
struct sandbox_command {
    const char *command;
    const char *const *args; /* ended by NULL, or NULL */
    const char *working_dir; /* "": the workspace; relative ones count from there */
    const struct pair_list *env;
    const char *profile; /* "": the default */
    enum wish network;
    struct execution_limits limits;
    const void *input;
    size_t input_len;
    const char *label;      /* of a process: what people call it; "" */
    const char *session_id; /* of a process: whatever the caller wants to find it by; "" */
    uint16_t rows, cols;    /* of a terminal */
    bool is_piped;          /* where there may be a terminal: three pipes instead */
    int64_t timeout_ns;     /* finer than that of the limits; 0: that */
    uint64_t output_limit;  /* 0: SANDBOX_OUTPUT_MAX */
};

struct sandbox_exec_result {
    uint32_t pid;
    int exit_code; /* 128 + n for signals, 124 when it took too long */
    int signal;    /* 0: none */
    bool timed_out, out_cut, err_cut, ran_out_of_memory;
    int64_t duration_ns;
};

/* Runs it to its end. Output goes to `fn` as it comes. When nobody waits any more (the caller's cancel_fd) it is killed: -ECANCELED. One
 * that took too long is no error. */
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

/* Also of one that does not run. */
int sandbox_process_list(struct service *service, const struct caller *caller, const char *id, struct process_info_list *ret,
                         struct err *err);

/* `which` is the process's id ("pr_...") or its pid: then the one that runs, or else the last that had it. -ENOENT. */
int sandbox_process_find(struct service *service, const struct caller *caller, const char *id, const char *which,
                         struct process_info *ret, struct err *err);

/* Nothing of it runs when this returns 0. One that has ended is fine. */
int sandbox_process_end(struct service *service, const struct caller *caller, const char *id, const char *which,
                        uint32_t grace_ms, struct err *err);

/* How many ended, and the ids of those that did not with why, one line each. */
int sandbox_process_end_all(struct service *service, const struct caller *caller, const char *id, uint32_t grace_ms,
                            size_t *ret_count, struct buf *failures, struct err *err);

/* Of all that the caller sees: called for each workspace that runs. */
typedef void (*sandbox_process_count_fn)(const char *id, size_t tracked, size_t running, void *cookie);
void sandbox_process_count(struct service *service, const struct caller *caller, sandbox_process_count_fn fn, void *cookie);

/* ---- logs ---- */

/* A log that is open for reading, whoever writes it meanwhile. */
struct sandbox_log {
    int dir_fd;     /* owned; of the processes */
    int sandbox_fd; /* owned; whose lock tells whether it runs */
    char *path;     /* owned: of the newest file */
    struct process_info process;
    struct process_log log;
};

#define SANDBOX_LOG_NONE ((struct sandbox_log){ .dir_fd = -1, .sandbox_fd = -1 })

int sandbox_log_open(struct service *service, const struct caller *caller, const char *id, const char *which,
                     struct sandbox_log *ret, struct err *err);
void sandbox_log_done(struct sandbox_log *log);

/* What has come meanwhile, and whether more may come. */
int sandbox_log_refresh(struct sandbox_log *log);

/* Adds the bytes from `offset` on, at most `max`. */
int sandbox_log_read(struct sandbox_log *log, uint64_t offset, size_t max, struct buf *out, struct err *err);

/* Where the last `lines` lines begin. A last line without its end is one. */
int sandbox_log_tail(struct sandbox_log *log, uint64_t lines, uint64_t *ret_offset, struct err *err);

/* Takes bytes of a log that begin at `at`. Returns how many it took, 0 if it waits for more, or a negative errno. `is_end`: no more will come. */
typedef ssize_t (*sandbox_log_fn)(const void *bytes, size_t len, uint64_t at, bool is_end, void *cookie);

/* Hands over what there is from `*at` on and what comes, until the process has ended; moves `*at` on. -ECANCELED when `cancel_fd` is readable. */
int sandbox_log_follow(struct sandbox_log *log, uint64_t *at, int cancel_fd, sandbox_log_fn fn, void *cookie, struct err *err);

/* Whether those who are cancelled now are so because the server ends: then nothing is ended with them. */
bool service_is_ending(struct service *service);

/* 0 when it is there, and active. */
int sandbox_check_active(struct service *service, const struct caller *caller, const char *id, struct err *err);
