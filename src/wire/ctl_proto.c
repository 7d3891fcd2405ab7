#include "wire/ctl_proto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "wire/ctl_int.h"

static const char *const state_names[] = {
    [CTL_STATE_BOOTING] = "booting", [CTL_STATE_RUNNING] = "running", [CTL_STATE_STOPPING] = "stopping",
    [CTL_STATE_STOPPED] = "stopped", [CTL_STATE_FAILED] = "failed",
};

static const char *const event_kind_names[] = {
    [CTL_EVENT_EXEC_STARTED] = "command_started",  [CTL_EVENT_EXEC_FINISHED] = "command_executed",
    [CTL_EVENT_DENIED] = "permission_denied",      [CTL_EVENT_LIMIT] = "resource_limit_exceeded",
    [CTL_EVENT_SESSION_OPENED] = "session_opened", [CTL_EVENT_SESSION_CLOSED] = "session_closed",
    [CTL_EVENT_SYNC_CONFLICT] = "sync_conflict",
};

const char *ctl_state_name(enum ctl_state state)
{
    return ctl_state_is_valid(state) ? state_names[state] : "unknown";
}

const char *ctl_event_kind_name(enum ctl_event_kind kind)
{
    return kind >= CTL_EVENT_EXEC_STARTED && kind <= CTL_EVENT_LAST ? event_kind_names[kind] : "unknown";
}

bool ctl_state_is_valid(enum ctl_state state)
{
    return state >= CTL_STATE_BOOTING && state <= CTL_STATE_FAILED;
}

bool ctl_text_is_ended(const char *text, size_t cap)
{
    return memchr(text, '\0', cap) != NULL;
}

void ctl_read_text(struct reader *r, char *ret, size_t cap)
{
    const char *text = reader_string(r, cap);

    if (text)
        memcpy(ret, text, strlen(text) + 1);
}

const char *ctl_paths_next(const struct ctl_paths *paths, const char *last)
{
    const char *next = last ? last + strlen(last) + 1 : paths->bytes;

    return paths->count > 0 && next < paths->bytes + paths->len ? next : NULL;
}

bool ctl_paths_are_valid(const struct ctl_paths *paths, size_t most)
{
    uint32_t count = 0;

    if (paths->len > most || (paths->len > 0 && (!paths->bytes || paths->bytes[paths->len - 1] != '\0')))
        return false;
    for (uint32_t at = 0; at < paths->len; at += (uint32_t) strlen(paths->bytes + at) + 1) {
        if (paths->bytes[at] == '\0')
            return false;
        count++;
    }
    return count == paths->count;
}

void ctl_write_paths(struct writer *w, const struct ctl_paths *paths)
{
    writer_u32(w, paths->count);
    writer_u32(w, paths->len);
    writer_bytes(w, paths->bytes, paths->len);
}

void ctl_read_paths(struct reader *r, struct ctl_paths *paths)
{
    paths->count = reader_u32(r);
    paths->len = reader_u32(r);
    paths->bytes = reader_bytes(r, paths->len);
}

/* Encoding and decoding share these checks, so that every encoded message can be decoded. */

static bool name_is_valid(const char name[CTL_NAME_MAX])
{
    return name[0] != '\0' && ctl_text_is_ended(name, CTL_NAME_MAX);
}

static bool kill_is_valid(const struct ctl_request *m)
{
    return m->kill.signal >= 1 && m->kill.signal <= CTL_SIGNAL_MAX && m->kill.scope <= CTL_KILL_TREE;
}

/* For every type except those of ctl_run. */
static bool request_is_valid(const struct ctl_request *m)
{
    if (m->tag == 0)
        return false;
    switch (m->type) {
    case CTL_REQUEST_SESSION_CLOSE:
        return name_is_valid(m->session_close.name);
    case CTL_REQUEST_ATTACH:
        return name_is_valid(m->attach.name);
    case CTL_REQUEST_KILL:
        return kill_is_valid(m);
    case CTL_REQUEST_SYNC:
        return ctl_text_is_ended(m->sync.by, CTL_NAME_MAX);
    case CTL_REQUEST_BASE_CHANGED:
        return ctl_paths_are_valid(&m->base_changed, CTL_PATHS_BYTES_MAX);
    case CTL_REQUEST_QUIESCE:
        return ctl_quiesce_is_valid(m);
    case CTL_REQUEST_REVERT:
        return ctl_revert_is_valid(m);
    case CTL_REQUEST_FILE:
        return ctl_file_request_is_valid(&m->file);
    case CTL_REQUEST_INPUT:
        return m->input.bytes && m->input.len > 0 && m->input.len <= CTL_INPUT_MAX;
    case CTL_REQUEST_END:
        return name_is_valid(m->end.name);
    case CTL_REQUEST_RELEASE:
    case CTL_REQUEST_RESIZE:
    case CTL_REQUEST_SET_RULES:
    case CTL_REQUEST_STATUS:
    case CTL_REQUEST_WATCH:
    case CTL_REQUEST_STOP:
        return true;
    case CTL_REQUEST_EXEC:
    case CTL_REQUEST_SESSION_OPEN:
    case CTL_REQUEST_SESSION_EXEC:
        break;
    }
    return false;
}

