#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/mount_options.h"
#include "cli/verb.h"
#include "fence/change_log.h"
#include "fence/fence.h"
#include "policy/policy_file.h"

#define CLIENTS 64

/* A connection to the control socket. */
struct client {
    int fd; /* owned; -1: the entry is free */
    uint64_t came;
    size_t used;
    char line[8192]; /* large enough for a request with the longest path */
};

/* The state of the verb while the file system is mounted. */
struct mounted {
    struct client clients[CLIENTS];
    uint64_t arrivals;
    struct mount_options *options;
    struct fence *fence;
    int signal_fd;
    int control_fd; /* -1: none */
    struct stat control_st;
    int events_fd;  /* -1: none */
    int done_fd[2]; /* the writing end is closed when fence_run() returns */
};

static bool base_has_workspace(const char *base)
{
    autofree char *path = xprintf("%s/workspace", base);
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int compile(const struct mount_options *o, const struct rule_list *rules, struct ruleset **ret, struct err *err)
{
    struct ruleset_options options = { .workspace_is_real = base_has_workspace(o->config.base_path) };

    return ruleset_new(rules, &options, ret, err);
}

static int load_rules(const struct mount_options *o, const char *only_file, struct ruleset **ret, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    int r = only_file ? policy_file_load(only_file, &rules, err) : policy_options_load(&o->policy, NULL, &rules, err);

    return r < 0 ? r : compile(o, &rules, ret, err);
}

/* Writes one line for each refusal. JSON escapes newlines in file names, so a name cannot forge a line. */
static void on_denial(const struct fence_denial *d, void *cookie)
{
    struct mounted *m = cookie;
    autodone(buf) struct buf line = BUF_EMPTY;
    char when[CLOCK_TEXT_MAX] = "";

    if (m->events_fd < 0)
        return;
    clock_format(clock_timespec_of_ns(d->wall_ns), 6, when);
    buf_addf(&line, "{\"time\":\"%s\",\"event\":\"permission_denied\",\"op\":\"%s\",\"path\":", when, policy_op_name(d->op));
    change_log_format_string(&line, d->path);
    buf_addf(&line, ",\"level\":\"%s\",\"errno\":\"%s\",\"pid\":%d,\"repeats\":%" PRIu64, level_name(d->level),
             strerrorname_np(d->error), (int) d->pid, d->repeats);
    if (d->detail)
        buf_addf(&line, ",\"syscall\":\"%s\"", d->detail);
    buf_add_str(&line, "}\n");
    if (write(m->events_fd, line.data, line.len) < 0)
        return;
}

static void tell_outcome(int r, const struct err *err, struct buf *answer)
{
    if (r == 0) {
        buf_add_str(answer, "{\"ok\":true}\n");
        return;
    }
    buf_add_str(answer, "{\"ok\":false,\"error\":");
    change_log_format_string(answer, err->text);
    buf_add_str(answer, "}\n");
}

static int swap_rules(struct mounted *m, const char *only_file, struct err *err)
{
    autoptr(ruleset) rules = NULL;
    int r = load_rules(m->options, only_file, &rules, err);

    if (r < 0)
        return r;
    r = fence_set_rules(m->fence, rules);
    if (r == -EOPNOTSUPP)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       "rules cannot be changed while mounted with --data-path passthrough: files that are open or mapped "
                       "would go on being read; unmount and mount again");
    return r < 0 ? err_errno(err, r, "taking the rules") : 0;
}

static void tell_stats(struct mounted *m, struct buf *answer)
{
    struct fence_stats s;

    fence_stats(m->fence, &s);
    buf_addf(answer,
             "{\"ok\":true,\"requests\":%" PRIu64 ",\"inodes\":%" PRIu64 ",\"handles\":%" PRIu64 ",\"used_bytes\":%" PRIu64
             ",\"used_inodes\":%" PRIu64 ",\"copied_up\":%" PRIu64 ",\"link_walks\":%" PRIu64
             ",\"workers\":%u,\"denials_dropped\":%" PRIu64 ",\"ops\":{",
             s.requests, s.inodes, s.handles, s.used_bytes, s.used_inodes, s.copied_up, s.link_walks, s.workers,
             s.denials_dropped);
    for (size_t i = 0; i < POLICY_OPS; i++)
        buf_addf(answer, "%s\"%s\":%" PRIu64, i ? "," : "", policy_op_name((enum policy_op) i), s.ops[i]);
    buf_add_str(answer, "},\"denied\":{");
    for (size_t i = 0; i < POLICY_OPS; i++)
        buf_addf(answer, "%s\"%s\":%" PRIu64, i ? "," : "", policy_op_name((enum policy_op) i), s.denied[i]);
    buf_add_str(answer, "}}\n");
}

