#include "wire/ctl_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"

#define SOCKET_NAME "ctl"
#define CONNECT_PATIENCE_S 10

/* Refuses a symlink, which could send our requests and descriptors to another program. The address leads through the descriptor
 * of the socket that was checked, so that the same one is used. */
static int find_socket(int dir_fd, struct sockaddr_un *ret_address)
{
    autofd int fd = path_open_beneath(dir_fd, SOCKET_NAME, O_PATH, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -ENOTSOCK;
    *ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%d", fd);
    return steal_fd(&fd);
}

/* A supervisor that hangs accepts no connections. Once its queue is full, connect(2) would block without this limit. */
static int connect_with_patience(int fd, const struct sockaddr_un *address)
{
    const struct timeval patience = { .tv_sec = CONNECT_PATIENCE_S }, forever = { 0 };
    int r;

    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
        return -errno;
    do
        r = connect(fd, (const struct sockaddr *) address, sizeof(*address)) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r < 0)
        return r == -EAGAIN ? -ETIMEDOUT : r;
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever)) < 0 ? -errno : 0;
}

static int connect_socket(int dir_fd, int *ret_fd)
{
    struct sockaddr_un address;
    autofd int place = find_socket(dir_fd, &address), fd = -1;
    int r;

    if (place < 0)
        return place;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    r = fd < 0 ? -errno : connect_with_patience(fd, &address);
    if (r == 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

/* Describes the failure of talking to the supervisor. */
static int ctl_client_explain(int r, struct err *err)
{
    switch (r) {
    case -ETIMEDOUT:
        return err_set(err, ERR_DEADLINE_EXCEEDED, r, "the sandbox's supervisor does not answer");
    case -ECONNRESET:
        return err_set(err, ERR_UNAVAILABLE, r, "the sandbox's supervisor has hung up");
    case -EPROTO:
    case -EMSGSIZE:
        return err_set(err, ERR_INTERNAL, r, "the sandbox's supervisor says what nobody understands");
    default:
        return err_errno(err, r, "talking to the sandbox's supervisor");
    }
}

int ctl_client_connect(int sandbox_dir_fd, int *ret_fd, struct err *err)
{
    int r = connect_socket(sandbox_dir_fd, ret_fd);

    if (r == -ENOENT || r == -ECONNREFUSED)
        return err_set(err, ERR_FAILED_PRECONDITION, r, "the sandbox is not running");
    if (r == -ENOTSOCK)
        return err_set(err, ERR_INTERNAL, r, "'" SOCKET_NAME "' in the sandbox's directory is not a socket");
    return r < 0 ? ctl_client_explain(r, err) : 0;
}

static int64_t deadline_of(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : clock_now_ns() + (int64_t) timeout_ms * CLOCK_NS_PER_MS;
}

/* Rounds up, so that poll() does not end too early and repeat. */
static int left_ms(int64_t deadline_ns)
{
    int64_t left_ns;

    if (deadline_ns == INT64_MAX)
        return -1;
    left_ns = deadline_ns - clock_now_ns();
    return left_ns <= 0 ? 0 : (int) ((left_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

static int wait_for(int fd, short events, int64_t deadline_ns)
{
    struct pollfd p = { .fd = fd, .events = events };
    int n;

    do
        n = poll(&p, 1, left_ms(deadline_ns));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return n == 0 ? -ETIMEDOUT : 0;
}

static int receive_until(int fd, void *buf, int64_t deadline_ns, struct frame *frame, struct ctl_reply *ret)
{
    int r;

    do {
        r = wait_for(fd, POLLIN, deadline_ns);
        if (r == 0)
            r = frame_receive(fd, buf, FRAME_PAYLOAD_MAX, FRAME_NOWAIT, frame);
    } while (r == -EAGAIN);
    if (r < 0)
        return r;
    r = ctl_reply_decode(frame, ret);
    if (r < 0)
        frame_close_fds(frame);
    return r;
}

int ctl_client_receive(int fd, void *buf, int timeout_ms, struct frame *frame, struct ctl_reply *ret)
{
    return receive_until(fd, buf, deadline_of(timeout_ms), frame, ret);
}

static int send_until(int fd, const struct frame *frame, int64_t deadline_ns, struct err *err)
{
    int r;

    do {
        r = wait_for(fd, POLLOUT, deadline_ns);
        if (r == 0)
            r = frame_send(fd, frame, FRAME_NOWAIT);
    } while (r == -EAGAIN);
    return r < 0 ? ctl_client_explain(r, err) : 0;
}

int ctl_client_send(int fd, const struct frame *frame, int timeout_ms, struct err *err)
{
    return send_until(fd, frame, deadline_of(timeout_ms), err);
}

/* Returns 1 if this is the answer, 0 for any other reply, or -errno. */
static int ctl_client_match_reply(const struct ctl_reply *reply, uint64_t tag, struct err *err)
{
    /* A supervisor outlives the program that started it, so it may be of another release. */
    if (reply->type == CTL_REPLY_HELLO && reply->hello.version != CTL_PROTO_VERSION)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPROTONOSUPPORT,
                       "the sandbox's supervisor speaks version %u of the protocol, this program version %u: it was started by "
                       "another release",
                       reply->hello.version, CTL_PROTO_VERSION);
    if (reply->tag != tag)
        return 0;
    if (reply->type == CTL_REPLY_ERROR)
        return err_set(err, reply->error.code, -EREMOTEIO, "%s", reply->error.text);
    return reply->type == CTL_REPLY_OK || reply->type == CTL_REPLY_STATUS || reply->type == CTL_REPLY_SYNCED ||
           reply->type == CTL_REPLY_FILE || reply->type == CTL_REPLY_LISTING;
}

static int await_until(int fd, uint64_t tag, struct ctl_reply *ret, int *ret_fd, void *buf, int64_t deadline_ns,
                       struct err *err)
{
    struct ctl_reply reply;
    struct frame frame;
    int r;

    do {
        r = receive_until(fd, buf, deadline_ns, &frame, &reply);
        if (r < 0)
            return ctl_client_explain(r, err);
        r = ctl_client_match_reply(&reply, tag, err);
        if (r == 1 && ret_fd)
            *ret_fd = frame.fd_count ? frame_take_fd(&frame, 0) : -1;
        frame_close_fds(&frame);
        if (r == 0 && left_ms(deadline_ns) == 0)
            return ctl_client_explain(-ETIMEDOUT, err);
    } while (r == 0);
    if (r < 0)
        return r;
    *ret = reply;
    return 0;
}

int ctl_client_await(int fd, uint64_t tag, struct ctl_reply *ret, void *buf, int timeout_ms, struct err *err)
{
    return await_until(fd, tag, ret, NULL, buf, deadline_of(timeout_ms), err);
}

int ctl_client_call(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, void *buf, int timeout_ms,
                    struct err *err)
{
    return ctl_client_call_fd(fd, request, send_fd, ret, NULL, buf, timeout_ms, err);
}

int ctl_client_call_fd(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, int *ret_fd, void *buf,
                       int timeout_ms, struct err *err)
{
    int64_t deadline_ns = deadline_of(timeout_ms);
    struct frame frame;
    int r;

    r = ctl_request_encode(request, buf, FRAME_PAYLOAD_MAX, &frame);
    if (r < 0)
        return err_errno(err, r, "asking the sandbox's supervisor");
    if (send_fd >= 0)
        frame.fds[frame.fd_count++] = send_fd;
    r = send_until(fd, &frame, deadline_ns, err);
    return r < 0 ? r : await_until(fd, request->tag, ret, ret_fd, buf, deadline_ns, err);
}

int ctl_client_sync(int fd, uint64_t tag, const char *by, struct ctl_synced *ret, void *buf, int timeout_ms, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_SYNC, .tag = tag };
    struct ctl_reply reply = { 0 };
    size_t len = by ? strnlen(by, CTL_NAME_MAX - 1) : 0;
    int r;

    if (len > 0)
        memcpy(request.sync.by, by, len);
    r = ctl_client_call(fd, &request, -1, &reply, buf, timeout_ms, err);
    if (r < 0)
        return r;
    *ret = reply.type == CTL_REPLY_SYNCED ? reply.synced : (struct ctl_synced){ 0 };
    return 0;
}

/* Joins all paths, or none if they do not fit. No paths means that everything may have changed. */
static void join_paths(const char *const *paths, size_t count, struct buf *out, struct ctl_paths *ret)
{
    *ret = (struct ctl_paths){ 0 };
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(paths[i]) + 1;
        if (out->len + len > CTL_PATHS_BYTES_MAX)
            return;
        buf_add(out, paths[i], len);
    }
    *ret = (struct ctl_paths){ (uint32_t) count, (uint32_t) out->len, out->data };
}

int ctl_client_base_changed(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms,
                            struct err *err)
{
    autodone(buf) struct buf joined = BUF_EMPTY;
    struct ctl_request request = { .type = CTL_REQUEST_BASE_CHANGED, .tag = tag };
    struct ctl_reply reply;

    join_paths(paths, count, &joined, &request.base_changed);
    return ctl_client_call(fd, &request, -1, &reply, buf, timeout_ms, err);
}
