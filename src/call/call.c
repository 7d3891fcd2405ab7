#include "call/call.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

int call_recv(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    return call->ops->recv(call, ret, err);
}

int call_send(struct call *call, const ProtobufCMessage *message)
{
    return call->ops->send(call, message);
}

const char *call_header(struct call *call, const char *name)
{
    return call->ops->header(call, name);
}

void call_set_trailer(struct call *call, const char *name, const char *value)
{
    call->ops->set_trailer(call, name, value);
}

int call_cancel_fd(struct call *call)
{
    return call->ops->cancel_fd(call);
}

bool call_is_cancelled(struct call *call)
{
    return call->ops->is_cancelled(call);
}

int call_input_fd(struct call *call)
{
    return call->ops->input_fd ? call->ops->input_fd(call) : -1;
}

static void drop_details(struct call *call)
{
    for (size_t i = 0; i < call->detail_count; i++)
        free(call->details[i].value);
    call->detail_count = 0;
}

void call_set_reason(struct call *call, const char *reason)
{
    drop_details(call);
    call->reason = reason;
}

size_t call_failure_room(const struct call *call)
{
    return call->failure_bytes > 0 ? call->failure_bytes : CALL_FAILURE_BYTES;
}

void call_add_detail(struct call *call, const char *key, const char *value)
{
    if (call->detail_count == CALL_DETAILS_MAX)
        return;
    call->details[call->detail_count++] = (struct call_detail){ .key = key, .value = xdup(value) };
}

void call_take_failure(struct call *call, ProtobufCMessage *failure)
{
    if (call->failure)
        protobuf_c_message_free_unpacked(call->failure, NULL);
    call->failure = failure;
}

void call_done(struct call *call)
{
    drop_details(call);
    call_take_failure(call, NULL);
    free(call->owner);
    call->owner = NULL;
    for (size_t i = 0; call->allowed_roots && call->allowed_roots[i]; i++)
        free(call->allowed_roots[i]);
    free(call->allowed_roots);
    call->allowed_roots = NULL;
}

int call_ms_left(const struct call *call)
{
    if (call->deadline_ns == 0)
        return -1;
    int64_t left = call->deadline_ns - clock_now_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left + 999999) / 1000000;
    return ms > INT_MAX ? INT_MAX : (int) ms;
}
