#include "service/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"

#define TAG 1
#define SEND_MS 5000
#define AT_ONCE 64
/* The API runs commands with this prefix. Events show them without it. */
#define SHELL_PREFIX "/bin/sh -c "
/* Commands of one sandbox that have started and not finished. */
#define OPEN_MAX 64

struct open_command {
    char exec[CTL_NAME_MAX];
    char *text; /* owned */
};

struct watched {
    struct watched *next, **slot;
    struct sandbox_conn *conn; /* a reference */
    unsigned generation;
    int fd;                                 /* owned */
    char *sandbox_id, *codebase_id, *owner; /* owned */
    struct open_command open[OPEN_MAX];
    size_t open_next;
    char last_words[CTL_TEXT_MAX]; /* the supervisor's reason of a failure, or "" */
    bool was_stopped;              /* the supervisor reported that it was stopped on request */
};

struct watch_thread {
    pthread_t thread;
    pthread_mutex_t lock; /* guards `list` */
    struct watched *list;
    int epoll_fd, end_fd; /* owned */
    char payload[FRAME_PAYLOAD_MAX];
};

static void watched_free(struct watched *watched)
{
    close(watched->fd);
    for (size_t i = 0; i < OPEN_MAX; i++)
        free(watched->open[i].text);
    free(watched->sandbox_id);
    free(watched->codebase_id);
    free(watched->owner);
    sandbox_conn_unref(watched->conn);
    free(watched);
}

static void unlink_watched(struct watch_thread *watch, struct watched *watched)
{
    pthread_mutex_lock(&watch->lock);
    *watched->slot = watched->next;
    if (watched->next)
        watched->next->slot = watched->slot;
    pthread_mutex_unlock(&watch->lock);
}

/* ---- events ---- */

static void tell(struct service *service, const struct watched *watched, const char *type, int64_t time_ns, json_t *payload)
{
    events_add(service, &(struct event){ .type = type,
                                         .sandbox_id = watched->sandbox_id,
                                         .codebase_id = watched->codebase_id,
                                         .owner = watched->owner,
                                         .time_ns = time_ns,
                                         .payload = payload });
}

/* Converts any bytes to JSON text. */
static json_t *text_of(const char *s)
{
    json_t *text = json_string(s);

    if (!text) {
        autodone(buf) struct buf shown = BUF_EMPTY;

        buf_add_escaped(&shown, s, strlen(s));
        text = json_string(shown.data);
    }
    return text;
}

static void note_command(struct watched *watched, const struct ctl_event *event)
{
    struct open_command *open = &watched->open[watched->open_next++ % OPEN_MAX];

    snprintf(open->exec, sizeof(open->exec), "%s", event->subject);
    free(open->text);
    open->text = xdup(event->detail);
}

static char *take_command(struct watched *watched, const char *exec)
{
    for (size_t i = 0; i < OPEN_MAX; i++) {
        if (watched->open[i].text && strcmp(watched->open[i].exec, exec) == 0)
            return steal_ptr(&watched->open[i].text);
    }
    return NULL;
}

static void on_finished(struct service *service, struct watched *watched, const struct ctl_event *event)
{
    autofree char *text = take_command(watched, event->subject);
    const char *command = text && strncmp(text, SHELL_PREFIX, strlen(SHELL_PREFIX)) == 0 ? text + strlen(SHELL_PREFIX) : text;
    struct ctl_finished finished = { .end = (enum ctl_end) event->numbers[0], .status = (int32_t) event->numbers[1] };
    int code = finished.end == CTL_END_SIGNALED ? 128 + finished.status : finished.status;
    json_t *payload =
        json_pack("{s:o, s:i, s:I, s:s, s:I}", "command", text_of(command ? command : ""), "exit_code", code, "duration_ms",
                  (json_int_t) (event->numbers[2] / 1000), "exec_id", event->subject, "event", (json_int_t) event->number);

    if (finished.end == CTL_END_TIMED_OUT)
        json_object_set_new(payload, "timed_out", json_true());
    if (!sandbox_conn_knows_exec(watched->conn, event->subject))
        sync_later(service, watched->conn);
    tell(service, watched, "command_executed", event->wall_ns, payload);
}

