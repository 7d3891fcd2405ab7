#include "wire/ctl_file_client.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

static int ctl_file_call(int fd, const struct ctl_request *request, int send_fd, enum ctl_reply_type wanted,
                         struct ctl_reply *ret, int *ret_fd, void *buf, int timeout_ms, struct err *err)
{
    autofd int got = -1;
    int r = ctl_client_call_fd(fd, request, send_fd, ret, &got, buf, timeout_ms, err);

    if (r < 0)
        return r;
    if (ret->type != wanted || (got >= 0) != (ret_fd != NULL))
        return err_set(err, ERR_INTERNAL, -EPROTO, "the sandbox's supervisor answers something else");
    if (ret_fd)
        *ret_fd = steal_fd(&got);
    return 0;
}

static int call_ok(int fd, const struct ctl_request *request, int send_fd, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_reply reply;

    return ctl_file_call(fd, request, send_fd, CTL_REPLY_OK, &reply, NULL, buf, timeout_ms, err);
}

int ctl_client_quiesce(int fd, uint64_t tag, uint32_t wait_ms, uint32_t limit_ms, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_QUIESCE, .tag = tag, .quiesce = { wait_ms, limit_ms } };

    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}

static int send_reverts(int fd, uint64_t tag, const struct buf *joined, uint32_t count, void *buf, int timeout_ms,
                        struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_REVERT, .tag = tag };

    if (count == 0)
        return 0;
    request.revert.paths = (struct ctl_paths){ count, (uint32_t) joined->len, joined->data };
    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}

int ctl_client_revert(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms, struct err *err)
{
    autodone(buf) struct buf joined = BUF_EMPTY;
    uint32_t waiting = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        size_t len = strlen(paths[i]) + 1;
        if (len == 1 || len > CTL_PATH_MAX)
            return err_invalid(err, "a path to drop is empty or too long");
        if (joined.len + len > CTL_PATHS_BYTES_MAX) {
            r = send_reverts(fd, tag, &joined, waiting, buf, timeout_ms, err);
            buf_clear(&joined);
            waiting = 0;
        }
        buf_add(&joined, paths[i], len);
        waiting++;
    }
    return r < 0 ? r : send_reverts(fd, tag, &joined, waiting, buf, timeout_ms, err);
}

int ctl_client_replace(int fd, uint64_t tag, const char *path, int content_fd, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_REVERT, .tag = tag };

    request.revert.paths = (struct ctl_paths){ 1, (uint32_t) strnlen(path, CTL_PATHS_BYTES_MAX) + 1, path };
    request.revert.replaces = 1;
    return call_ok(fd, &request, content_fd, buf, timeout_ms, err);
}

int ctl_client_release(int fd, uint64_t tag, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_RELEASE, .tag = tag };

    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}

static struct ctl_request ctl_file_request_of(uint64_t tag, enum ctl_file_op op, const char *path)
{
    return (struct ctl_request){ .type = CTL_REQUEST_FILE, .tag = tag, .file = { .op = op, .path = path, .after = "" } };
}

int ctl_client_file_stat(int fd, uint64_t tag, const char *path, struct ctl_file *ret, void *buf, int timeout_ms,
                         struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_STAT, path);
    struct ctl_reply reply;
    int r = ctl_file_call(fd, &request, -1, CTL_REPLY_FILE, &reply, NULL, buf, timeout_ms, err);

    if (r == 0)
        *ret = reply.file;
    return r;
}

int ctl_client_file_list(int fd, uint64_t tag, const char *path, const char *after, struct ctl_listing *ret, void *buf,
                         int timeout_ms, struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_LIST, path);
    struct ctl_reply reply;
    int r;

    if (after)
        request.file.after = after;
    r = ctl_file_call(fd, &request, -1, CTL_REPLY_LISTING, &reply, NULL, buf, timeout_ms, err);
    if (r == 0)
        *ret = reply.listing;
    return r;
}

int ctl_client_file_read(int fd, uint64_t tag, const char *path, uint64_t offset, uint64_t size, struct ctl_file *ret,
                         int *ret_pipe, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_READ, path);
    struct ctl_reply reply;
    int r;

    request.file.offset = offset;
    request.file.size = size;
    r = ctl_file_call(fd, &request, -1, CTL_REPLY_FILE, &reply, ret_pipe, buf, timeout_ms, err);
    if (r == 0)
        *ret = reply.file;
    return r;
}

int ctl_client_file_write(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, uint64_t size, int content_fd,
                          void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_WRITE, path);

    request.file.flags = flags;
    request.file.mode = mode;
    request.file.size = size;
    return call_ok(fd, &request, content_fd, buf, timeout_ms, err);
}

int ctl_client_file_mkdir(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, void *buf, int timeout_ms,
                          struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_MKDIR, path);

    request.file.flags = flags;
    request.file.mode = mode;
    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}

int ctl_client_file_remove(int fd, uint64_t tag, const char *path, uint32_t flags, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_REMOVE, path);

    request.file.flags = flags;
    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}

int ctl_client_file_rename(int fd, uint64_t tag, const char *path, const char *new_path, uint32_t flags, void *buf,
                           int timeout_ms, struct err *err)
{
    struct ctl_request request = ctl_file_request_of(tag, CTL_FILE_RENAME, path);

    request.file.after = new_path;
    request.file.flags = flags;
    return call_ok(fd, &request, -1, buf, timeout_ms, err);
}
