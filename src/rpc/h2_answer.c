#include <string.h>

#include "base/mem.h"
#include "rpc/h2_int.h"

#define FIELDS_MAX (8 + STATUS_TRAILERS_MAX)

/* The texts are borrowed; nghttp2 copies them. */
struct fields {
    nghttp2_nv list[FIELDS_MAX];
    size_t count;
};

static void fields_add(struct fields *fields, const char *name, const char *value)
{
    fields->list[fields->count++] = (nghttp2_nv){ .name = (uint8_t *) (uintptr_t) name,
                                                  .value = (uint8_t *) (uintptr_t) value,
                                                  .namelen = strlen(name),
                                                  .valuelen = strlen(value) };
}

static void fields_add_head(struct fields *fields)
{
    fields_add(fields, ":status", "200");
    fields_add(fields, "content-type", "application/grpc");
    fields_add(fields, "grpc-accept-encoding", "identity,gzip");
}

/* Reads the status without the lock: it is constant once the call is over. */
static void fields_add_status(struct fields *fields, const struct status *status)
{
    static const char *const codes[] = { "0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16" };

    fields_add(fields, "grpc-status", codes[status->code]);
    if (status->message.len > 0)
        fields_add(fields, "grpc-message", status->message.data);
    if (status->details.len > 0)
        fields_add(fields, "grpc-status-details-bin", status->details.data);
    const char *at = status->trailers.data;
    for (size_t i = 0; i < status->trailer_count; i++) {
        const char *value = at + strlen(at) + 1;
        fields_add(fields, at, value);
        at = value + strlen(value) + 1;
    }
}

void h2_relieve(struct h2 *h2, size_t before)
{
    if (before < h2->shared->queued_max || atomic_load(&h2->shared->queued_bytes) >= h2->shared->queued_max)
        return;
    for (struct grpc_call *call = h2->calls; call; call = call->next) {
        if (call->has_handler)
            grpc_call_wake(call);
    }
}

static ssize_t read_answer(nghttp2_session *session, int32_t stream_id, uint8_t *bytes, size_t len, uint32_t *data_flags,
                           nghttp2_data_source *source, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call = source->ptr;
    struct fields fields = { .count = 0 };
    size_t queued = atomic_load(&h2->shared->queued_bytes);
    bool is_end;
    size_t n = grpc_call_read(call, bytes, len, &is_end);

    h2_relieve(h2, queued);
    if (is_end) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        fields_add_status(&fields, &call->status);
        if (nghttp2_submit_trailer(session, stream_id, fields.list, fields.count) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    } else if (n == 0) {
        call->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t) n;
}

static void h2_answer_first(struct h2 *h2, struct grpc_call *call, bool is_over, bool has_bytes)
{
    const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_answer };
    struct fields fields = { .count = 0 };

    call->has_answered = true;
    fields_add_head(&fields);
    if (is_over && !has_bytes && call->status.code != ERR_OK) {
        fields_add_status(&fields, &call->status);
        nghttp2_submit_response(h2->session, call->stream_id, fields.list, fields.count, NULL);
    } else {
        nghttp2_submit_response(h2->session, call->stream_id, fields.list, fields.count, &provider);
    }
}

void h2_answer(struct h2 *h2, struct grpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool is_over = call->is_over, has_bytes = call->out.len > call->out_taken;
    pthread_mutex_unlock(&call->lock);

    if (!is_over && !has_bytes)
        return;
    if (!call->has_answered) {
        /* A single answer is sent with its status: three frames in one packet. */
        if (is_over || call->call.method->flags & METHOD_SERVER_STREAMS)
            h2_answer_first(h2, call, is_over, has_bytes);
    } else if (call->is_deferred) {
        call->is_deferred = false;
        nghttp2_session_resume_data(h2->session, call->stream_id);
    }
}

void h2_answer_http(struct h2 *h2, struct grpc_call *call, const char *http_status)
{
    struct fields fields = { .count = 0 };

    call->has_answered = true;
    grpc_call_fail(call, ERR_UNKNOWN, "");
    fields_add(&fields, ":status", http_status);
    nghttp2_submit_response(h2->session, call->stream_id, fields.list, fields.count, NULL);
}
