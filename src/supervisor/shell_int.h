/* A session in pieces: what the files of shell.h share. */
#pragma once

#include "supervisor/init_link.h"
#include "supervisor/pipe_reader.h"
#include "supervisor/run.h"
#include "supervisor/sandbox.h"
#include "supervisor/shell.h"
#include "supervisor/shell_proto.h"
#include "supervisor/shell_stdin.h"

#define SHELL_ANSWER_MS 10000 /* to say that it is there */
#define SHELL_CHANNEL_LINE_MAX 64

enum shell_phase { SHELL_OPENING, SHELL_IDLE, SHELL_BUSY, SHELL_INTERRUPTING, SHELL_SETTLING, SHELL_CLOSED };

/* A command given to a session. */
struct shell_command {
    struct run run;
    struct shell *shell;        /* NULL: it has left it */
    struct shell_command *next; /* of the shell's queue */
    uint32_t timeout_ms;
    char *text; /* owned */
};

struct shell {
    struct sandbox *sandbox;
    struct shell *next, **slot;
    char name[CTL_NAME_MAX];
    const struct shell_proto *shell_proto;
    enum shell_phase phase;
    struct task task;
    struct task barrier; /* see shell_interrupt.c */
    struct pipe_reader readers[2];
    struct pipe_reader channel;
    char report[SHELL_CHANNEL_LINE_MAX];
    size_t report_len;
    struct shell_stdin shell_stdin; /* its standard input */
    int text_fd;                    /* owned: the memory file */
    unsigned long long number;
    unsigned attempt; /* how often it was asked to say the number */
    struct shell_command *current, *queue;
    uint64_t since_ticks; /* when the current one began */
    bool timed_out;
    unsigned interrupt_step, probe_count;
    struct timer timer; /* of the phase: opening, idle, the command's, the interrupt's, the probe's */
    uint32_t idle_ms;
    int64_t began_ns;
    struct client *opener; /* who waits for it to open */
    uint64_t opener_tag;
};

/* ---- its life: shell.c ---- */

struct shell *shell_find(struct sandbox *sandbox, const char *name);
void shell_free(struct shell *shell);
extern const struct task_ops shell_task_ops;

/* Answers whoever waits for the session to open. */
void shell_notify_opener(struct shell *shell, const char *problem);

void shell_become_idle(struct shell *shell);

/* No more commands; what is queued is told so. The shell itself may still have processes. */
void shell_close_down(struct shell *shell, enum ctl_end end, int status, const char *why);

/* ---- what it is told, and says: shell_io.c ---- */

/* Standard input, output and error, the channel and the text, for the shell's process. */
int shell_open_channels(struct shell *shell, int fds[5]);

/* What is said under an older number is not heard any more. */
void shell_next_number(struct shell *shell);

/* Asks it to say the number, which it can be asked again: what does not come from a command is heard once. */
int shell_request_report(struct shell *shell);

/* The same after a signal, unless it has not read the last question yet. */
void shell_request_report_again(struct shell *shell);

/* ---- its commands: shell_command.c ---- */

/* Where it is idle, and something is queued. */
void shell_begin_next(struct shell *shell);
void shell_finish_current(struct shell *shell, int status);
void shell_end_command(struct shell_command *command, enum ctl_end end, int status, uint32_t flags, const char *text);

/* ---- getting it back: shell_interrupt.c ---- */

/* Stops the current command as Ctrl-C would, and by force if that is not enough. */
void shell_interrupt(struct shell *shell);

/* After that: the next command waits until no signal is on its way any more. */
void shell_settle(struct shell *shell);
