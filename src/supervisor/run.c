#include "supervisor/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "supervisor/boot.h"
#include "supervisor/client.h"
#include "supervisor/sandbox.h"

struct run *run_find_name(struct sandbox *sandbox, const char *name)
{
    for (struct run *run = sandbox->runs; run; run = run->next) {
        if (run->phase != RUN_REPORTED && strcmp(run->name, name) == 0)
            return run;
    }
    return NULL;
}

struct run *run_find_tag(struct sandbox *sandbox, const struct client *client, uint64_t tag)
{
    for (struct run *run = sandbox->runs; run; run = run->next) {
        if (run->phase != RUN_REPORTED && run->client == client && run->tag == tag)
            return run;
    }
    return NULL;
}

int run_init(struct run *run, struct sandbox *sandbox, const struct run_ops *ops, struct client *client, uint64_t tag,
             const struct ctl_run *asked, const char *name)
{
    if (*name && run_find_name(sandbox, name))
        return -EEXIST;
    *run = (struct run){
        .sandbox = sandbox,
        .ops = ops,
        .client = client,
        .tag = tag,
        .is_detached = (asked->flags & (CTL_RUN_DETACHED | CTL_RUN_LOGGED)) != 0,
        .output_limit = asked->output_limit,
    };
    if (*name)
        memcpy(run->name, name, strlen(name) + 1);
    else
        id_new("ex_", run->name);
    list_add(&sandbox->runs, run);
    sandbox->run_count++;
    return 0;
}

void run_done(struct run *run)
{
    list_remove(run);
    run->sandbox->run_count--;
    for (int i = 0; i < 2; i++)
        ring_buffer_done(&run->outputs[i].ring);
}

static void report_started(struct run *run, int pty_fd)
{
    struct ctl_reply reply = { .type = CTL_REPLY_STARTED, .tag = run->tag, .started = { .pid = run->pid } };

    memcpy(reply.started.name, run->name, sizeof(run->name));
    if (run->client)
        client_reply(run->client, &reply, pty_fd);
}

void run_started(struct run *run, uint32_t pid, int pty_fd, const char *text)
{
    run->phase = RUN_ACTIVE;
    run->is_alive = true;
    run->pid = pid;
    run->began_ns = clock_now_ns();
    run->oom_count = run->sandbox->oom_count;
    event_log_add(&run->sandbox->event_log, &(struct ctl_event){
                                                .kind = CTL_EVENT_EXEC_STARTED,
                                                .exec = run->name,
                                                .subject = run->name,
                                                .detail = text,
                                            });
    report_started(run, pty_fd);
    run_flush(run);
}

static int send_bytes(struct run *run, unsigned stream, uint64_t lost, const void *bytes, size_t len)
{
    struct ctl_reply reply = {
        .type = CTL_REPLY_OUTPUT,
        .tag = run->tag,
        .output = { .stream = stream == 0 ? CTL_STREAM_OUT : CTL_STREAM_ERR, .lost = lost, .len = len, .bytes = bytes },
    };

    return client_output(run->client, &reply);
}

/* Returns how many of the bytes are below the output limit. */
static size_t run_apply_output_limit(struct run *run, struct run_output *output, size_t len)
{
    uint64_t room = run->output_limit ? run->output_limit - output->passed : UINT64_MAX;

    if (len > room) {
        output->is_cut = true;
        len = (size_t) room;
    }
    output->passed += len;
    return len;
}

bool run_add_output(struct run *run, unsigned stream, const void *bytes, size_t len)
{
    struct run_output *output = &run->outputs[stream];

    if (run->phase == RUN_REPORTED || (!run->client && !run->is_detached))
        return true;
    len = run_apply_output_limit(run, output, len);
    if (len == 0)
        return true;
    if (!run->client) {
        ring_buffer_add(&output->ring, bytes, len);
        return true;
    }
    /* A command may print before init reports that it runs, but its client gets STARTED first. */
    if (run->phase != RUN_WAITING && output->ring.len == 0 && send_bytes(run, stream, output->ring.lost, bytes, len) == 0) {
        output->ring.lost = 0;
        return true;
    }
    ring_buffer_add(&output->ring, bytes, len);
    return false;
}

