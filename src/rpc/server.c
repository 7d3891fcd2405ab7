#include "rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "rpc/connection.h"
#include "rpc/grpc_call.h"
#include "rpc/h2.h"
#include "rpc/health.h"
#include "rpc/reflection.h"
#include "rpc/rpc_int.h"

#define EVENTS_PER_TURN 64
#define ACCEPTS_PER_TURN 32
#define ACCEPT_PAUSE_MS 100

enum server_command { COMMAND_NONE, COMMAND_DRAIN, ORDER_ABORT, COMMAND_STOP };

struct rpc_server {
    struct rpc_options options;
    struct rpc_context ctx;
    struct health *health;         /* owned */
    struct reflection *reflection; /* owned; NULL: none */
    int epoll_fd;
    pthread_t thread;
    bool is_started;

    /* Used only by the I/O thread. */
    struct connection *connections;
    struct connection *first_dirty;
    bool has_dead;
    int reserve_fd;          /* closed for a moment to refuse a client when no descriptors are left */
    int64_t accept_again_ns; /* when to listen again; 0: listening */
    int64_t tick_ns;         /* when to check the connections next */
    bool is_listening;

    atomic_int command;
    pthread_mutex_t lock;
    pthread_cond_t empty;
    size_t other_user_count; /* connections of other users; used only by the I/O thread */
    size_t connection_count; /* this and the following are guarded by `lock` */
    bool is_drained;
    uint64_t accepted, refused;
};

static int rpc_server_submit(struct rpc_context *ctx, struct grpc_call *call)
{
    struct rpc_server *server = (struct rpc_server *) ((char *) ctx - offsetof(struct rpc_server, ctx));

    return pool_submit(server->options.pool, method_lasts(call->call.method) ? POOL_LASTING : POOL_BRIEF, grpc_call_run, call);
}

static void rpc_server_count(struct rpc_server *server, int change, uint64_t *counter)
{
    pthread_mutex_lock(&server->lock);
    server->connection_count += (size_t) change;
    if (counter)
        (*counter)++;
    pthread_mutex_unlock(&server->lock);
}

/* ---- connections ---- */

/* Call after every event of a connection, because it may have changed the next timeout. */
static void update_connection(struct rpc_server *server, struct connection *connection)
{
    int64_t next = connection_tick(connection);

    if (next < server->tick_ns)
        server->tick_ns = next;
    server->has_dead |= connection_state(connection) == CONNECTION_DEAD;
}

static void rpc_server_listen(struct rpc_server *server, bool on)
{
    for (size_t i = 0; i < server->options.listener_count; i++) {
        struct listener *listener = &server->options.listeners[i];
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = listener };
        if (on != server->is_listening)
            epoll_ctl(server->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener->fd, &event);
    }
    server->is_listening = on;
}

/* No descriptor is left for the waiting client, and epoll would report it for ever. The reserve descriptor lets us accept and
 * close it, so that the client sees the refusal. */
static void reject_waiting_client(struct rpc_server *server, int listen_fd)
{
    if (server->reserve_fd >= 0) {
        close(server->reserve_fd);
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
    }
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rpc_server_count(server, 0, &server->refused);
    /* Another thread may have taken the free descriptor. Then pause. */
    if (server->reserve_fd < 0) {
        rpc_server_listen(server, false);
        server->accept_again_ns = server->ctx.now_ns + ACCEPT_PAUSE_MS * CLOCK_NS_PER_MS;
    }
}

static void rpc_server_add_connection(struct rpc_server *server, const struct listener *listener, int fd)
{
    struct connection *connection = NULL;
    struct tls *tls = listener->is_unix ? NULL : server->options.tls;

    if (server->connection_count >= server->ctx.limits.connections_max) {
        close(fd);
        rpc_server_count(server, 0, &server->refused);
        return;
    }
    /* On failure it closes the descriptor, too. */
    if (connection_new(&server->ctx, server->epoll_fd, fd, tls, &connection) < 0) {
        rpc_server_count(server, 0, &server->refused);
        return;
    }
    /* A silent client may stay for the whole handshake timeout, so other users could occupy all connections. */
    if (!connection_is_of_our_user(connection) &&
        server->other_user_count >= PEER_OTHER_USERS_MAX(server->ctx.limits.connections_max)) {
        connection_free(connection);
        rpc_server_count(server, 0, &server->refused);
        return;
    }
    server->other_user_count += !connection_is_of_our_user(connection);
    connection_node(connection)->next = server->connections;
    server->connections = connection;
    rpc_server_count(server, 1, &server->accepted);
    connection_flush(connection);
    update_connection(server, connection);
}

