#include "client/private_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/program.h"
#include "call/lifeline.h"
#include "call/peer.h"
#include "client/client_int.h"
#include "sandbox/state_dir.h"

/* How long to wait while another process has the state directory and cannot be used: a server that is ending, or one whose clients have other
 * settings. */
#define WAIT_NS (5 * CLOCK_NS_PER_SEC)
#define RETRY_MS 10
#define LOG_QUOTE_BYTES 600

void private_server_done(struct private_server *server)
{
    cleanup_fd(&server->lifeline_fd);
    cleanup_fd(&server->dir_fd);
    free(server->address);
    free(server->log_path);
    *server = PRIVATE_SERVER_NONE;
}

static int refuse_interrupted(struct err *err)
{
    return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
}

/* ---- joining a running server ---- */

/* Other users cannot enter the directory, so this is a second line of defence: against a server in another namespace, where our paths name other
 * files, and against a foreign socket in the directory. */
static int check_server(int fd, struct err *err)
{
    struct err why = ERR_NONE;
    struct peer peer;
    int r = peer_init(&peer, fd);

    if (r < 0)
        return err_errno(err, r, "finding out whose the private server is");
    if (!peer_is_our_user(&peer))
        r = err_set(err, ERR_FAILED_PRECONDITION, -EPERM, "the private server belongs to another user (%s)", peer.text);
    else if (peer_check_process(&peer, &why) < 0)
        r = err_set(err, ERR_FAILED_PRECONDITION, -EPERM, "the private server does not run in our namespaces (%s)", why.text);
    peer_done(&peer);
    return r;
}

/* Returns 1; 0 if no server listens or the server is just ending; -EBUSY if clients with other settings use it. */
static int join_server(int dir_fd, const char *line, int cancel_fd, int *ret_fd, struct err *err)
{
    char answer[LIFELINE_LINE_MAX];
    autofd int fd = lifeline_connect(dir_fd, line);
    int r = fd == -ENOENT ? 0 : fd < 0 ? fd : lifeline_read_answer(fd, cancel_fd, answer);

    if (r == -ECANCELED)
        return refuse_interrupted(err);
    if (r < 0)
        return err_errno(err, r, "connecting to the private server");
    if (r == 0)
        return 0;
    if (strcmp(answer, LIFELINE_READY) != 0)
        return err_set(err, ERR_UNAVAILABLE, -EBUSY, "commands that run now use the state with other settings");
    r = check_server(fd, err);
    if (r < 0)
        return r;
    *ret_fd = steal_fd(&fd);
    return 1;
}

/* ---- starting a server ---- */