/* Returns 0 once the client has all output. */
static int flush_output(struct run *run, unsigned stream)
{
    struct ring_buffer *ring = &run->outputs[stream].ring;

    while (ring->len > 0) {
        size_t len;
        const char *bytes = ring_buffer_peek(ring, &len);

        len = len > CTL_OUTPUT_MAX ? CTL_OUTPUT_MAX : len;
        int r = send_bytes(run, stream, ring->lost, bytes, len);
        if (r < 0)
            return r;
        ring->lost = 0;
        ring_buffer_consume(ring, len);
    }
    return 0;
}

static void report_finished(struct run *run)
{
    struct ctl_reply reply = { .type = CTL_REPLY_FINISHED, .tag = run->tag, .finished = run->result };

    client_reply(run->client, &reply, -1);
}

/* Forgets the oldest finished run that nobody has asked for, if there are many. */
static void forget_oldest_kept(struct sandbox *sandbox)
{
    struct run *oldest = NULL;
    unsigned count = 0;

    for (struct run *run = sandbox->runs; run; run = run->next) {
        if (run->phase == RUN_ENDED && !run->client) {
            oldest = run;
            count++;
        }
    }
    if (count <= RUNS_KEPT_MAX)
        return;
    oldest->phase = RUN_REPORTED;
    oldest->ops->drop(oldest);
}

void run_flush(struct run *run)
{
    /* A broken client gets nothing; run_lose_client() follows. */
    if (run->client && run->client->is_broken)
        return;
    if (run->client && (flush_output(run, 0) < 0 || flush_output(run, 1) < 0))
        return;
    if (run->phase != RUN_ENDED) {
        if (run->phase != RUN_REPORTED)
            run->ops->resume(run);
        return;
    }
    if (!run->client && run->is_detached) {
        forget_oldest_kept(run->sandbox);
        return;
    }
    if (run->client)
        report_finished(run);
    run->client = NULL;
    run->phase = RUN_REPORTED;
    run->ops->drop(run);
}

void run_end(struct run *run, const struct ctl_finished *result)
{
    struct sandbox *sandbox = run->sandbox;

    if (run->phase >= RUN_ENDED)
        return;
    run->result = *result;
    run->result.wall_us = run->began_ns ? (uint64_t) (clock_now_ns() - run->began_ns) / 1000 : 0;
    for (int i = 0; i < 2; i++) {
        if (run->outputs[i].is_cut)
            run->result.flags |= i == 0 ? CTL_FINISHED_OUT_CUT : CTL_FINISHED_ERR_CUT;
    }
    /* init may report the kill before the loop reads the event of the memory limit. */
    if (run->began_ns && result->end == CTL_END_SIGNALED && result->status == SIGKILL)
        boot_await_limits(sandbox);
    else if (run->began_ns && result->status != 0)
        boot_report_limits(sandbox);
    if (run->began_ns && sandbox->oom_count != run->oom_count && result->status != 0)
        run->result.flags |= CTL_FINISHED_OOM;
    event_log_add(&sandbox->event_log, &(struct ctl_event){
                                           .kind = CTL_EVENT_EXEC_FINISHED,
                                           .exec = run->name,
                                           .subject = run->name,
                                           .detail = result->text,
                                           .numbers = { result->end, result->status, (int64_t) run->result.wall_us },
                                       });
    run->phase = RUN_ENDED;
    run_flush(run);
}

void run_lose_client(struct run *run)
{
    run->client = NULL;
    if (run->ops->leave)
        run->ops->leave(run);
    if (run->is_detached) {
        run_flush(run);
        return;
    }
    for (int i = 0; i < 2; i++)
        ring_buffer_done(&run->outputs[i].ring);
    if (run->phase == RUN_ENDED) {
        run_flush(run);
        return;
    }
    run->ops->resume(run);
    run->ops->kill(run, SIGKILL, CTL_KILL_TREE); /* may free it: a run that waits ends at once */
}

void run_attach(struct run *run, struct client *client, uint64_t tag)
{
    run->client = client;
    run->tag = tag;
    if (run->ops->replay)
        run->ops->replay(run);
    if (run->phase != RUN_WAITING)
        report_started(run, -1);
    run_flush(run);
}
