/*
 * The part of a command that makes it a background process (CTL_RUN_LOGGED). It continues when its client leaves. Its output
 * goes to files (log_file.h), and its record (wire/process_record.h) describes the rest, also after our end. If it has a
 * terminal, a client may attach, see its output and type; an attached client first sees the end of the log. Such a client hears
 * the end when the first process has ended; the background process has ended when its whole tree has.
 *
 * A command owns its struct process and reports its progress to it (command.h).
 */
#pragma once

#include "base/err.h"
#include "base/id.h"
#include "supervisor/init_link.h"
#include "supervisor/log_file.h"
#include "supervisor/ring_buffer.h"
#include "supervisor/tty_input.h"
#include "wire/ctl_proto.h"
#include "wire/process_record.h"

struct client;
struct process_waiter;
struct sandbox;

#define PROCESSES_KEPT_MAX 64 /* records of ended processes; the oldest are deleted first, with their logs */
#define PROCESS_REPLAY_BYTES (64u << 10)

struct process {
    struct process *next, **slot; /* links of the sandbox's list */
    struct sandbox *sandbox;
    struct task *task; /* borrowed from the command */
    struct log_file log;
    struct tty_input tty_input; /* input of the terminal */
    struct process_record record;
    struct timer ending;
    bool was_killed;                /* SIGKILL was sent; `ending` now limits how long that may take */
    struct process_waiter *waiters; /* owned */
};

/* Chooses the name of a new process: the wanted name, or a new one in `made`. It becomes part of file names. */
int process_choose_name(const char *wanted, char made[ID_TEXT_MAX], const char **ret, struct err *err);

/* Creates its log and record. `name` is from process_choose_name(), and the protocol has checked `note`. */
int process_new(struct sandbox *sandbox, struct task *task, const char *name, const char *text, const char *note, bool is_tty,
                struct process **ret, struct err *err);

/* A process that has not started leaves nothing; the record of one that still ran says that it was lost. */
void process_free(struct process *process);

/* The record is stored when these return. Stopped means that nothing of it runs any more, or that it never started. */
void process_note_started(struct process *process, uint32_t pid);
void process_note_exited(struct process *process, const struct ctl_finished *result);
void process_note_stopped(struct process *process);

/* Fills the ring buffer with the end of the log, which includes what the last client did not get. */
void process_replay(const struct process *process, struct ring_buffer *ring);

/* END: the client gets OK when nothing of the process runs. */
int process_end(struct sandbox *sandbox, struct client *client, uint64_t tag, const char *name, uint32_t grace_ms,
                struct err *err);

/* A client that may wait for an end has gone. */
void process_lose_client(struct sandbox *sandbox, const struct client *client);

/* Call it before the first process starts: marks the processes that an earlier supervisor left as running as ended. */
void process_recover_all(struct sandbox *sandbox);