static int refuse_start(const char *answer, int dir_fd, const char *log_path, struct err *err)
{
    size_t prefix_len = strlen(LIFELINE_FAILED_PREFIX);
    autofd int log_fd = openat(dir_fd, LIFELINE_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    autodone(buf) struct buf text = BUF_EMPTY, quoted = BUF_EMPTY;
    char *rest;

    if (strncmp(answer, LIFELINE_FAILED_PREFIX, prefix_len) == 0) {
        long code = strtol(answer + prefix_len, &rest, 10);
        return err_set(err, (enum err_code) code, -EREMOTEIO, "%s", rest + strspn(rest, " "));
    }
    if (log_fd >= 0 && fd_read_all(log_fd, LOG_QUOTE_BYTES, &text) >= 0 && text.len > 0)
        buf_add_excerpt(&quoted, text.data, text.len);
    return err_set(err, ERR_UNAVAILABLE, -EPIPE, "the private server ended while it started; its log '%s' says: %s", log_path,
                   quoted.len > 0 ? quoted.data : "nothing");
}

static int spawn_server(const struct client_options *o, int dir_fd, int lifeline_fd, int lock_fd, struct err *err)
{
    const char *const argv[] = { "private-server", o->config_file ? "--config" : NULL, o->config_file, NULL };
    autofd int log_fd = openat(dir_fd, LIFELINE_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* The descriptor numbers are those of the constants in the server's private.h. */
    const struct proc_fd fds[] = { { log_fd, STDERR_FILENO }, { lifeline_fd, 3 }, { lock_fd, 4 } };
    autofree char *program = NULL;
    struct proc_spec spec = {
        .argv = argv, .envp = (const char *const *) environ, .fds = fds, .fd_count = ARRAY_LEN(fds), .new_session = true
    };
    struct proc proc = PROC_NONE;
    int r = program_find("agentfense-server", &program, err);

    if (r == 0 && log_fd < 0)
        r = err_errno(err, -errno, "opening the log of the private server");
    spec.path = program;
    if (r == 0)
        r = proc_spawn(&spec, &proc, err);
    proc_done(&proc);
    return r;
}

/* Only the process that has the lock starts a server, and passes the lock to it. So there is never more than one. */
static int start_server(const struct client_options *o, int dir_fd, const char *log_path, int lock_fd, int *ret_fd,
                        struct err *err)
{
    char answer[LIFELINE_LINE_MAX] = "";
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "making a pair of sockets");
    autofd int ours = pair[0];
    r = spawn_server(o, dir_fd, pair[1], lock_fd, err);
    close(pair[1]);
    if (r < 0)
        return r;
    r = lifeline_read_answer(ours, o->cancel_fd, answer);
    if (r == -ECANCELED)
        return refuse_interrupted(err);
    if (r <= 0 || strcmp(answer, LIFELINE_READY) != 0)
        return refuse_start(answer, dir_fd, log_path, err);
    *ret_fd = steal_fd(&ours);
    return 1;
}

/* ---- finding the server ---- */

static int refuse_busy(const struct client_options *o, const struct err *why, struct err *err)
{
    if (why->code != ERR_OK)
        return err_set(err, ERR_UNAVAILABLE, -EBUSY, "%s: wait until they are over, or run 'agentfense serve' for all",
                       why->text);
    return err_set(
        err, ERR_UNAVAILABLE, -EBUSY,
        "the state in '%s' is in use, and no server of yours answers at %s: if a server has it, say where it answers "
        "(--server URL or AGENTFENSE_URL)",
        o->state_path, *o->local_address ? o->local_address : "any address");
}

/* Returns -EBUSY if another process has the state directory. */
static int lock_state(const struct state_dir *state_dir, int *ret_fd, struct err *err)
{
    autofd int fd = openat(state_dir->fd, STATE_DIR_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(err, -errno, "opening '%s/" STATE_DIR_LOCK "'", state_dir->path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -EBUSY;
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* The lock shows whether a server has this state directory. Only then this tries the configured address, where any user may listen. */
static int find_server(const struct client_options *o, const struct state_dir *state_dir, struct private_server *server,
                       struct err *err)
{
    int64_t until_ns = clock_now_ns() + WAIT_NS;
    struct pollfd cancel = { .fd = o->cancel_fd, .events = POLLIN };
    char line[LIFELINE_LINE_MAX];

    lifeline_use_line(o->settings, line);
    for (;;) {
        struct err why = ERR_NONE;
        autofd int lock_fd = -1;
        int r = join_server(server->dir_fd, line, o->cancel_fd, &server->lifeline_fd, &why);

        if (r == 0)
            r = lock_state(state_dir, &lock_fd, &why);
        if (lock_fd >= 0)
            r = start_server(o, server->dir_fd, server->log_path, lock_fd, &server->lifeline_fd, &why);
        else if (r == -EBUSY && why.code == ERR_OK && server_is_ours(o->local_address))
            return 0;
        if (r != -EBUSY || clock_now_ns() > until_ns) {
            if (r == -EBUSY)
                return refuse_busy(o, &why, err);
            if (r < 0 && err)
                *err = why;
            return r;
        }
        if (poll(&cancel, 1, RETRY_MS) > 0)
            return refuse_interrupted(err);
    }
}

int private_server_open(const struct client_options *o, struct private_server *ret, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    struct private_server server = PRIVATE_SERVER_NONE;
    int r = state_dir_open_at(o->state_path, &state_dir, err);

    if (r == 0)
        r = lifeline_open_dir(state_dir.fd, true, &server.dir_fd, err);
    if (r == 0) {
        server.address = xprintf("unix:/proc/self/fd/%d/" LIFELINE_HTTP, server.dir_fd);
        server.log_path = xprintf("%s/" LIFELINE_DIR "/" LIFELINE_LOG, o->state_path);
        r = find_server(o, &state_dir, &server, err);
    }
    if (r <= 0) {
        private_server_done(&server);
        return r;
    }
    *ret = server;
    return 1;
}
