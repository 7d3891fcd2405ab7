#include <errno.h>
#include <string.h>

#include "wire/ctl_int.h"

/* Encoding and decoding share these checks, so that every encoded message can be decoded. */

static bool code_is_valid(enum err_code code, bool is_failure)
{
    return code <= ERR_UNAUTHENTICATED && (code != ERR_OK || !is_failure);
}

static bool state_is_valid(const struct ctl_reply *m)
{
    return ctl_state_is_valid(m->state.state) && code_is_valid(m->state.code, m->state.state == CTL_STATE_FAILED) &&
           ctl_text_is_ended(m->state.text, CTL_TEXT_MAX);
}

static bool output_is_valid(const struct ctl_reply *m)
{
    return (m->output.stream == CTL_STREAM_OUT || m->output.stream == CTL_STREAM_ERR) && m->output.len <= CTL_OUTPUT_MAX;
}

static bool finished_is_valid(const struct ctl_finished *m)
{
    int32_t least = m->end == CTL_END_SIGNALED ? 1 : 0, most = m->end == CTL_END_SIGNALED ? CTL_SIGNAL_MAX : 255;

    if (m->end < CTL_END_EXITED || m->end > CTL_END_SESSION || m->status < least || m->status > most)
        return false;
    return m->error >= 0 && m->error <= CTL_ERRNO_MAX && (m->flags & ~(uint32_t) CTL_FINISHED_ALL) == 0 &&
           ctl_text_is_ended(m->text, CTL_TEXT_MAX);
}

static bool status_is_valid(const struct ctl_status *m)
{
    return ctl_state_is_valid(m->state) && m->pid > 0 && m->pid <= INT32_MAX && m->init_pid <= INT32_MAX;
}

static bool event_is_valid(const struct ctl_event *m)
{
    return m->number > 0 && m->kind >= CTL_EVENT_EXEC_STARTED && m->kind <= CTL_EVENT_LAST;
}

static bool synced_is_valid(const struct ctl_synced *m)
{
    if (!ctl_paths_are_valid(&m->changes, CTL_SYNCED_PATHS_MAX) || !ctl_paths_are_valid(&m->conflicts, CTL_SYNCED_PATHS_MAX) ||
        m->changes.len + m->conflicts.len > CTL_SYNCED_PATHS_MAX)
        return false;
    for (const char *path = NULL; (path = ctl_paths_next(&m->conflicts, path));) {
        if (*path != '-' && *path != '+')
            return false;
    }
    return m->changes.count <= m->change_count && m->conflicts.count <= m->conflict_count;
}

static bool reply_is_valid(const struct ctl_reply *m)
{
    if ((m->tag == 0) != (m->type == CTL_REPLY_HELLO || m->type == CTL_REPLY_STATE))
        return false;
    switch (m->type) {
    case CTL_REPLY_HELLO:
        return ctl_state_is_valid(m->hello.state) && ctl_text_is_ended(m->hello.name, CTL_NAME_MAX);
    case CTL_REPLY_STATE:
        return state_is_valid(m);
    case CTL_REPLY_OK:
        return ctl_text_is_ended(m->ok.name, CTL_NAME_MAX);
    case CTL_REPLY_ERROR:
        return code_is_valid(m->error.code, true) && ctl_text_is_ended(m->error.text, CTL_TEXT_MAX);
    case CTL_REPLY_STARTED:
        return m->started.pid <= INT32_MAX && ctl_text_is_ended(m->started.name, CTL_NAME_MAX);
    case CTL_REPLY_OUTPUT:
        return output_is_valid(m);
    case CTL_REPLY_FINISHED:
        return finished_is_valid(&m->finished);
    case CTL_REPLY_STATUS:
        return status_is_valid(&m->status);
    case CTL_REPLY_EVENT:
        return event_is_valid(&m->event);
    case CTL_REPLY_SYNCED:
        return synced_is_valid(&m->synced);
    case CTL_REPLY_FILE:
        return ctl_file_is_valid(&m->file, false);
    case CTL_REPLY_LISTING:
        return ctl_listing_is_valid(&m->listing);
    }
    return false;
}

static void write_finished(struct writer *w, const struct ctl_finished *m)
{
    writer_u8(w, (uint8_t) m->end);
    writer_u32(w, (uint32_t) m->status);
    writer_u32(w, (uint32_t) m->error);
    writer_u32(w, m->flags);
    writer_u64(w, m->wall_us);
    writer_u64(w, m->user_us);
    writer_u64(w, m->system_us);
    writer_u64(w, m->max_rss_kib);
    writer_string(w, m->text);
}