/* The detail is "OPERATION LEVEL [system call]". */
static void on_denied(struct service *service, const struct watched *watched, const struct ctl_event *event)
{
    char operation[32] = "", level[16] = "";
    autofree char *path = xprintf("/workspace%s", event->subject);
    json_t *payload;

    sscanf(event->detail, "%31s %15s", operation, level);
    payload = json_pack("{s:o, s:s, s:s, s:I}", "path", text_of(path), "operation", operation, "permission", level, "event",
                        (json_int_t) event->number);
    if (*event->exec)
        json_object_set_new(payload, "exec_id", text_of(event->exec));
    if (event->numbers[2] > 0)
        json_object_set_new(payload, "repeats", json_integer(event->numbers[2]));
    tell(service, watched, "permission_denied", event->wall_ns, payload);
}

static void on_session_closed(struct service *service, const struct watched *watched, const struct ctl_event *event)
{
    struct err err = ERR_NONE;

    int r = session_row_close(service->store, event->subject, clock_wall_ns(), &err);

    if (r < 0 && r != -ESTALE && r != -ENOENT)
        janitor_doubt(service);
    tell(service, watched, "session_closed", event->wall_ns,
         json_pack("{s:s, s:o, s:I, s:I}", "session_id", event->subject, "cause", text_of(event->detail), "duration_ms",
                   (json_int_t) (event->numbers[0] / 1000), "event", (json_int_t) event->number));
}

static void on_event(struct service *service, struct watched *watched, const struct ctl_event *event)
{
    switch (event->kind) {
    case CTL_EVENT_EXEC_STARTED:
        note_command(watched, event);
        break;
    case CTL_EVENT_EXEC_FINISHED:
        on_finished(service, watched, event);
        break;
    case CTL_EVENT_DENIED:
        on_denied(service, watched, event);
        break;
    case CTL_EVENT_LIMIT:
        tell(service, watched, "resource_limit_exceeded", event->wall_ns,
             json_pack("{s:s, s:I, s:I, s:I}", "resource", event->subject, "count", (json_int_t) event->numbers[0], "limit",
                       (json_int_t) event->numbers[1], "event", (json_int_t) event->number));
        break;
    case CTL_EVENT_SESSION_OPENED:
        tell(service, watched, "session_opened", event->wall_ns,
             json_pack("{s:s, s:I}", "session_id", event->subject, "event", (json_int_t) event->number));
        break;
    case CTL_EVENT_SESSION_CLOSED:
        on_session_closed(service, watched, event);
        break;
    case CTL_EVENT_SYNC_CONFLICT:
        tell(service, watched, "sync_conflict", event->wall_ns,
             json_pack("{s:o, s:s, s:I, s:I}", "path", text_of(event->subject), "kept",
                       strcmp(event->detail, "won") == 0 ? "this sandbox's change" : "the other change", "version",
                       (json_int_t) event->numbers[0], "event", (json_int_t) event->number));
        break;
    }
}

/* ---- ends ---- */

/* If this server stops the sandbox, the stopping call does the rest. */
static void on_end(struct service *service, struct watched *watched)
{
    struct sandbox_conn *conn = watched->conn;
    bool is_surprise;
    autofree char *reason = NULL;

    pthread_mutex_lock(&conn->lock);
    is_surprise = conn->is_running && !conn->is_stopping && conn->generation == watched->generation;
    pthread_mutex_unlock(&conn->lock);
    if (!is_surprise || !sandbox_conn_end_running(conn))
        return;
    reason = *watched->last_words ? xdup(watched->last_words) : xdup("the sandbox ended unexpectedly; it can be started again");
    life_ended(service, conn, watched->was_stopped ? NULL : reason);
}