static void write_request(struct writer *w, const struct ctl_request *m)
{
    switch (m->type) {
    case CTL_REQUEST_SESSION_CLOSE:
        writer_string(w, m->session_close.name);
        break;
    case CTL_REQUEST_ATTACH:
        writer_string(w, m->attach.name);
        break;
    case CTL_REQUEST_KILL:
        writer_u8(w, (uint8_t) m->kill.signal);
        writer_u8(w, (uint8_t) m->kill.scope);
        break;
    case CTL_REQUEST_RESIZE:
        writer_u16(w, m->resize.rows);
        writer_u16(w, m->resize.cols);
        break;
    case CTL_REQUEST_WATCH:
        writer_u64(w, m->watch.after);
        break;
    case CTL_REQUEST_STOP:
        writer_u32(w, m->stop.grace_ms);
        break;
    case CTL_REQUEST_SYNC:
        writer_string(w, m->sync.by);
        break;
    case CTL_REQUEST_BASE_CHANGED:
        ctl_write_paths(w, &m->base_changed);
        break;
    case CTL_REQUEST_QUIESCE:
        writer_u32(w, m->quiesce.wait_ms);
        writer_u32(w, m->quiesce.limit_ms);
        break;
    case CTL_REQUEST_REVERT:
        writer_u32(w, m->revert.replaces);
        ctl_write_paths(w, &m->revert.paths);
        break;
    case CTL_REQUEST_FILE:
        ctl_write_file_request(w, &m->file);
        break;
    case CTL_REQUEST_INPUT:
        writer_u32(w, (uint32_t) m->input.len);
        writer_bytes(w, m->input.bytes, m->input.len);
        break;
    case CTL_REQUEST_END:
        writer_string(w, m->end.name);
        writer_u32(w, m->end.grace_ms);
        break;
    default:
        break;
    }
}

int ctl_request_encode(const struct ctl_request *request, void *buf, size_t cap, struct frame *ret)
{
    struct writer w;

    if (!request_is_valid(request))
        return -EINVAL;
    writer_init(&w, buf, cap);
    write_request(&w, request);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = request->tag, .type = (uint16_t) request->type, .payload = buf, .len = w.len };
    return 0;
}

static void read_request(struct reader *r, struct ctl_request *m)
{
    switch (m->type) {
    case CTL_REQUEST_SESSION_CLOSE:
        ctl_read_text(r, m->session_close.name, CTL_NAME_MAX);
        break;
    case CTL_REQUEST_ATTACH:
        ctl_read_text(r, m->attach.name, CTL_NAME_MAX);
        break;
    case CTL_REQUEST_KILL:
        m->kill.signal = reader_u8(r);
        m->kill.scope = (enum ctl_kill_scope) reader_u8(r);
        break;
    case CTL_REQUEST_RESIZE:
        m->resize.rows = reader_u16(r);
        m->resize.cols = reader_u16(r);
        break;
    case CTL_REQUEST_WATCH:
        m->watch.after = reader_u64(r);
        break;
    case CTL_REQUEST_STOP:
        m->stop.grace_ms = reader_u32(r);
        break;
    case CTL_REQUEST_SYNC:
        ctl_read_text(r, m->sync.by, CTL_NAME_MAX);
        break;
    case CTL_REQUEST_BASE_CHANGED:
        ctl_read_paths(r, &m->base_changed);
        break;
    case CTL_REQUEST_QUIESCE:
        m->quiesce.wait_ms = reader_u32(r);
        m->quiesce.limit_ms = reader_u32(r);
        break;
    case CTL_REQUEST_REVERT:
        m->revert.replaces = reader_u32(r);
        ctl_read_paths(r, &m->revert.paths);
        break;
    case CTL_REQUEST_FILE:
        ctl_read_file_request(r, &m->file);
        break;
    case CTL_REQUEST_INPUT:
        m->input.len = reader_u32(r);
        m->input.bytes = reader_bytes(r, m->input.len);
        break;
    case CTL_REQUEST_END:
        ctl_read_text(r, m->end.name, CTL_NAME_MAX);
        m->end.grace_ms = reader_u32(r);
        break;
    default:
        break;
    }
}

static size_t fds_of(const struct ctl_request *m)
{
    switch (m->type) {
    case CTL_REQUEST_SET_RULES:
        return 1;
    case CTL_REQUEST_REVERT:
        return m->revert.replaces;
    case CTL_REQUEST_FILE:
        return m->file.op == CTL_FILE_WRITE;
    default:
        return 0;
    }
}

static int decode_plain(const struct frame *frame, struct ctl_request *m)
{
    struct reader r;

    reader_init(&r, frame->payload, frame->len);
    read_request(&r, m);
    return reader_end(&r) < 0 || !request_is_valid(m) || frame->fd_count != fds_of(m) ? -EPROTO : 0;
}

int ctl_request_decode(const struct frame *frame, struct ctl_request *ret)
{
    struct ctl_request m = { .type = (enum ctl_request_type) frame->type, .tag = frame->id };
    int r;

    r = ctl_type_is_run(m.type) ? ctl_run_decode(frame, &m.run) : decode_plain(frame, &m);
    if (r == 0)
        *ret = m;
    return r;
}
