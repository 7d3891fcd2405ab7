#include "supervisor/init_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

/* A queued request. */
struct init_link_request {
    struct init_link_request *next;
    struct frame frame; /* its payload and descriptors are owned */
    char payload[];
};

static void init_link_request_free(struct init_link_request *parcel)
{
    if (!parcel)
        return;
    frame_close_fds(&parcel->frame);
    free(parcel);
}
DEFINE_AUTOPTR(init_link_request, init_link_request_free);

static int init_link_request_new(const struct frame *frame, struct init_link_request **ret)
{
    autoptr(init_link_request) parcel = xalloc(sizeof(*parcel) + frame->len);

    parcel->frame = *frame;
    parcel->frame.payload = parcel->payload;
    parcel->frame.fd_count = 0;
    memcpy(parcel->payload, frame->payload, frame->len);
    for (size_t i = 0; i < frame->fd_count; i++) {
        int fd = fcntl(frame->fds[i], F_DUPFD_CLOEXEC, 3);

        if (fd < 0)
            return -errno;
        parcel->frame.fds[parcel->frame.fd_count++] = fd;
    }
    *ret = steal_ptr(&parcel);
    return 0;
}

/* Sends the request, or queues it until init reads. A lost KILL would mean a command that never ends. */
static int send_request(struct init_link *link, const struct frame *frame, unsigned queue_max)
{
    struct init_link_request *parcel = NULL;
    int r = link->queue ? -EAGAIN : frame_send(link->fd, frame, FRAME_NOWAIT);

    if (r != -EAGAIN && r != -ENOBUFS)
        return r;
    if (link->queue_count >= queue_max)
        return -EAGAIN;
    r = init_link_request_new(frame, &parcel);
    if (r < 0)
        return r;
    *link->queue_end = parcel;
    link->queue_end = &parcel->next;
    link->queue_count++;
    return watch_change(&link->watch, EPOLLIN | EPOLLOUT);
}

static void drop_first(struct init_link *link)
{
    struct init_link_request *parcel = link->queue;

    link->queue = parcel->next;
    if (!link->queue)
        link->queue_end = &link->queue;
    link->queue_count--;
    init_link_request_free(parcel);
}

/* Ignores a broken link; the reader notices it. */
static void send_queue(struct init_link *link)
{
    while (link->queue) {
        int r = frame_send(link->fd, &link->queue->frame, FRAME_NOWAIT);

        if (r == -EAGAIN || r == -ENOBUFS)
            return;
        drop_first(link);
    }
    watch_change(&link->watch, EPOLLIN);
}

static struct task **find_slot(struct init_link *link, uint64_t id)
{
    struct task **slot = &link->buckets[id % INIT_LINK_BUCKETS];

    while (*slot && (*slot)->id != id)
        slot = &(*slot)->next;
    return slot;
}

void task_forget(struct task *task)
{
    if (!task->link)
        return;
    struct task **slot = find_slot(task->link, task->id);
    if (*slot == task)
        *slot = task->next;
    task->link = NULL;
}

static void handle_failed(struct task *task, const struct init_report *report)
{
    if (task->phase != TASK_ASKED)
        return;
    task->phase = TASK_GONE;
    task_forget(task);
    task->ops->failed(task, report->spawn_failed.error, report->spawn_failed.step);
}

static void handle_spawned(struct task *task, const struct init_report *report)
{
    if (task->phase != TASK_ASKED)
        return;
    task->pid = report->spawned.pid;
    if (task->wants_pty)
        return;
    task->phase = TASK_RUNNING;
    task->ops->spawned(task, -1);
}

static void handle_pty(struct task *task, struct frame *frame)
{
    if (task->phase != TASK_ASKED || !task->wants_pty)
        return;
    task->phase = TASK_RUNNING;
    task->ops->spawned(task, frame_take_fd(frame, 0));
}

/* An agent can kill the reaper of a task before it has reported. */
static void handle_early_end(struct task *task)
{
    task->phase = TASK_GONE;
    task_forget(task);
    task->ops->failed(task, ECANCELED, INIT_STEP_REAPER);
}

static void handle_exited(struct task *task, const struct init_report *report)
{
    if (task->phase == TASK_ASKED) {
        handle_early_end(task);
    } else if (task->phase == TASK_RUNNING) {
        task->phase = TASK_EXITED;
        task->ops->exited(task, report);
    }
}

static void handle_gone(struct task *task)
{
    if (task->phase != TASK_EXITED)
        return;
    task->phase = TASK_GONE;
    task_forget(task);
    task->ops->gone(task);
}