static void read_finished(struct reader *r, struct ctl_finished *m)
{
    m->end = (enum ctl_end) reader_u8(r);
    m->status = (int32_t) reader_u32(r);
    m->error = (int32_t) reader_u32(r);
    m->flags = reader_u32(r);
    m->wall_us = reader_u64(r);
    m->user_us = reader_u64(r);
    m->system_us = reader_u64(r);
    m->max_rss_kib = reader_u64(r);
    ctl_read_text(r, m->text, CTL_TEXT_MAX);
}

static void write_status(struct writer *w, const struct ctl_status *m)
{
    writer_u8(w, (uint8_t) m->state);
    writer_u64(w, m->pid);
    writer_u64(w, m->init_pid);
    writer_u64(w, (uint64_t) m->started_ns);
    writer_u32(w, m->execs);
    writer_u32(w, m->sessions);
    writer_u32(w, m->clients);
    writer_u64(w, m->used_bytes);
    writer_u64(w, m->used_inodes);
    writer_u64(w, m->fence_requests);
    writer_u64(w, m->denials);
    writer_u64(w, m->denials_dropped);
    writer_u64(w, m->last_event);
}

static void read_status(struct reader *r, struct ctl_status *m)
{
    m->state = (enum ctl_state) reader_u8(r);
    m->pid = reader_u64(r);
    m->init_pid = reader_u64(r);
    m->started_ns = (int64_t) reader_u64(r);
    m->execs = reader_u32(r);
    m->sessions = reader_u32(r);
    m->clients = reader_u32(r);
    m->used_bytes = reader_u64(r);
    m->used_inodes = reader_u64(r);
    m->fence_requests = reader_u64(r);
    m->denials = reader_u64(r);
    m->denials_dropped = reader_u64(r);
    m->last_event = reader_u64(r);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void write_event(struct writer *w, const struct ctl_event *m)
{
    writer_u64(w, m->number);
    writer_u64(w, (uint64_t) m->wall_ns);
    writer_u8(w, (uint8_t) m->kind);
    for (size_t i = 0; i < CTL_EVENT_NUMBERS; i++)
        writer_u64(w, (uint64_t) m->numbers[i]);
    writer_string(w, or_empty(m->exec));
    writer_string(w, or_empty(m->subject));
    writer_string(w, or_empty(m->detail));
}

static void read_event(struct reader *r, struct ctl_event *m)
{
    m->number = reader_u64(r);
    m->wall_ns = (int64_t) reader_u64(r);
    m->kind = (enum ctl_event_kind) reader_u8(r);
    for (size_t i = 0; i < CTL_EVENT_NUMBERS; i++)
        m->numbers[i] = (int64_t) reader_u64(r);
    m->exec = reader_string(r, CTL_PROTO_SMALL_MAX);
    m->subject = reader_string(r, CTL_PROTO_SMALL_MAX);
    m->detail = reader_string(r, CTL_PROTO_SMALL_MAX);
}

static void write_synced(struct writer *w, const struct ctl_synced *m)
{
    writer_u64(w, m->version);
    writer_u64(w, m->change_count);
    writer_u64(w, m->conflict_count);
    writer_u64(w, m->left_count);
    ctl_write_paths(w, &m->changes);
    ctl_write_paths(w, &m->conflicts);
}

static void read_synced(struct reader *r, struct ctl_synced *m)
{
    m->version = reader_u64(r);
    m->change_count = reader_u64(r);
    m->conflict_count = reader_u64(r);
    m->left_count = reader_u64(r);
    ctl_read_paths(r, &m->changes);
    ctl_read_paths(r, &m->conflicts);
}

static void write_output(struct writer *w, const struct ctl_reply *m)
{
    writer_u8(w, (uint8_t) m->output.stream);
    writer_u64(w, m->output.lost);
    writer_u32(w, (uint32_t) m->output.len);
    writer_bytes(w, m->output.bytes, m->output.len);
}

static void read_output(struct reader *r, struct ctl_reply *m)
{
    m->output.stream = (enum ctl_stream) reader_u8(r);
    m->output.lost = reader_u64(r);
    m->output.len = reader_u32(r);
    m->output.bytes = reader_bytes(r, m->output.len);
}

static void write_reply(struct writer *w, const struct ctl_reply *m)
{
    switch (m->type) {
    case CTL_REPLY_HELLO:
        writer_u32(w, m->hello.version);
        writer_u8(w, (uint8_t) m->hello.state);
        writer_string(w, m->hello.name);
        break;
    case CTL_REPLY_STATE:
        writer_u8(w, (uint8_t) m->state.state);
        writer_u8(w, (uint8_t) m->state.code);
        writer_string(w, m->state.text);
        break;
    case CTL_REPLY_OK:
        writer_string(w, m->ok.name);
        break;
    case CTL_REPLY_ERROR:
        writer_u8(w, (uint8_t) m->error.code);
        writer_string(w, m->error.text);
        break;
    case CTL_REPLY_STARTED:
        writer_u32(w, m->started.pid);
        writer_string(w, m->started.name);
        break;
    case CTL_REPLY_OUTPUT:
        write_output(w, m);
        break;
    case CTL_REPLY_FINISHED:
        write_finished(w, &m->finished);
        break;
    case CTL_REPLY_STATUS:
        write_status(w, &m->status);
        break;
    case CTL_REPLY_EVENT:
        write_event(w, &m->event);
        break;
    case CTL_REPLY_SYNCED:
        write_synced(w, &m->synced);
        break;
    case CTL_REPLY_FILE:
        ctl_write_file(w, &m->file);
        break;
    case CTL_REPLY_LISTING:
        ctl_write_listing(w, &m->listing);
        break;
    }
}

static size_t payload_max(enum ctl_reply_type type)
{
    return type == CTL_REPLY_OUTPUT ? FRAME_PAYLOAD_MAX : CTL_PROTO_SMALL_MAX;
}

int ctl_reply_encode(const struct ctl_reply *reply, void *buf, size_t cap, struct frame *ret)
{
    size_t most = payload_max(reply->type);
    struct writer w;

    if (!reply_is_valid(reply))
        return -EINVAL;
    writer_init(&w, buf, cap < most ? cap : most);
    write_reply(&w, reply);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = reply->tag, .type = (uint16_t) reply->type, .payload = buf, .len = w.len };
    return 0;
}

