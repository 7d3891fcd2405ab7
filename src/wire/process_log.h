/*
 * The output of a background process, in files (see process_record.h).
 *
 * Each byte has a number, counted from the first byte that the process ever printed. When the newest file has
 * PROCESS_LOG_FILE_BYTES, the supervisor starts another one, whose name contains the number of its first byte, and removes the
 * oldest if there are more than two. So between 25 MiB and 50 MiB are kept.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_LOG_FILE_BYTES ((uint64_t) 25 << 20)
#define PROCESS_LOG_FILES_MAX 2
#define PROCESS_LOG_NAME_MAX 128

/* The existing files, by the numbers of their first bytes. */
struct process_log {
    uint64_t starts[PROCESS_LOG_FILES_MAX + 1];
    size_t count;
    uint64_t first, end; /* the numbers of the first byte and of the byte after the last */
};

/* Writes "pr_....0.log". */
void process_log_name(const char *process, uint64_t start, char out[PROCESS_LOG_NAME_MAX]);

/* -ENOENT if there is no log. */
int process_log_find(int process_dir_fd, const char *process, struct process_log *ret);

/* Reads from `offset`, which is at least `first`: up to `cap` bytes, from one file. 0: no more at present. -ENOENT if the bytes
 * have been removed. */
ssize_t process_log_read(int process_dir_fd, const char *process, const struct process_log *log, uint64_t offset, void *bytes,
                         size_t cap);
