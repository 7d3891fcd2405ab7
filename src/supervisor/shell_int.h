/* A session's structures and functions, shared by the files that implement shell.h. */
#pragma once

#include "supervisor/init_link.h"
#include "supervisor/pipe_reader.h"
#include "supervisor/run.h"
#include "supervisor/sandbox.h"
#include "supervisor/shell.h"
#include "supervisor/shell_proto.h"
#include "supervisor/shell_stdin.h"

#define SHELL_ANSWER_MS 10000 /* limit for the answer to the first request */
#define SHELL_CHANNEL_LINE_MAX 64

enum shell_phase { SHELL_OPENING, SHELL_IDLE, SHELL_BUSY, SHELL_INTERRUPTING, SHELL_SETTLING, SHELL_CLOSED };

/* A command given to a session. */
struct shell_command {
    struct run run;
    struct shell *shell;        /* NULL: not in a session any more */
    struct shell_command *next; /* in the shell's queue */
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
    struct task barrier; /* see shell_command.c */
    struct pipe_reader readers[2];
    struct pipe_reader channel;
    char report[SHELL_CHANNEL_LINE_MAX];
    size_t report_len;
    struct shell_stdin shell_stdin; /* its standard input */
    int text_fd;                    /* owned: the memory file with the command's text */
    unsigned long long number;
    unsigned attempt; /* how often this number was requested */
    struct shell_command *current, *queue;
    uint64_t since_ticks; /* when the current command began */
    bool timed_out;
    unsigned interrupt_step, probe_count;
    struct timer timer; /* of the phase: opening, idle, the command's, the interrupt's or the probe's */
    uint32_t idle_ms;
    int64_t began_ns;
    struct client *opener; /* the client that waits for it to open */
    uint64_t opener_tag;
};

/* shell.c */

struct shell *shell_find(struct sandbox *sandbox, const char *name);

void shell_become_idle(struct shell *shell);

/* Accepts no more commands, and ends the queued ones. The shell's processes may still run. */
void shell_close_down(struct shell *shell, enum ctl_end end, int status, const char *why);

/* From now on reports with an older number are ignored. */
void shell_next_number(struct shell *shell);

/* Asks the shell to report the number. Asking again is safe, because only the first report counts. */
int shell_request_report(struct shell *shell);

/* Asks again after a signal, unless the shell has not read the last request yet. */
void shell_request_report_again(struct shell *shell);

/* shell_command.c */

/* Starts the next queued command if the shell is idle. */
void shell_begin_next(struct shell *shell);
void shell_finish_current(struct shell *shell, int status);
void shell_end_command(struct shell_command *command, enum ctl_end end, int status, uint32_t flags, const char *text);