static void handle_report(struct init_link *link, const struct init_report *report, struct frame *frame)
{
    struct task *task = *find_slot(link, report->id);

    if (report->type == INIT_REPORT_HELLO) {
        if (link->is_ready)
            return;
        link->is_ready = true;
        link->hello_flags = report->hello.flags;
        link->fn(report->hello.version == INIT_PROTO_VERSION ? 0 : -EPROTONOSUPPORT, link->cookie);
        return;
    }
    if (!task)
        return;
    if (report->type == INIT_REPORT_SPAWN_FAILED)
        handle_failed(task, report);
    else if (report->type == INIT_REPORT_SPAWNED)
        handle_spawned(task, report);
    else if (report->type == INIT_REPORT_PTY)
        handle_pty(task, frame);
    else if (report->type == INIT_REPORT_EXITED)
        handle_exited(task, report);
    else
        handle_gone(task);
}

/* Bounded per turn: an init that never stops sending must not starve the others. */
#define REPORTS_PER_TURN 64

static void on_readable(uint32_t events, void *cookie)
{
    struct init_link *link = cookie;
    char payload[INIT_PROTO_SMALL_MAX];

    if (events & EPOLLOUT)
        send_queue(link);
    for (int i = 0; i < REPORTS_PER_TURN && link->fd >= 0; i++) {
        struct init_report report = { 0 };
        struct frame frame = { 0 };
        int r = frame_receive(link->fd, payload, sizeof(payload), FRAME_NOWAIT, &frame);

        if (r == -EAGAIN)
            return;
        if (r == 0)
            r = init_report_decode(&frame, &report);
        if (r < 0) {
            frame_close_fds(&frame);
            link->fn(r, link->cookie);
            return;
        }
        handle_report(link, &report, &frame);
        frame_close_fds(&frame);
    }
}

int init_link_open(struct init_link *link, struct reactor *reactor, int fd, init_link_fn fn, void *cookie)
{
    *link = (struct init_link){ .fd = fd, .reactor = reactor, .fn = fn, .cookie = cookie, .queue_end = &link->queue };
    return watch_start(&link->watch, reactor, fd, EPOLLIN, on_readable, link);
}

void init_link_close(struct init_link *link)
{
    watch_stop(&link->watch);
    for (int i = 0; i < INIT_LINK_BUCKETS; i++) {
        while (link->buckets[i])
            task_forget(link->buckets[i]);
    }
    while (link->queue)
        drop_first(link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

void init_link_shut_down(struct init_link *link)
{
    struct init_request request = { .type = INIT_REQUEST_SHUTDOWN };
    char payload[INIT_PROTO_SMALL_MAX];
    struct frame frame;

    if (link->fd >= 0 && init_request_encode(&request, payload, sizeof(payload), &frame) == 0)
        frame_send(link->fd, &frame, FRAME_NOWAIT);
}

/* Uses the lower of the sandbox's limit and the task's own. */
static void add_nproc(struct init_spawn *spawn, uint32_t most)
{
    struct init_rlimit limit = { RLIMIT_NPROC, most, most };

    if (most == 0)
        return;
    for (uint32_t i = 0; i < spawn->rlimit_count; i++) {
        if (spawn->rlimits[i].resource != RLIMIT_NPROC)
            continue;
        if (spawn->rlimits[i].hard > most)
            spawn->rlimits[i] = limit;
        return;
    }
    spawn->rlimits[spawn->rlimit_count++] = limit;
}

int task_start(struct task *task, struct init_link *link, const struct task_ops *ops, const struct init_spawn *spawn,
               const struct init_command *command)
{
    static char payload[FRAME_PAYLOAD_MAX];
    struct init_spawn full = *spawn;
    struct frame frame;
    autofd int strings_fd = -1;
    uint64_t id = link->last_id + 1;
    int r;

    if (link->fd < 0 || !link->is_ready)
        return -ENOTCONN;
    add_nproc(&full, link->nproc_rlimit);
    r = init_spawn_encode(id, &full, command, payload, &frame, &strings_fd);
    if (r == 0)
        r = send_request(link, &frame, INIT_LINK_SPAWNS_MAX);
    if (r < 0)
        return r;
    link->last_id = id;
    *task = (struct task){
        .link = link, .ops = ops, .id = id, .phase = TASK_ASKED, .wants_pty = (spawn->flags & INIT_SPAWN_TTY) != 0
    };
    task->next = link->buckets[id % INIT_LINK_BUCKETS];
    link->buckets[id % INIT_LINK_BUCKETS] = task;
    return 0;
}

int task_kill(struct task *task, int signal, enum init_kill_scope scope, uint64_t since_ticks)
{
    struct init_request request = { .type = INIT_REQUEST_KILL,
                                    .id = task->id,
                                    .kill = { .signal = signal, .scope = scope, .since_ticks = since_ticks } };
    char payload[INIT_PROTO_SMALL_MAX];
    struct frame frame;
    int r;

    if (!task->link || task->phase == TASK_GONE)
        return -ESRCH;
    r = init_request_encode(&request, payload, sizeof(payload), &frame);
    return r < 0 ? r : send_request(task->link, &frame, INIT_LINK_QUEUE_MAX);
}
