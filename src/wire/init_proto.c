#include "wire/init_proto.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "wire/reader.h"
#include "wire/writer.h"

/* The highest signal and errno numbers on Linux. */
#define SIGNAL_MAX 64
#define ERRNO_MAX 4095

static const char *const step_texts[] = {
    [INIT_STEP_REQUEST] = "taking the request",
    [INIT_STEP_FORK] = "making a process",
    [INIT_STEP_REAPER] = "keeping the process that starts it",
    [INIT_STEP_TTY] = "making a terminal",
    [INIT_STEP_DESCRIPTORS] = "placing descriptors",
    [INIT_STEP_SESSION] = "making a session",
    [INIT_STEP_LIMITS] = "setting limits",
    [INIT_STEP_USER] = "changing the user",
    [INIT_STEP_CWD] = "changing the directory",
    [INIT_STEP_EXEC] = "executing it",
};

const char *init_step_text(enum init_step step)
{
    return step >= INIT_STEP_REQUEST && step <= INIT_STEP_LAST ? step_texts[step] : "starting it";
}

/* Encoding and decoding share these checks, so that every encoded message can be decoded. */

static bool hello_is_valid(const struct init_report *m)
{
    return m->hello.pid > 0 && m->hello.pid <= INT32_MAX && (m->hello.flags & ~(uint32_t) INIT_HELLO_ALL) == 0;
}

static bool spawn_failed_is_valid(const struct init_report *m)
{
    return m->spawn_failed.error > 0 && m->spawn_failed.error <= ERRNO_MAX && m->spawn_failed.step >= INIT_STEP_REQUEST &&
           m->spawn_failed.step <= INIT_STEP_LAST;
}

static bool status_is_valid(int32_t status)
{
    return (status & ~0xffff) == 0 && (WIFEXITED(status) || WIFSIGNALED(status));
}

static bool report_is_valid(const struct init_report *m)
{
    if ((m->id == 0) != (m->type == INIT_REPORT_HELLO))
        return false;
    switch (m->type) {
    case INIT_REPORT_HELLO:
        return hello_is_valid(m);
    case INIT_REPORT_SPAWNED:
        return m->spawned.pid > 0 && m->spawned.pid <= INT32_MAX;
    case INIT_REPORT_SPAWN_FAILED:
        return spawn_failed_is_valid(m);
    case INIT_REPORT_EXITED:
        return status_is_valid(m->exited.status);
    case INIT_REPORT_PTY:
    case INIT_REPORT_GONE:
        return true;
    }
    return false;
}

static void write_exited(struct writer *w, const struct init_report *m)
{
    writer_u32(w, (uint32_t) m->exited.status);
    writer_u64(w, m->exited.user_us);
    writer_u64(w, m->exited.system_us);
    writer_u64(w, m->exited.max_rss_kib);
}

static void write_report(struct writer *w, const struct init_report *m)
{
    switch (m->type) {
    case INIT_REPORT_HELLO:
        writer_u32(w, m->hello.version);
        writer_u32(w, m->hello.pid);
        writer_u32(w, m->hello.flags);
        break;
    case INIT_REPORT_SPAWNED:
        writer_u32(w, m->spawned.pid);
        break;
    case INIT_REPORT_SPAWN_FAILED:
        writer_u32(w, (uint32_t) m->spawn_failed.error);
        writer_u8(w, (uint8_t) m->spawn_failed.step);
        break;
    case INIT_REPORT_EXITED:
        write_exited(w, m);
        break;
    case INIT_REPORT_PTY:
    case INIT_REPORT_GONE:
        break;
    }
}

int init_report_encode(const struct init_report *report, void *buf, size_t cap, struct frame *ret)
{
    struct writer w;

    if (!report_is_valid(report))
        return -EINVAL;
    writer_init(&w, buf, cap);
    write_report(&w, report);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = report->id, .type = (uint16_t) report->type, .payload = buf, .len = w.len };
    return 0;
}

static void read_report(struct reader *r, struct init_report *m)
{
    switch (m->type) {
    case INIT_REPORT_HELLO:
        m->hello.version = reader_u32(r);
        m->hello.pid = reader_u32(r);
        m->hello.flags = reader_u32(r);
        break;
    case INIT_REPORT_SPAWNED:
        m->spawned.pid = reader_u32(r);
        break;
    case INIT_REPORT_SPAWN_FAILED:
        m->spawn_failed.error = (int32_t) reader_u32(r);
        m->spawn_failed.step = (enum init_step) reader_u8(r);
        break;
    case INIT_REPORT_EXITED:
        m->exited.status = (int32_t) reader_u32(r);
        m->exited.user_us = reader_u64(r);
        m->exited.system_us = reader_u64(r);
        m->exited.max_rss_kib = reader_u64(r);
        break;
    case INIT_REPORT_PTY:
    case INIT_REPORT_GONE:
        break;
    }
}

int init_report_decode(const struct frame *frame, struct init_report *ret)
{
    struct init_report m = { .type = (enum init_report_type) frame->type, .id = frame->id };
    struct reader r;

    if (frame->fd_count != (frame->type == INIT_REPORT_PTY ? 1 : 0))
        return -EPROTO;
    reader_init(&r, frame->payload, frame->len);
    read_report(&r, &m);
    if (reader_end(&r) < 0 || !report_is_valid(&m))
        return -EPROTO;
    *ret = m;
    return 0;
}

static bool kill_is_valid(const struct init_request *m)
{
    return m->kill.signal >= 1 && m->kill.signal <= SIGNAL_MAX && m->kill.scope <= INIT_KILL_BELOW && m->id != 0;
}

int init_request_encode(const struct init_request *request, void *buf, size_t cap, struct frame *ret)
{
    bool is_kill = request->type == INIT_REQUEST_KILL;
    struct writer w;

    if (is_kill ? !kill_is_valid(request) : request->type != INIT_REQUEST_SHUTDOWN || request->id != 0)
        return -EINVAL;
    writer_init(&w, buf, cap);
    if (is_kill) {
        writer_u8(&w, (uint8_t) request->kill.signal);
        writer_u8(&w, (uint8_t) request->kill.scope);
        writer_u64(&w, request->kill.since_ticks);
    }
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = request->id, .type = (uint16_t) request->type, .payload = buf, .len = w.len };
    return 0;
}

static int decode_kill(const struct frame *frame, struct init_request *m)
{
    struct reader r;

    reader_init(&r, frame->payload, frame->len);
    m->kill.signal = reader_u8(&r);
    m->kill.scope = (enum init_kill_scope) reader_u8(&r);
    m->kill.since_ticks = reader_u64(&r);
    return frame->fd_count > 0 || reader_end(&r) < 0 || !kill_is_valid(m) ? -EPROTO : 0;
}

int init_request_decode(const struct frame *frame, struct init_request *ret)
{
    struct init_request m = { .type = (enum init_request_type) frame->type, .id = frame->id };
    int r = -EPROTO;

    if (frame->type == INIT_REQUEST_SPAWN && frame->id != 0)
        r = init_spawn_decode(frame, &m.spawn);
    else if (frame->type == INIT_REQUEST_KILL)
        r = decode_kill(frame, &m);
    else if (frame->type == INIT_REQUEST_SHUTDOWN)
        r = frame->id == 0 && frame->len == 0 && frame->fd_count == 0 ? 0 : -EPROTO;
    if (r == 0)
        *ret = m;
    return r;
}
