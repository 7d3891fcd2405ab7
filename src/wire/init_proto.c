#include "wire/init_proto.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "wire/field.h"

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

#define NUMBER(type, member) FIELD_OF(type, struct init_report, member)

static const struct layout report_layouts[] = {
    { INIT_REPORT_HELLO, { NUMBER(FIELD_U32, hello.version), NUMBER(FIELD_U32, hello.pid), NUMBER(FIELD_U32, hello.flags) } },
    { INIT_REPORT_SPAWNED, { NUMBER(FIELD_U32, spawned.pid) } },
    { INIT_REPORT_SPAWN_FAILED, { NUMBER(FIELD_U32, spawn_failed.error), NUMBER(FIELD_U8, spawn_failed.step) } },
    { INIT_REPORT_EXITED,
      { NUMBER(FIELD_U32, exited.status), NUMBER(FIELD_U64, exited.user_us), NUMBER(FIELD_U64, exited.system_us),
        NUMBER(FIELD_U64, exited.max_rss_kib) } },
};
#define LAYOUTS report_layouts, sizeof(report_layouts) / sizeof(report_layouts[0])

static const struct field kill_fields[] = {
    FIELD_OF(FIELD_U8, struct init_request, kill.signal),
    FIELD_OF(FIELD_U8, struct init_request, kill.scope),
    FIELD_OF(FIELD_U64, struct init_request, kill.since_ticks),
    { .type = FIELD_END },
};

int init_report_encode(const struct init_report *report, void *buf, size_t cap, struct frame *ret)
{
    struct writer w;

    if (!report_is_valid(report))
        return -EINVAL;
    writer_init(&w, buf, cap);
    layout_write(LAYOUTS, report->type, report, &w);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = report->id, .type = (uint16_t) report->type, .payload = buf, .len = w.len };
    return 0;
}

int init_report_decode(const struct frame *frame, struct init_report *ret)
{
    struct init_report m = { .type = (enum init_report_type) frame->type, .id = frame->id };
    struct reader r;

    if (frame->fd_count != (frame->type == INIT_REPORT_PTY ? 1 : 0))
        return -EPROTO;
    reader_init(&r, frame->payload, frame->len);
    layout_read(LAYOUTS, m.type, &m, &r);
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
    if (is_kill)
        fields_write(kill_fields, request, &w);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = request->id, .type = (uint16_t) request->type, .payload = buf, .len = w.len };
    return 0;
}

static int decode_kill(const struct frame *frame, struct init_request *m)
{
    struct reader r;

    reader_init(&r, frame->payload, frame->len);
    fields_read(kill_fields, m, &r);
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
