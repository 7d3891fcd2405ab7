#include "server/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "call/lifeline.h"
#include "call/listener.h"
#include "call/peer.h"
#include "sandbox/state_dir.h"
#include "server/server.h"
#include "server/setting.h"

/* People type the next command within seconds, and scripts at once. A process that the user did not start should not run much
 * longer. */
#define LINGER_NS (5 * CLOCK_NS_PER_SEC)
#define LIFELINES_MAX 1000
#define YIELD_NS (5 * CLOCK_NS_PER_SEC)
#define RETRY_MS 10

struct lifeline {
    int fd;                       /* owned */
    bool is_admitted;             /* it keeps the server running */
    char line[LIFELINE_LINE_MAX]; /* the input so far */
    size_t len;
};

struct private
{
    struct listener listener;
    struct lifeline *lifelines[LIFELINES_MAX]; /* owned */
    size_t count, admitted;
    char use_line[LIFELINE_LINE_MAX]; /* the line of a client that wants the same settings and environment */
    bool is_ending;
};

static void private_answer(const struct lifeline *lifeline, const char *text)
{
    autofree char *line = xprintf("%s\n", text);

    /* Do not wait for a client that does not read its line. */
    send(lifeline->fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static struct lifeline *private_add(struct private *private, int fd)
{
    struct lifeline *lifeline = xnew(struct lifeline);

    lifeline->fd = fd;
    private->lifelines[private->count++] = lifeline;
    return lifeline;
}

static void private_remove(struct private *private, size_t index)
{
    struct lifeline *lifeline = private->lifelines[index];

    private->admitted -= lifeline->is_admitted;
    close(lifeline->fd);
    free(lifeline);
    private->lifelines[index] = private->lifelines[--private->count];
}

static void private_close(struct private *private)
{
    /* Close the socket first, so that a client without an answer finds no server when it tries again. */
    listener_done(&private->listener);
    while (private->count > 0)
        private_remove(private, private->count - 1);
}

/* ---- clients ---- */

static bool private_check_client(int fd)
{
    struct err why = ERR_NONE;
    struct peer peer;
    int r = peer_init(&peer, fd);

    if (r == 0) {
        r = peer_is_our_user(&peer) ? peer_check_process(&peer, &why)
                                    : err_set(&why, ERR_UNAUTHENTICATED, -EACCES, "another user");
        peer_done(&peer);
    }
    if (r < 0)
        log_warn("a client of the private server was refused", LOG_STR("error", why.text));
    return r == 0;
}

/* Without clients the server ends if a client needs other settings or another environment. With clients it also accepts those
 * that differ only in the environment. Returns whether to keep the lifeline. */
static bool private_handle_line(struct private *private, struct lifeline *lifeline)
{
    size_t settings_len = strlen(LIFELINE_USE " 0123456789abcdef");
    bool is_same = strcmp(lifeline->line, private->use_line) == 0;

    if (!is_same && private->admitted == 0) {
        private->is_ending = true;
        return false;
    }
    if (is_same || strncmp(lifeline->line, private->use_line, settings_len) == 0) {
        lifeline->is_admitted = true;
        private->admitted++;
        private_answer(lifeline, LIFELINE_READY);
        return true;
    }
    private_answer(lifeline, strcmp(lifeline->line, LIFELINE_YIELD) == 0 ? LIFELINE_BUSY : LIFELINE_DIFFERS);
    return false;
}

/* Returns whether to keep the lifeline. */
static bool private_receive(struct private *private, struct lifeline *lifeline)
{
    ssize_t n = recv(lifeline->fd, lifeline->line + lifeline->len, sizeof(lifeline->line) - 1 - lifeline->len, MSG_DONTWAIT);
    char *end;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    /* A client sends only one line. */
    if (n <= 0 || lifeline->is_admitted)
        return false;
    lifeline->len += (size_t) n;
    end = memchr(lifeline->line, '\n', lifeline->len);
    if (!end)
        return lifeline->len < sizeof(lifeline->line) - 1;
    *end = '\0';
    return private_check_client(lifeline->fd) && private_handle_line(private, lifeline);
}

static void private_accept(struct private *private)
{
    int fd = accept4(private->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        private_add(private, fd);
}

/* Returns the signal that ended the server, or 0. */
static int private_wait(struct private *private, int signal_fd)
{
    autofree struct pollfd *fds = xalloc((LIFELINES_MAX + 2) * sizeof(*fds));
    int64_t unused_since_ns = clock_now_ns();

    while (!private->is_ending) {
        int64_t left_ms = (unused_since_ns + LINGER_NS - clock_now_ns()) / CLOCK_NS_PER_MS;
        size_t count = private->count;

        if (private->admitted == 0 && left_ms <= 0)
            return 0;
        fds[0] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = count < LIFELINES_MAX ? private->listener.fd : -1, .events = POLLIN };
        for (size_t i = 0; i < count; i++)
            fds[i + 2] = (struct pollfd){ .fd = private->lifelines[i]->fd, .events = POLLIN };
        if (poll(fds, count + 2, private->admitted > 0 ? -1 : (int) left_ms) < 0 && errno != EINTR)
            return 0;
        if (fds[0].revents) {
            struct signalfd_siginfo info;
            if (read(signal_fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGHUP)
                return (int) info.ssi_signo;
        }
        /* Backwards, because removing a lifeline moves the last one into its place. */
        for (size_t i = count; i-- > 0;) {
            bool was_admitted = private->lifelines[i]->is_admitted;
            if (!fds[i + 2].revents || private_receive(private, private->lifelines[i]))
                continue;
            private_remove(private, i);
            if (was_admitted)
                unused_since_ns = clock_now_ns();
        }
        if (fds[1].revents)
            private_accept(private);
    }
    return 0;
}

/* ---- serving ---- */

/* Clients that connect while the server starts wait in the socket's queue. */
static int private_listen(struct private *private, const struct config *config, struct err *err)
{
    autofree char *address = xprintf("unix:%s/" LIFELINE_DIR "/" LIFELINE_SOCKET, config->mount_path);
    int r = listener_open(&private->listener, address, 0, err);

    if (r == 0) {
        autofree char *shown = config_show(config);
        lifeline_use_line(shown, private->use_line);
    }
    return r;
}

static int private_narrow_config(struct config *config, struct err *err)
{
    autofree char *http = xprintf("unix:%s/" LIFELINE_DIR "/" LIFELINE_HTTP, config->mount_path);
    const char *const narrowed[][2] = {
        { "server.grpc_addr", "" },    { "server.unix_socket", "" },
        { "server.http_addr", http },  { "server.tls_cert", "" },
        { "server.tls_key", "" },      { "server.tls_client_ca", "" },
        { "server.allowed_uids", "" }, { "server.require_token", "false" },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(narrowed); i++)
        r = setting_set(setting_find(narrowed[i][0]), config, narrowed[i][1], err);
    config->lock_fd = PRIVATE_LOCK_FD;
    return r;
}

static int private_run(struct private *private, struct config *config, int signal_fd, struct err *err)
{
    static struct server server;
    int r = server_start(&server, config, err);

    /* Paths of the configuration may be relative, so change the directory only now. A background process must not keep a user's
     * directory busy. */
    if (r == 0 && chdir("/") < 0)
        r = err_errno(err, -errno, "/");
    if (r == 0) {
        private_answer(private->lifelines[0], LIFELINE_READY);
        int number = private_wait(private, signal_fd); /* log_info() may not evaluate its arguments */
        log_info("ending; sandboxes live on", LOG_INT("signal", number));
        private_close(private);
        server_drain(&server);
    }
    server_done(&server);
    return r;
}

int private_serve(struct config *config, const sigset_t *signals, struct err *err)
{
    autofree struct private *private = xnew(struct private);
    autofd int signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int r;

    if (fd_cloexec(PRIVATE_LIFELINE_FD, true) < 0 || fd_cloexec(PRIVATE_LOCK_FD, true) < 0)
        return err_invalid(err, "'" PRIVATE_VERB "' is started by other verbs, which give it two descriptors");
    /* Log only warnings and errors: a server that runs for days must not fill the disk. */
    if (strcmp(config->log_level, "info") == 0)
        log_set_level(LOG_LEVEL_WARN);
    private->listener = LISTENER_NONE;
    private_add(private, PRIVATE_LIFELINE_FD)->is_admitted = true;
    private->admitted = 1;
    r = private_listen(private, config, err);
    if (r == 0)
        r = private_narrow_config(config, err);
    if (r == 0)
        r = private_run(private, config, signal_fd, err);
    if (r < 0 && private->count > 0) {
        autofree char *failure = xprintf(LIFELINE_FAILED_PREFIX "%d %s", (int) err->code, err->text);
        private_answer(private->lifelines[0], failure);
    }
    private_close(private);
    return r;
}

/* ---- giving way to another server ---- */

static bool private_is_locked(int state_fd)
{
    autofd int fd = openat(state_fd, STATE_DIR_LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

int private_give_way(const char *state_path)
{
    int64_t until_ns = clock_now_ns() + YIELD_NS;
    autofd int state_fd = open(state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir_fd = -1;
    char answer[LIFELINE_LINE_MAX];

    if (state_fd < 0 || lifeline_open_dir(state_fd, false, &dir_fd, NULL) < 0)
        return 0;
    autofd int fd = lifeline_connect(dir_fd, LIFELINE_YIELD);
    if (fd >= 0 && lifeline_read_answer(fd, -1, answer) != 0)
        return -EBUSY;
    /* A private server that is ending closes the first socket before it removes the second. */
    if (fd < 0 && faccessat(dir_fd, LIFELINE_HTTP, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    while (private_is_locked(state_fd) && clock_now_ns() < until_ns)
        poll(NULL, 0, RETRY_MS);
    return 1;
}
