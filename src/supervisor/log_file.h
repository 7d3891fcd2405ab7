/*
 * Writes the output of a background process to the files of wire/process_log.h.
 *
 * A full disk loses output, which is counted, but never ends the process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/ctl_proto.h"
#include "wire/process_log.h"

struct log_file {
    int dir_fd; /* borrowed */
    char process[CTL_NAME_MAX];
    int fd;                                 /* owned: the newest file; -1: closed */
    uint64_t starts[PROCESS_LOG_FILES_MAX]; /* of the existing files, the newest last */
    size_t count;
    uint64_t end; /* bytes written in total */
    uint64_t lost_bytes;
};

#define LOG_FILE_NONE ((struct log_file){ .fd = -1 })

/* Creates the first file. */
int log_file_open(struct log_file *log, int dir_fd, const char *process);
void log_file_close(struct log_file *log); /* may be called twice */
void log_file_add(struct log_file *log, const void *bytes, size_t len);