static int take_changed(struct mounted *m, const char *path, struct err *err)
{
    int r = fence_base_changed(m->fence, &path, path ? 1 : 0);

    if (r == -EINVAL && path)
        return err_reject(err, r, path,
                          "is not a path of the base: a path begins with '/', the root of the base, and has no component that "
                          "is empty, '.' or '..'");
    return r < 0 ? err_errno(err, r, "looking at the base again") : 0;
}

static int sync_delta(struct mounted *m, struct err *err)
{
    int r = fence_sync(m->fence);

    return r < 0 ? err_errno(err, r, "syncing delta '%s'", m->options->config.delta_path) : 0;
}

static void handle_line(struct mounted *m, char *line, struct buf *answer)
{
    struct err err = ERR_NONE;
    int r;

    if (strcmp(line, "stats") == 0) {
        tell_stats(m, answer);
        return;
    }
    if (strncmp(line, "rules ", 6) == 0)
        r = swap_rules(m, line + 6, &err);
    else if (strncmp(line, "changed ", 8) == 0)
        r = take_changed(m, line + 8, &err);
    else if (strcmp(line, "changed") == 0)
        r = take_changed(m, NULL, &err);
    else if (strcmp(line, "sync") == 0)
        r = sync_delta(m, &err);
    else
        r = err_reject(&err, -EINVAL, line, "is none of rules FILE, changed [PATH], stats and sync");
    tell_outcome(r, &err, answer);
}

static void client_close(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    *c = (struct client){ .fd = -1 };
}

/* Reads a piece and answers each complete line. Closes the connection if a line is too long or the client does not read its answers. */
static void client_serve(struct mounted *m, struct client *c)
{
    ssize_t n = recv(c->fd, c->line + c->used, sizeof(c->line) - c->used, MSG_DONTWAIT);
    char *end;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->used += n > 0 ? (size_t) n : 0;
    while (n > 0 && (end = memchr(c->line, '\n', c->used))) {
        autodone(buf) struct buf answer = BUF_EMPTY;
        *end = 0;
        handle_line(m, c->line, &answer);
        if (send(c->fd, answer.data, answer.len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) answer.len)
            n = -1;
        c->used -= (size_t) (end + 1 - c->line);
        memmove(c->line, end + 1, c->used);
    }
    if (n <= 0 || c->used == sizeof(c->line))
        client_close(c);
}

/* If all entries are in use, the new connection replaces the oldest one. */
static void client_accept(struct mounted *m)
{
    int fd = accept4(m->control_fd, NULL, NULL, SOCK_CLOEXEC);
    struct client *place = &m->clients[0];

    if (fd < 0)
        return;
    for (size_t i = 0; i < CLIENTS && place->fd >= 0; i++) {
        if (m->clients[i].fd < 0 || m->clients[i].came < place->came)
            place = &m->clients[i];
    }
    client_close(place);
    place->fd = fd;
    place->came = ++m->arrivals;
}

/* Removes a socket that no process listens on, which a killed mount has left, and refuses any other file. */
static int clear_control(const struct sockaddr_un *address, struct err *err)
{
    const char *path = address->sun_path;
    autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (fd < 0 || lstat(path, &st) < 0)
        return fd >= 0 && errno == ENOENT ? 0 : err_errno(err, -errno, "--control '%s'", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST,
                       "--control '%s' is there and not a socket: name a path where nothing is", path);
    /* EAGAIN: the queue of a listening process is full. EPROTOTYPE: a socket of another type, which we did not create. */
    if (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 || errno != ECONNREFUSED)
        return err_set(err, ERR_FAILED_PRECONDITION, -EADDRINUSE, "--control '%s' is in use: a process listens on it", path);
    return unlink(path) < 0 && errno != ENOENT ? err_errno(err, -errno, "--control '%s'", path) : 0;
}

