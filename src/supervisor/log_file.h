/*
 * Where the output of a process in the background goes: the files of wire/process_log.h, written.
 *
 * A disk that takes no more costs output, which is counted, and never the process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/ctl_proto.h"
#include "wire/process_log.h"

struct log_file {
    int dir_fd; /* borrowed */
    char process[CTL_NAME_MAX];
    int fd;                                 /* owned: the newest; -1: closed */
    uint64_t starts[PROCESS_LOG_FILES_MAX]; /* of those that are there; the newest last */
    size_t count;
    uint64_t end; /* how much was written, ever */
    uint64_t lost_bytes;
};

#define LOG_FILE_NONE ((struct log_file){ .fd = -1 })

/* Makes the first. */
int log_file_open(struct log_file *log, int dir_fd, const char *process);
void log_file_close(struct log_file *log); /* those that are closed too */
void log_file_add(struct log_file *log, const void *bytes, size_t len);
