/* Logs of processes in workspaces, read while the supervisor writes them. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sandbox/state_dir.h"
#include "service/sandbox_care.h"
#include "service/sandbox_run_int.h"
#include "service/service_int.h"

#define BLOCK ((size_t) 64 << 10)
#define READ_TRIES 8
#define FOLLOW_MS 100 /* between two checks of a log that a client follows */

void sandbox_log_done(struct sandbox_log *log)
{
    cleanup_fd(&log->dir_fd);
    cleanup_fd(&log->sandbox_fd);
    free(log->path);
    process_info_done(&log->process);
    *log = SANDBOX_LOG_NONE;
}

static void set_path(const struct service *service, const char *id, struct sandbox_log *log)
{
    char file[PROCESS_LOG_NAME_MAX];

    process_log_name(log->process.record.name, log->log.starts[log->log.count - 1], file);
    autofree char *in_sandbox = xprintf(PROCESS_DIR "/%s", file);
    log->path = sandboxes_path(service, id, in_sandbox);
}

int sandbox_log_open(struct service *service, const struct caller *caller, const char *id, const char *which,
                     struct sandbox_log *ret, struct err *err)
{
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    int r = sandbox_process_find(service, caller, id, which, &log.process, err);

    if (r == 0)
        r = sandboxes_open_dir(service, caller, id, &log.sandbox_fd, err);
    if (r < 0)
        return r;
    log.dir_fd = process_dir_open(log.sandbox_fd, false);
    r = log.dir_fd < 0 ? log.dir_fd : process_log_find(log.dir_fd, log.process.record.name, &log.log);
    if (r < 0)
        return err_set(err, ERR_NOT_FOUND, r, "process '%s' has no log", which);
    set_path(service, id, &log);
    *ret = log;
    log = SANDBOX_LOG_NONE;
    return 0;
}

/* Checks first whether it runs, then reads the size: so the last output is not missed. */
int sandbox_log_refresh(struct sandbox_log *log)
{
    struct process_record record;
    bool lives = sandbox_dir_is_running(log->sandbox_fd);
    int r = process_record_load(log->dir_fd, log->process.record.name, &record);

    if (r < 0)
        return r;
    log->process.is_running = lives && record.stopped_ns == 0;
    process_record_done(&log->process.record);
    log->process.record = record;
    return process_log_find(log->dir_fd, record.name, &log->log);
}

int sandbox_log_read(struct sandbox_log *log, uint64_t offset, size_t max, struct buf *out, struct err *err)
{
    autofree char *block = xalloc(BLOCK);
    size_t before = out->len;

    offset = offset < log->log.first ? log->log.first : offset;
    while (out->len - before < max && offset < log->log.end) {
        size_t left = max - (out->len - before);
        ssize_t n =
            process_log_read(log->dir_fd, log->process.record.name, &log->log, offset, block, left < BLOCK ? left : BLOCK);

        /* The supervisor has removed the oldest file meanwhile. Continue with the oldest that is left. */
        if (n == -ENOENT) {
            n = process_log_find(log->dir_fd, log->process.record.name, &log->log);
            if (n == 0 && offset >= log->log.first)
                n = -EIO;
            offset = log->log.first;
            if (n == 0)
                continue;
        }
        if (n < 0)
            return err_errno(err, (int) n, "reading a log");
        if (n == 0)
            break;
        buf_add(out, block, (size_t) n);
        offset += (uint64_t) n;
    }
    return 0;
}

int sandbox_log_tail(struct sandbox_log *log, uint64_t lines, uint64_t *ret_offset, struct err *err)
{
    uint64_t at = log->log.end, found = 0;

    /* Backwards, block by block. The newline at the very end does not start a line. */
    while (at > log->log.first && lines > 0) {
        autodone(buf) struct buf block = BUF_EMPTY;
        uint64_t from = at - log->log.first > BLOCK ? at - BLOCK : log->log.first;
        int r = sandbox_log_read(log, from, (size_t) (at - from), &block, err);

        if (r < 0)
            return r;
        for (size_t i = block.len; i > 0; i--) {
            if (block.data[i - 1] != '\n' || from + i == log->log.end)
                continue;
            if (++found == lines) {
                *ret_offset = from + i;
                return 0;
            }
        }
        at = from;
    }
    *ret_offset = lines > 0 ? log->log.first : log->log.end;
    return 0;
}

int sandbox_log_follow(struct sandbox_log *log, uint64_t *at, int cancel_fd, sandbox_log_fn fn, void *cookie, struct err *err)
{
    struct pollfd cancel = { .fd = cancel_fd, .events = POLLIN };

    for (bool is_last = false; !is_last;) {
        is_last = sandbox_log_refresh(log) < 0 || !log->process.is_running;
        while (*at < log->log.end) {
            autodone(buf) struct buf piece = BUF_EMPTY;
            ssize_t n;

            /* Skip bytes that have been removed. */
            *at = *at < log->log.first ? log->log.first : *at;
            n = sandbox_log_read(log, *at, BLOCK, &piece, err);
            if (n == 0 && piece.len > 0)
                n = fn(piece.data, piece.len, *at, is_last && *at + piece.len >= log->log.end, cookie);
            if (n < 0)
                return (int) n;
            if (n == 0)
                break;
            *at += (uint64_t) n;
        }
        if (!is_last && poll(&cancel, 1, FOLLOW_MS) > 0)
            return -ECANCELED;
    }
    return 0;
}
