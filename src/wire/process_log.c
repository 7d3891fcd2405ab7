#include "wire/process_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/fd.h"

#define SUFFIX ".log"
#define DIGITS_MAX 18

void process_log_name(const char *process, uint64_t start, char out[PROCESS_LOG_NAME_MAX])
{
    snprintf(out, PROCESS_LOG_NAME_MAX, "%.64s.%" PRIu64 SUFFIX, process, start);
}

/* Parses the number in "<process>.<number>.log". */
static bool parse_name(const char *file, const char *process, uint64_t *ret)
{
    size_t len = strlen(process), digits;

    if (strncmp(file, process, len) != 0 || file[len] != '.')
        return false;
    digits = strspn(file + len + 1, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX || strcmp(file + len + 1 + digits, SUFFIX) != 0)
        return false;
    *ret = strtoull(file + len + 1, NULL, 10);
    return true;
}

/* Keeps the starts sorted. If there are too many, keeps the newest. */
static void add_start(struct process_log *log, uint64_t start)
{
    size_t at;

    if (log->count == PROCESS_LOG_FILES_MAX + 1) {
        if (start < log->starts[0])
            return;
        memmove(log->starts, log->starts + 1, (log->count - 1) * sizeof(log->starts[0]));
        log->count--;
    }
    for (at = log->count; at > 0 && log->starts[at - 1] > start; at--)
        log->starts[at] = log->starts[at - 1];
    log->starts[at] = start;
    log->count++;
}

static int open_file(int dir_fd, const char *process, uint64_t start)
{
    char name[PROCESS_LOG_NAME_MAX];
    int fd;

    process_log_name(process, start, name);
    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int process_log_find(int process_dir_fd, const char *process, struct process_log *ret)
{
    autodirectory dir = directory_open(process_dir_fd);
    struct process_log log = { 0 };
    struct stat st;
    uint64_t start;

    if (!dir)
        return -errno;
    for (const struct dirent *entry; (entry = directory_next(dir));) {
        if (parse_name(entry->d_name, process, &start))
            add_start(&log, start);
    }
    if (log.count == 0)
        return -ENOENT;
    autofd int fd = open_file(process_dir_fd, process, log.starts[log.count - 1]);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    log.first = log.starts[0];
    log.end = log.starts[log.count - 1] + (uint64_t) st.st_size;
    *ret = log;
    return 0;
}

ssize_t process_log_read(int process_dir_fd, const char *process, const struct process_log *log, uint64_t offset, void *bytes,
                         size_t cap)
{
    size_t i = log->count;

    while (i > 0 && log->starts[i - 1] > offset)
        i--;
    if (i == 0)
        return -ENOENT;
    if (i < log->count && cap > log->starts[i] - offset)
        cap = (size_t) (log->starts[i] - offset);
    autofd int fd = open_file(process_dir_fd, process, log->starts[i - 1]);
    if (fd < 0)
        return fd;
    return fd_pread_full(fd, bytes, cap, (off_t) (offset - log->starts[i - 1]));
}
