#include "wire/ctl_proto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "wire/ctl_int.h"

static const char *const state_names[] = {
    [CTL_STATE_BOOTING] = "booting", [CTL_STATE_RUNNING] = "running", [CTL_STATE_STOPPING] = "stopping",
    [CTL_STATE_STOPPED] = "stopped", [CTL_STATE_FAILED] = "failed",
};

const char *ctl_state_name(enum ctl_state state)
{
    return ctl_state_is_valid(state) ? state_names[state] : "unknown";
}

bool ctl_state_is_valid(enum ctl_state state)
{
    return state >= CTL_STATE_BOOTING && state <= CTL_STATE_FAILED;
}

bool ctl_text_is_ended(const char *text, size_t cap)
{
    return memchr(text, '\0', cap) != NULL;
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

#define NUMBER(type, member) FIELD_OF(type, struct ctl_request, member)
#define NAME(member) FIELD_OF(FIELD_TEXT, struct ctl_request, member)

static const struct layout request_layouts[] = {
    { CTL_REQUEST_SESSION_CLOSE, { NAME(session_close.name) } },
    { CTL_REQUEST_ATTACH, { NAME(attach.name) } },
    { CTL_REQUEST_KILL, { NUMBER(FIELD_U8, kill.signal), NUMBER(FIELD_U8, kill.scope) } },
    { CTL_REQUEST_RESIZE, { NUMBER(FIELD_U16, resize.rows), NUMBER(FIELD_U16, resize.cols) } },
    { CTL_REQUEST_WATCH, { NUMBER(FIELD_U64, watch.after) } },
    { CTL_REQUEST_STOP, { NUMBER(FIELD_U32, stop.grace_ms) } },
    { CTL_REQUEST_SYNC, { NAME(sync.by) } },
    { CTL_REQUEST_BASE_CHANGED, { CTL_PATHS_FIELDS(struct ctl_request, base_changed) } },
    { CTL_REQUEST_QUIESCE, { NUMBER(FIELD_U32, quiesce.wait_ms), NUMBER(FIELD_U32, quiesce.limit_ms) } },
    { CTL_REQUEST_REVERT, { NUMBER(FIELD_U32, revert.replaces), CTL_PATHS_FIELDS(struct ctl_request, revert.paths) } },
    { CTL_REQUEST_FILE,
      { NUMBER(FIELD_U8, file.op), NUMBER(FIELD_U32, file.flags), NUMBER(FIELD_U32, file.mode), NUMBER(FIELD_U64, file.offset),
        NUMBER(FIELD_U64, file.size), FIELD_STRING_OF(struct ctl_request, file.path, CTL_PATH_MAX),
        FIELD_STRING_OF(struct ctl_request, file.after, CTL_PATH_MAX) } },
    { CTL_REQUEST_INPUT, { NUMBER(FIELD_U32, input.len), FIELD_BYTES_OF(struct ctl_request, input.bytes, input.len) } },
    { CTL_REQUEST_END, { NAME(end.name), NUMBER(FIELD_U32, end.grace_ms) } },
};

int ctl_request_encode(const struct ctl_request *request, void *buf, size_t cap, struct frame *ret)
{
    struct writer w;

    if (!request_is_valid(request))
        return -EINVAL;
    writer_init(&w, buf, cap);
    layout_write(request_layouts, ARRAY_LEN(request_layouts), request->type, request, &w);
    if (writer_end(&w) < 0)
        return -EMSGSIZE;
    *ret = (struct frame){ .id = request->tag, .type = (uint16_t) request->type, .payload = buf, .len = w.len };
    return 0;
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
    layout_read(request_layouts, ARRAY_LEN(request_layouts), m->type, m, &r);
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
