/*
 * A process in the background of a sandbox, as it is remembered, and where its output is:
 *
 *     <dir>/processes/<name>.record        this: replaced whole when it starts and when it ends
 *     <dir>/processes/<name>.<start>.log   what it printed, standard output and standard error as they came; see process_log.h
 *
 * The supervisor writes them, so that they go on whoever else is killed; the server reads them, also when the sandbox does not run. They
 * are written by us for us, in a directory nobody else can write, and are nevertheless read like a stranger's.
 *
 * A process has ended when nothing of its tree is left. A record without an end, of a sandbox whose supervisor does not live, is of a
 * process that ended with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "wire/ctl_proto.h"

#define PROCESS_DIR "processes"
#define PROCESS_ID_PREFIX "pr_"
#define PROCESS_COMMAND_MAX 4096 /* of the text, with its NUL */

struct process_record {
    char name[CTL_NAME_MAX];        /* "pr_...": never used again */
    uint32_t pid;                   /* inside, and its process group too; 0: not started yet */
    bool is_tty;                    /* it has a terminal */
    bool has_exited;                /* its first process has: `end` and what follows is known */
    int64_t started_ns, stopped_ns; /* wall clock; stopped 0: not yet */
    enum ctl_end end;
    int32_t status; /* as in struct ctl_finished */
    uint64_t user_us, system_us, max_rss_kib;
    uint64_t lost_bytes; /* of its output, that the disk did not take */
    char *command;       /* owned; for people, cut */
    char *note;          /* owned: whatever the client wanted to be kept */
};

void process_record_done(struct process_record *record);

/* Opens the directory in that of the sandbox; -ENOENT when there is none and it is not to be made. */
int process_dir_open(int sandbox_dir_fd, bool create);

int process_record_load(int process_dir_fd, const char *name, struct process_record *ret);

/* Atomic. Where the disk is full the file is written over, if there is one: the text in it never changes its length. */
int process_record_store(int process_dir_fd, const struct process_record *record);

/* The record and its log. */
void process_record_remove(int process_dir_fd, const char *name);

struct process_record_list {
    struct process_record *items; /* owned; the oldest first */
    size_t count, cap;
};

void process_record_list_done(struct process_record_list *list);

/* What cannot be read is left out. */
int process_record_list_load(int process_dir_fd, struct process_record_list *ret);
