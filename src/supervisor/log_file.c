#include "supervisor/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static int log_file_create(const struct log_file *log, uint64_t start)
{
    char name[PROCESS_LOG_NAME_MAX];
    int fd;

    process_log_name(log->process, start, name);
    fd = openat(log->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

int log_file_open(struct log_file *log, int dir_fd, const char *process)
{
    int fd;

    *log = (struct log_file){ .dir_fd = dir_fd, .fd = -1, .count = 1 };
    memcpy(log->process, process, strnlen(process, CTL_NAME_MAX - 1));
    fd = log_file_create(log, 0);
    if (fd < 0)
        return fd;
    log->fd = fd;
    return 0;
}

void log_file_close(struct log_file *log)
{
    cleanup_fd(&log->fd);
    log->fd = -1;
}

static uint64_t log_file_newest_start(const struct log_file *log)
{
    return log->starts[log->count - 1];
}

/* Creates the next file before it deletes the oldest, so that a reader sees no false gap. If that fails, writes no more to
 * the old file, which keeps its size bound. */
static int log_file_rotate(struct log_file *log)
{
    char name[PROCESS_LOG_NAME_MAX];
    int fd = log_file_create(log, log->end);

    if (fd < 0)
        return fd;
    log_file_close(log);
    log->fd = fd;
    if (log->count == PROCESS_LOG_FILES_MAX) {
        process_log_name(log->process, log->starts[0], name);
        unlinkat(log->dir_fd, name, 0);
        memmove(log->starts, log->starts + 1, (log->count - 1) * sizeof(log->starts[0]));
        log->count--;
    }
    log->starts[log->count++] = log->end;
    return 0;
}

void log_file_add(struct log_file *log, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        uint64_t room = PROCESS_LOG_FILE_BYTES - (log->end - log_file_newest_start(log));
        ssize_t n;

        if (log->fd < 0 || (room == 0 && log_file_rotate(log) < 0))
            break;
        if (room == 0)
            continue;
        n = write(log->fd, at, len < room ? len : (size_t) room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += n;
        len -= (size_t) n;
        log->end += (uint64_t) n;
    }
    log->lost_bytes += len;
}
