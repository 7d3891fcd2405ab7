/*
 * What makes a command a process in the background (CTL_RUN_LOGGED): it goes on whoever asked for it leaves. What it prints goes to files
 * (log_file.h), and its record (wire/process_record.h) tells the rest, also when we are gone. With a terminal a client may be attached to
 * it, see what it prints and type; who attaches is first shown the end of the log. Such a client has heard the end when the first process
 * has ended; the process itself has ended when its whole tree has.
 *
 * A command owns its process and reports to it how it goes (command.h).
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

#define PROCESSES_KEPT_MAX 64 /* records of those that ended; the oldest go first, with their logs */
#define PROCESS_REPLAY_BYTES (64u << 10)

struct process {
    struct process *next, **slot; /* of the sandbox's list */
    struct sandbox *sandbox;
    struct task *task; /* borrowed: the command's */
    struct log_file log;
    struct tty_input tty_input; /* what goes into the terminal */
    struct process_record record;
    struct timer ending;
    bool was_killed;                /* SIGKILL was sent: `ending` then is how long it may take */
    struct process_waiter *waiters; /* owned */
};

/* The name of one that is to start: the wanted one, or one made in `made`. It is the name of files. */
int process_choose_name(const char *wanted, char made[ID_TEXT_MAX], const char **ret, struct err *err);

/* Begins its log and its record. `name` and `note` are as valid as process_choose_name() and the protocol want them. */
int process_new(struct sandbox *sandbox, struct task *task, const char *name, const char *text, const char *note, bool is_tty,
                struct process **ret, struct err *err);

/* One that has not started leaves nothing; of one that still ran the record says that it was lost. */
void process_free(struct process *process);

/* The record says so when these return. Stopped: nothing of it runs any more, or it never began. */
void process_note_started(struct process *process, uint32_t pid);
void process_note_exited(struct process *process, const struct ctl_finished *result);
void process_note_stopped(struct process *process);

/* Fills the ring buffer with the end of the log, which has what the last client did not get as well. */
void process_replay(const struct process *process, struct ring_buffer *ring);

/* END: the client hears OK when nothing of it runs. */
int process_end(struct sandbox *sandbox, struct client *client, uint64_t tag, const char *name, uint32_t grace_ms,
                struct err *err);

/* A client that may wait for an end has gone. */
void process_lose_client(struct sandbox *sandbox, const struct client *client);

/* Before the first: what an earlier supervisor left as running has ended with it. */
void process_recover_all(struct sandbox *sandbox);