static void rpc_server_on_listener(struct rpc_server *server, const struct listener *listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN && server->is_listening; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            rpc_server_add_connection(server, listener, fd);
        else if (err_errno_is_exhaustion(-errno))
            reject_waiting_client(server, listener->fd);
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static void free_dead_connections(struct rpc_server *server)
{
    struct connection **from = &server->connections;

    if (!server->has_dead)
        return;
    server->has_dead = false;
    while (*from) {
        struct connection *connection = *from;
        if (connection_state(connection) != CONNECTION_DEAD) {
            from = &connection_node(connection)->next;
            continue;
        }
        *from = connection_node(connection)->next;
        server->other_user_count -= !connection_is_of_our_user(connection);
        connection_free(connection);
        rpc_server_count(server, -1, NULL);
    }
}

/* ---- a turn of the loop ---- */

static void mark_connection_dirty(struct rpc_server *server, struct connection *connection)
{
    struct connection_node *node = connection_node(connection);

    if (node->is_dirty)
        return;
    node->is_dirty = true;
    node->next_dirty = server->first_dirty;
    server->first_dirty = connection;
}

static void rpc_server_on_posted(struct rpc_server *server)
{
    struct grpc_call *call;
    uint64_t ignored;

    if (read(server->ctx.mailbox.wake_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
        log_error("waking the I/O thread failed", LOG_ERRNO("error", -errno));
    while ((call = mailbox_take(&server->ctx.mailbox))) {
        struct connection *connection = h2_handle_posted(call);
        if (connection)
            mark_connection_dirty(server, connection);
    }
}

static void rpc_server_on_overdue(void *owner, void *cookie)
{
    mark_connection_dirty(cookie, owner);
}

/* Sends the output of several calls of a connection together. */
static void flush_dirty_connections(struct rpc_server *server)
{
    while (server->first_dirty) {
        struct connection *connection = server->first_dirty;
        struct connection_node *node = connection_node(connection);
        server->first_dirty = node->next_dirty;
        node->is_dirty = false;
        connection_flush(connection);
        update_connection(server, connection);
    }
}

static void rpc_server_tick(struct rpc_server *server)
{
    if (server->accept_again_ns && server->accept_again_ns <= server->ctx.now_ns && !server->ctx.is_draining) {
        server->accept_again_ns = 0;
        if (server->reserve_fd < 0)
            server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        rpc_server_listen(server, true);
    }
    if (server->tick_ns > server->ctx.now_ns)
        return;
    server->tick_ns = INT64_MAX;
    for (struct connection *c = server->connections; c; c = connection_node(c)->next)
        update_connection(server, c);
}

static void rpc_server_run_command(struct rpc_server *server, enum server_command command)
{
    if (command == COMMAND_NONE)
        return;
    if (!server->ctx.is_draining) {
        server->ctx.is_draining = true;
        rpc_server_listen(server, false);
        health_set(server->health, false);
        health_close(server->health);
    }
    if (command == COMMAND_DRAIN) {
        for (struct connection *c = server->connections; c; c = connection_node(c)->next)
            connection_shutdown(c);
        server->tick_ns = 0;
        return;
    }
    while (server->connections) {
        struct connection *connection = server->connections;
        server->connections = connection_node(connection)->next;
        connection_free(connection);
        rpc_server_count(server, -1, NULL);
    }
}

static int rpc_server_wait_ms(const struct rpc_server *server)
{
    const struct deadline *first = deadline_first(&server->ctx.deadlines);
    int64_t next = server->tick_ns;

    if (first && first->at_ns < next)
        next = first->at_ns;
    if (server->accept_again_ns && server->accept_again_ns < next)
        next = server->accept_again_ns;
    if (next == INT64_MAX)
        return -1;
    int64_t ms = (next - clock_now_ns() + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int) ms;
}

static bool is_listener(const struct rpc_server *server, const void *p)
{
    const struct listener *first = server->options.listeners;

    return (const struct listener *) p >= first && (const struct listener *) p < first + server->options.listener_count;
}

/* Returns false after COMMAND_STOP. */
static bool rpc_server_handle_events(struct rpc_server *server, const struct epoll_event *events, int count_of_events)
{
    for (int i = 0; i < count_of_events; i++) {
        void *p = events[i].data.ptr;
        if (p == &server->ctx.mailbox) {
            rpc_server_on_posted(server);
        } else if (is_listener(server, p)) {
            rpc_server_on_listener(server, p);
        } else {
            connection_on_event(p, events[i].events);
            update_connection(server, p);
        }
    }
    h2_end_overdue(&server->ctx, rpc_server_on_overdue, server);
    flush_dirty_connections(server);
    enum server_command command = (enum server_command) atomic_exchange(&server->command, COMMAND_NONE);
    rpc_server_run_command(server, command);
    rpc_server_tick(server);
    free_dead_connections(server);
    return command != COMMAND_STOP;
}

static void *rpc_server_thread(void *arg)
{
    struct rpc_server *server = arg;
    struct epoll_event events[EVENTS_PER_TURN];
    bool goes_on = true;

    pthread_setname_np(pthread_self(), "rpc");
    while (goes_on) {
        int n = epoll_wait(server->epoll_fd, events, EVENTS_PER_TURN, rpc_server_wait_ms(server));
        server->ctx.now_ns = clock_now_ns();
        goes_on = rpc_server_handle_events(server, events, n < 0 ? 0 : n);
        pthread_mutex_lock(&server->lock);
        if (server->ctx.is_draining && server->connection_count == 0) {
            server->is_drained = true;
            pthread_cond_broadcast(&server->empty);
        }
        pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

/* ---- life ---- */

static int rpc_server_make_tables(struct rpc_server *server, struct err *err)
{
    const struct rpc_options *options = &server->options;
    const struct method_table **tables = server->ctx.tables;

    server->health = health_new(tables);
    *tables++ = options->methods;
    *tables++ = health_table(server->health);
    if (!options->descriptors)
        return 0;
    int r = reflection_new(options->descriptors, options->descriptors_len, server->ctx.tables, &server->reflection, err);
    if (r == 0)
        *tables = reflection_table(server->reflection);
    return r;
}

static int rpc_server_make_loop(struct rpc_server *server)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->ctx.mailbox };

    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (server->epoll_fd < 0 || server->reserve_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->ctx.mailbox.wake_fd, &event) < 0)
        return -errno;
    return 0;
}

int rpc_server_new(const struct rpc_options *options, struct rpc_server **ret, struct err *err)
{
    struct rpc_server *server = xnew(struct rpc_server);
    pthread_condattr_t clock;
    int r = rpc_context_init(&server->ctx, &options->limits);

    if (r < 0) {
        free(server);
        return err_errno(err, r, "preparing the gRPC server");
    }
    server->options = *options;
    server->epoll_fd = server->reserve_fd = -1;
    server->tick_ns = INT64_MAX;
    server->ctx.start = rpc_server_submit;
    server->ctx.on_call_end = options->on_call_end;
    server->ctx.on_call_end_cookie = options->on_call_end_cookie;
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&server->empty, &clock);
    pthread_condattr_destroy(&clock);
    r = rpc_server_make_loop(server);
    if (r < 0)
        err_errno(err, r, "preparing the gRPC server");
    else
        r = rpc_server_make_tables(server, err);
    if (r < 0) {
        rpc_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

int rpc_server_start(struct rpc_server *server, struct err *err)
{
    rpc_server_listen(server, true);
    health_set(server->health, true);
    int r = pthread_create(&server->thread, NULL, rpc_server_thread, server);
    if (r != 0)
        return err_errno(err, -r, "starting the gRPC server");
    server->is_started = true;
    return 0;
}

static void rpc_server_send_command(struct rpc_server *server, enum server_command command)
{
    const uint64_t one = 1;

    atomic_store(&server->command, command);
    if (write(server->ctx.mailbox.wake_fd, &one, sizeof(one)) < 0)
        log_error("waking the I/O thread failed", LOG_ERRNO("error", -errno));
}

int rpc_server_drain(struct rpc_server *server, int timeout_ms)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS);
    int r = 0;

    if (!server->is_started)
        return 0;
    rpc_server_send_command(server, COMMAND_DRAIN);
    pthread_mutex_lock(&server->lock);
    while (!server->is_drained && r == 0)
        r = pthread_cond_timedwait(&server->empty, &server->lock, &until);
    bool is_drained = server->is_drained;
    pthread_mutex_unlock(&server->lock);
    if (is_drained)
        return 0;
    rpc_server_send_command(server, ORDER_ABORT);
    pthread_mutex_lock(&server->lock);
    while (!server->is_drained)
        pthread_cond_wait(&server->empty, &server->lock);
    pthread_mutex_unlock(&server->lock);
    return -ETIMEDOUT;
}

void rpc_server_free(struct rpc_server *server)
{
    if (!server)
        return;
    if (server->is_started) {
        rpc_server_send_command(server, COMMAND_STOP);
        pthread_join(server->thread, NULL);
    }
    if (server->health)
        health_close(server->health);
    rpc_context_done(&server->ctx);
    health_free(server->health);
    reflection_free(server->reflection);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->reserve_fd >= 0)
        close(server->reserve_fd);
    pthread_cond_destroy(&server->empty);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

void rpc_server_set_serving(struct rpc_server *server, bool is_serving)
{
    health_set(server->health, is_serving);
}

void rpc_server_stats(struct rpc_server *server, struct rpc_stats *ret)
{
    pthread_mutex_lock(&server->lock);
    *ret = (struct rpc_stats){
        .connections = server->connection_count,
        .connections_accepted = server->accepted,
        .connections_refused = server->refused,
        .calls_started = atomic_load(&server->ctx.calls_started),
        .bytes_in = atomic_load(&server->ctx.bytes_in),
        .bytes_out = atomic_load(&server->ctx.bytes_out),
    };
    pthread_mutex_unlock(&server->lock);
}