static void read_reply(struct reader *r, struct ctl_reply *m)
{
    switch (m->type) {
    case CTL_REPLY_HELLO:
        m->hello.version = reader_u32(r);
        m->hello.state = (enum ctl_state) reader_u8(r);
        ctl_read_text(r, m->hello.name, CTL_NAME_MAX);
        break;
    case CTL_REPLY_STATE:
        m->state.state = (enum ctl_state) reader_u8(r);
        m->state.code = (enum err_code) reader_u8(r);
        ctl_read_text(r, m->state.text, CTL_TEXT_MAX);
        break;
    case CTL_REPLY_OK:
        ctl_read_text(r, m->ok.name, CTL_NAME_MAX);
        break;
    case CTL_REPLY_ERROR:
        m->error.code = (enum err_code) reader_u8(r);
        ctl_read_text(r, m->error.text, CTL_TEXT_MAX);
        break;
    case CTL_REPLY_STARTED:
        m->started.pid = reader_u32(r);
        ctl_read_text(r, m->started.name, CTL_NAME_MAX);
        break;
    case CTL_REPLY_OUTPUT:
        read_output(r, m);
        break;
    case CTL_REPLY_FINISHED:
        read_finished(r, &m->finished);
        break;
    case CTL_REPLY_STATUS:
        read_status(r, &m->status);
        break;
    case CTL_REPLY_EVENT:
        read_event(r, &m->event);
        break;
    case CTL_REPLY_SYNCED:
        read_synced(r, &m->synced);
        break;
    case CTL_REPLY_FILE:
        ctl_read_file(r, &m->file);
        break;
    case CTL_REPLY_LISTING:
        ctl_read_listing(r, &m->listing);
        break;
    }
}

int ctl_reply_decode(const struct frame *frame, struct ctl_reply *ret)
{
    struct ctl_reply m = { .type = (enum ctl_reply_type) frame->type, .tag = frame->id };
    struct reader r;

    if (frame->fd_count > (frame->type == CTL_REPLY_STARTED || frame->type == CTL_REPLY_FILE ? 1 : 0) ||
        frame->len > payload_max(m.type))
        return -EPROTO;
    reader_init(&r, frame->payload, frame->len);
    read_reply(&r, &m);
    if (reader_end(&r) < 0 || !reply_is_valid(&m))
        return -EPROTO;
    *ret = m;
    return 0;
}
