#include <errno.h>

#include "base/mem.h"
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

#define NUMBER(type, member) FIELD_OF(type, struct ctl_reply, member)
#define TEXT(member) FIELD_OF(FIELD_TEXT, struct ctl_reply, member)
#define STRING(member) FIELD_STRING_OF(struct ctl_reply, member, CTL_PROTO_SMALL_MAX)

/* FILE has ctl_file_fields. */
static const struct layout reply_layouts[] = {
    { CTL_REPLY_HELLO, { NUMBER(FIELD_U32, hello.version), NUMBER(FIELD_U8, hello.state), TEXT(hello.name) } },
    { CTL_REPLY_STATE, { NUMBER(FIELD_U8, state.state), NUMBER(FIELD_U8, state.code), TEXT(state.text) } },
    { CTL_REPLY_OK, { TEXT(ok.name) } },
    { CTL_REPLY_ERROR, { NUMBER(FIELD_U8, error.code), TEXT(error.text) } },
    { CTL_REPLY_STARTED, { NUMBER(FIELD_U32, started.pid), TEXT(started.name) } },
    { CTL_REPLY_OUTPUT,
      { NUMBER(FIELD_U8, output.stream), NUMBER(FIELD_U64, output.lost), NUMBER(FIELD_U32, output.len),
        FIELD_BYTES_OF(struct ctl_reply, output.bytes, output.len) } },
    { CTL_REPLY_FINISHED,
      { NUMBER(FIELD_U8, finished.end), NUMBER(FIELD_U32, finished.status), NUMBER(FIELD_U32, finished.error),
        NUMBER(FIELD_U32, finished.flags), NUMBER(FIELD_U64, finished.wall_us), NUMBER(FIELD_U64, finished.user_us),
        NUMBER(FIELD_U64, finished.system_us), NUMBER(FIELD_U64, finished.max_rss_kib), TEXT(finished.text) } },
    { CTL_REPLY_STATUS,
      { NUMBER(FIELD_U8, status.state), NUMBER(FIELD_U64, status.pid), NUMBER(FIELD_U64, status.init_pid),
        NUMBER(FIELD_U64, status.started_ns), NUMBER(FIELD_U32, status.execs), NUMBER(FIELD_U32, status.sessions),
        NUMBER(FIELD_U32, status.clients), NUMBER(FIELD_U64, status.used_bytes), NUMBER(FIELD_U64, status.used_inodes),
        NUMBER(FIELD_U64, status.fence_requests), NUMBER(FIELD_U64, status.denials), NUMBER(FIELD_U64, status.denials_dropped),
        NUMBER(FIELD_U64, status.last_event) } },
    { CTL_REPLY_EVENT,
      { NUMBER(FIELD_U64, event.number), NUMBER(FIELD_U64, event.wall_ns), NUMBER(FIELD_U8, event.kind),
        NUMBER(FIELD_U64, event.numbers[0]), NUMBER(FIELD_U64, event.numbers[1]), NUMBER(FIELD_U64, event.numbers[2]),
        STRING(event.exec), STRING(event.subject), STRING(event.detail) } },
    { CTL_REPLY_SYNCED,
      { NUMBER(FIELD_U64, synced.version), NUMBER(FIELD_U64, synced.change_count), NUMBER(FIELD_U64, synced.conflict_count),
        NUMBER(FIELD_U64, synced.left_count), CTL_PATHS_FIELDS(struct ctl_reply, synced.changes),
        CTL_PATHS_FIELDS(struct ctl_reply, synced.conflicts) } },
    { CTL_REPLY_LISTING,
      { NUMBER(FIELD_U8, listing.has_more), NUMBER(FIELD_U32, listing.count), NUMBER(FIELD_U32, listing.len),
        FIELD_BYTES_OF(struct ctl_reply, listing.bytes, listing.len) } },
};

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
    if (reply->type == CTL_REPLY_FILE)
        fields_write(ctl_file_fields, &reply->file, &w);
    else
        layout_write(reply_layouts, ARRAY_LEN(reply_layouts), reply->type, reply, &w);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = reply->tag, .type = (uint16_t) reply->type, .payload = buf, .len = w.len };
    return 0;
}

int ctl_reply_decode(const struct frame *frame, struct ctl_reply *ret)
{
    struct ctl_reply m = { .type = (enum ctl_reply_type) frame->type, .tag = frame->id };
    struct reader r;

    if (frame->fd_count > (frame->type == CTL_REPLY_STARTED || frame->type == CTL_REPLY_FILE ? 1 : 0) ||
        frame->len > payload_max(m.type))
        return -EPROTO;
    reader_init(&r, frame->payload, frame->len);
    if (m.type == CTL_REPLY_FILE)
        fields_read(ctl_file_fields, &m.file, &r);
    else
        layout_read(reply_layouts, ARRAY_LEN(reply_layouts), m.type, &m, &r);
    if (reader_end(&r) < 0 || !reply_is_valid(&m))
        return -EPROTO;
    *ret = m;
    return 0;
}