/* Returns false when the connection has ended. */
static bool on_readable(struct service *service, struct watch_thread *watch, struct watched *watched)
{
    struct ctl_reply reply;
    struct frame frame;
    int r = frame_receive(watched->fd, watch->payload, sizeof(watch->payload), FRAME_NOWAIT, &frame);

    if (r == -EAGAIN)
        return true;
    if (r < 0)
        return false;
    r = ctl_reply_decode(&frame, &reply);
    frame_close_fds(&frame);
    if (r < 0)
        return false;
    if (reply.type == CTL_REPLY_EVENT)
        on_event(service, watched, &reply.event);
    else if (reply.type == CTL_REPLY_STATE && reply.state.state == CTL_STATE_STOPPED)
        watched->was_stopped = true;
    else if (reply.type == CTL_REPLY_STATE && reply.state.state == CTL_STATE_FAILED)
        snprintf(watched->last_words, sizeof(watched->last_words), "%s", reply.state.text);
    return true;
}

static void *serve(void *arg)
{
    struct service *service = arg;
    struct watch_thread *watch = service->watch;
    struct epoll_event events[AT_ONCE];

    for (;;) {
        int count = epoll_wait(watch->epoll_fd, events, AT_ONCE, -1);

        for (int i = 0; i < count; i++) {
            struct watched *watched = events[i].data.ptr;

            if (!watched)
                return NULL;
            if (on_readable(service, watch, watched))
                continue;
            epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watched->fd, NULL);
            unlink_watched(watch, watched);
            on_end(service, watched);
            watched_free(watched);
        }
    }
}

/* ---- life ---- */

int watch_start_thread(struct service *service, struct err *err)
{
    struct watch_thread *watch = xnew(struct watch_thread);
    struct epoll_event event = { .events = EPOLLIN };
    int r;

    pthread_mutex_init(&watch->lock, NULL);
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->end_fd = eventfd(0, EFD_CLOEXEC);
    service->watch = watch;
    if (watch->epoll_fd < 0 || watch->end_fd < 0 || epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->end_fd, &event) < 0)
        r = -errno;
    else
        r = -pthread_create(&watch->thread, NULL, serve, service);
    if (r < 0) {
        cleanup_fd(&watch->epoll_fd);
        cleanup_fd(&watch->end_fd);
        free(watch);
        service->watch = NULL;
        return err_errno(err, r, "starting to watch sandboxes");
    }
    return 0;
}

void watch_stop_thread(struct service *service)
{
    struct watch_thread *watch = service->watch;

    if (!watch)
        return;
    eventfd_write(watch->end_fd, 1);
    pthread_join(watch->thread, NULL);
    for (struct watched *watched = watch->list, *next; watched; watched = next) {
        next = watched->next;
        watched_free(watched);
    }
    close(watch->epoll_fd);
    close(watch->end_fd);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
    service->watch = NULL;
}

static int ask_for_events(int fd, uint64_t after, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_WATCH, .tag = TAG, .watch = { .after = after } };
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r = ctl_request_encode(&request, payload, sizeof(payload), &frame);

    return r < 0 ? err_errno(err, r, "asking for events") : ctl_client_send(fd, &frame, SEND_MS, err);
}

int watch_add(struct service *service, struct sandbox_conn *conn, int fd, uint64_t after, struct err *err)
{
    struct watch_thread *watch = service->watch;
    struct watched *watched = xnew(struct watched);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = watched };
    int r;

    watched->fd = fd;
    watched->conn = sandbox_conn_get(&service->conns, conn->id);
    pthread_mutex_lock(&conn->lock);
    watched->generation = conn->generation;
    watched->sandbox_id = xdup(conn->id);
    watched->codebase_id = xdup(conn->codebase_id);
    watched->owner = xdup(conn->owner);
    pthread_mutex_unlock(&conn->lock);
    r = ask_for_events(fd, after, err);
    if (r < 0) {
        watched_free(watched);
        return r;
    }
    pthread_mutex_lock(&watch->lock);
    watched->next = watch->list;
    watched->slot = &watch->list;
    if (watched->next)
        watched->next->slot = &watched->next;
    watch->list = watched;
    pthread_mutex_unlock(&watch->lock);
    if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    r = -errno;
    unlink_watched(watch, watched);
    watched_free(watched);
    return err_errno(err, r, "watching a sandbox");
}
