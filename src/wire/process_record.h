/*
 * The record of a background process of a sandbox, and the place of its output:
 *
 *     <dir>/processes/<name>.record        this record, replaced when the process starts and when it ends
 *     <dir>/processes/<name>.<start>.log   standard output and standard error in their order; see process_log.h
 *
 * The supervisor writes the files, so they do not depend on other processes. The server reads them, even if the sandbox is not
 * running. Only we can write the directory; the files are nevertheless read as untrusted input.
 *
 * A process has ended when no process of its tree is left. If a record has no end and the sandbox's supervisor is not running,
 * the process ended together with the supervisor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "wire/ctl_proto.h"

#define PROCESS_DIR "processes"
#define PROCESS_ID_PREFIX "pr_"
#define PROCESS_COMMAND_MAX 4096 /* of the text, including the NUL */

struct process_record {
    char name[CTL_NAME_MAX];        /* "pr_...": never reused */
    uint32_t pid;                   /* in the sandbox, also its process group; 0: not started yet */
    bool is_tty;                    /* it has a terminal */
    bool has_exited;                /* its main process has exited: `end` and the following fields are valid */
    int64_t started_ns, stopped_ns; /* wall clock; stopped_ns 0: still running */
    enum ctl_end end;
    int32_t status; /* as in struct ctl_finished */
    uint64_t user_us, system_us, max_rss_kib;
    uint64_t lost_bytes; /* output that could not be written to the disk */
    char *command;       /* owned; shortened, for people */
    char *note;          /* owned; opaque text that the client stores */
};

void process_record_done(struct process_record *record);

/* Opens the directory in the sandbox's directory. -ENOENT if it does not exist and `create` is false. */
int process_dir_open(int sandbox_dir_fd, bool create);

int process_record_load(int process_dir_fd, const char *name, struct process_record *ret);

/* Replaces the record atomically. If the disk is full, overwrites an existing file, whose length is the same because the texts
 * never change. */
int process_record_store(int process_dir_fd, const struct process_record *record);

/* Removes the record and its log. */
void process_record_remove(int process_dir_fd, const char *name);

struct process_record_list {
    struct process_record *items; /* owned; oldest first */
    size_t count, cap;
};

void process_record_list_done(struct process_record_list *list);

/* Skips records that cannot be read. */
int process_record_list_load(int process_dir_fd, struct process_record_list *ret);