static int listen_control(struct mounted *m, const char *path, struct err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    autofd int fd = -1;
    int r;

    if (strlen(path) >= sizeof(address.sun_path))
        return err_invalid(err, "--control '%s' is too long for a socket: at most %zu bytes", path,
                           sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    r = clear_control(&address, err);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* bind(2) creates the file with the mode of the socket, so other users cannot open it at any moment. */
    if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
        return err_errno(err, -errno, "control socket '%s'", path);
    m->control_fd = steal_fd(&fd);
    if (listen(m->control_fd, SOMAXCONN) < 0 || lstat(path, &m->control_st) < 0)
        return err_errno(err, -errno, "control socket '%s'", path);
    return 0;
}

/* Removes only our own socket, in case another file has replaced it. */
static void remove_control(struct mounted *m)
{
    const char *path = m->options->control_path;
    struct stat st;

    if (m->control_fd >= 0 && lstat(path, &st) == 0 && st.st_dev == m->control_st.st_dev && st.st_ino == m->control_st.st_ino)
        unlink(path);
}

static void handle_signal(struct mounted *m)
{
    struct signalfd_siginfo info;
    struct err err = ERR_NONE;

    if (read(m->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo != SIGHUP) {
        fence_stop(m->fence);
        return;
    }
    if (swap_rules(m, NULL, &err) < 0)
        fprintf(stderr, "agentfense: keeping the old rules: %s\n", err.text);
}

/* Handles signals and the control socket, in a thread beside the one that serves the mount. */
static void *attend(void *arg)
{
    struct mounted *m = arg;
    struct pollfd fds[3 + CLIENTS] = { { m->signal_fd, POLLIN, 0 },
                                       { m->done_fd[0], POLLIN, 0 },
                                       { m->control_fd, POLLIN, 0 } };

    for (;;) {
        for (size_t i = 0; i < CLIENTS; i++)
            fds[3 + i] = (struct pollfd){ m->clients[i].fd, POLLIN, 0 };
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        if (fds[0].revents & POLLIN)
            handle_signal(m);
        for (size_t i = 0; i < CLIENTS; i++) {
            if (fds[3 + i].revents)
                client_serve(m, &m->clients[i]);
        }
        if (fds[2].revents & POLLIN)
            client_accept(m);
    }
}

static int open_signals(int *ret_fd)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

static int make_fence(const struct mount_options *o, struct fence **ret, struct err *err)
{
    int r = fence_new(&o->config, ret, err);
    struct err why = *err;

    if (r == -EXDEV && why.code == ERR_FAILED_PRECONDITION)
        return err_set(err, why.code, r, "%s; --other-base takes it nevertheless", why.text);
    return r;
}

static int prepare(struct mounted *m, struct err *err)
{
    struct mount_options *o = m->options;
    autoptr(ruleset) rules = NULL;
    int r = load_rules(o, NULL, &rules, err);

    if (r < 0)
        return r;
    r = open_signals(&m->signal_fd);
    if (r < 0)
        return err_errno(err, r, "waiting for signals");
    if (pipe2(m->done_fd, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "making a pipe");
    if (o->events_path) {
        m->events_fd = open(o->events_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (m->events_fd < 0)
            return err_errno(err, -errno, "events file '%s'", o->events_path);
        o->config.on_denial = on_denial;
    }
    /* Listen before there is a mount or a delta to undo. A client that connects now gets its answers once the file system is mounted. */
    if (o->control_path && (r = listen_control(m, o->control_path, err)) < 0)
        return r;
    o->config.rules = rules;
    o->config.cookie = m;
    r = make_fence(o, &m->fence, err);
    return r < 0 ? r : fence_mount(m->fence, o->mount_point, err);
}

static int run_mounted(struct mounted *m, struct err *err)
{
    pthread_t attendant;
    int r = pthread_create(&attendant, NULL, attend, m);

    if (r)
        return err_errno(err, -r, "starting a thread");
    fprintf(stderr, "mounted %s\n", m->options->mount_point);
    if (m->options->ready_fd >= 0 && write(m->options->ready_fd, "1", 1) < 0)
        log_warn("the ready message cannot be written", LOG_ERRNO("error", errno));
    r = fence_run(m->fence);
    close(m->done_fd[1]);
    m->done_fd[1] = -1;
    pthread_join(attendant, NULL);
    return r < 0 ? err_errno(err, r, "serving '%s'", m->options->mount_point) : 0;
}

static void mounted_done(struct mounted *m)
{
    int fds[] = { m->signal_fd, m->control_fd, m->events_fd, m->done_fd[0], m->done_fd[1] };

    fence_free(m->fence);
    for (size_t i = 0; i < CLIENTS; i++)
        client_close(&m->clients[i]);
    remove_control(m);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static int run(int argc, char **argv)
{
    struct mount_options options = { 0 };
    static struct mounted m = { .signal_fd = -1, .control_fd = -1, .events_fd = -1, .done_fd = { -1, -1 } };
    struct err err = ERR_NONE;
    int r = mount_options_parse(argc, argv, &options, &err);

    m.options = &options;
    for (size_t i = 0; i < CLIENTS; i++)
        m.clients[i].fd = -1;
    if (r == 0 && options.wants_help) {
        fputs(mount_options_help, stdout);
        mount_options_done(&options);
        return EXIT_SUCCESS;
    }
    bool is_usage = r < 0;
    if (r == 0)
        r = prepare(&m, &err);
    if (r == 0)
        r = run_mounted(&m, &err);
    mounted_done(&m);
    mount_options_done(&options);
    if (r == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "agentfense mount: %s\n", err.text);
    return is_usage ? EXIT_USAGE : EXIT_OURS;
}

const struct verb verb_mount = {
    .name = "mount",
    .summary = "show a directory under rules and keep changes in a delta",
    .run = run,
};
