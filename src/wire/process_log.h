/*
 * What a process in the background printed, in files (see process_record.h). Bytes are numbered from the first it ever printed, and keep
 * their number: when the newest file has PROCESS_LOG_FILE_BYTES another is begun, named by the number of its first byte, and the
 * oldest goes when there are more than two. So at most 50 MiB are kept, and at least the last 25.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_LOG_FILE_BYTES ((uint64_t) 25 << 20)
#define PROCESS_LOG_FILES_MAX 2
#define PROCESS_LOG_NAME_MAX 128

/* The files there are, by their first bytes. */
struct process_log {
    uint64_t starts[PROCESS_LOG_FILES_MAX + 1];
    size_t count;
    uint64_t first, end; /* the bytes that there are: from, and up to */
};

/* "pr_....0.log". */
void process_log_name(const char *process, uint64_t start, char out[PROCESS_LOG_NAME_MAX]);

/* -ENOENT when there is none. */
int process_log_find(int process_dir_fd, const char *process, struct process_log *ret);

/* Bytes from `offset` on, which is no less than `first`: as many as one file has of them and `cap` takes; 0: no more now. -ENOENT when
 * they have gone meanwhile. */
ssize_t process_log_read(int process_dir_fd, const char *process, const struct process_log *log, uint64_t offset, void *bytes,
                         size_t cap);
