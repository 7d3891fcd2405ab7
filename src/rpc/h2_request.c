#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "rpc/h2_int.h"

#define CONTENT_TYPE "application/grpc"
#define NAME_MAX_BYTES 256
#define REQUEST_ID_MAX 64

/* Starts a handler with a single request only when this much of it, or all, has arrived: threads are too expensive to wait for
 * slow clients. */
#define READY_BYTES (16u << 10)

/* The stream's window while a handler reads from it. Before that it is HTTP/2's default, 64 KiB. */
#define RUNNING_WINDOW (256 << 10)

static bool is_grpc_content_type(const char *content_type)
{
    size_t len = strlen(CONTENT_TYPE);

    return content_type && strncmp(content_type, CONTENT_TYPE, len) == 0 &&
           (content_type[len] == '\0' || content_type[len] == '+' || content_type[len] == ';');
}

static void h2_reject_request(struct h2 *h2, struct grpc_call *call, enum err_code code, const char *text)
{
    grpc_call_fail(call, code, text);
    h2_answer(h2, call);
}

static bool has_service(const struct rpc_context *ctx, const char *service)
{
    for (size_t t = 0; ctx->tables[t]; t++) {
        for (size_t i = 0; i < ctx->tables[t]->count; i++) {
            if (strcmp(ctx->tables[t]->methods[i].service, service) == 0)
                return true;
        }
    }
    return false;
}

/* Parses "/sandbox.v1.SandboxService/GetSandbox". The texts of errors are those of gRPC's own servers. */
static int find_method(struct grpc_call *call, const char *path, struct err *err)
{
    const struct rpc_context *ctx = call->ctx;
    const char *slash = path && path[0] == '/' ? strchr(path + 1, '/') : NULL;
    char service[NAME_MAX_BYTES];

    if (!slash || (size_t) (slash - path) >= sizeof(service))
        return err_set(err, ERR_UNIMPLEMENTED, -ENOENT, "malformed method name");
    memcpy(service, path + 1, (size_t) (slash - path - 1));
    service[slash - path - 1] = '\0';
    for (size_t i = 0; ctx->tables[i]; i++) {
        const struct method *method = method_find(ctx->tables[i], service, slash + 1);
        if (method) {
            call->call.method = method;
            call->cookie = ctx->tables[i]->cookie;
            return 0;
        }
    }
    if (!has_service(ctx, service))
        return err_set(err, ERR_UNIMPLEMENTED, -ENOENT, "unknown service %.200s", service);
    return err_set(err, ERR_UNIMPLEMENTED, -ENOENT, "unknown method %.200s for service %.200s", slash + 1, service);
}

static int check_call_encoding(const struct grpc_call *call, struct err *err)
{
    const char *encoding = metadata_get(&call->metadata, "grpc-encoding");

    if (!encoding || strcmp(encoding, "identity") == 0 || strcmp(encoding, "gzip") == 0)
        return 0;
    return err_set(err, ERR_UNIMPLEMENTED, -EINVAL, "grpc: Decompressor is not installed for grpc-encoding \"%.64s\"",
                   encoding);
}

static int set_call_deadline(struct grpc_call *call, struct err *err)
{
    const char *text = metadata_get(&call->metadata, "grpc-timeout");
    int64_t ns;

    if (!text)
        return 0;
    if (metadata_parse_timeout(text, &ns) < 0)
        return err_set(err, ERR_INTERNAL, -EINVAL, "malformed grpc-timeout");
    if (__builtin_add_overflow(call->begun_ns, ns, &call->call.deadline_ns))
        return 0;
    call->deadline = (struct deadline){ .at_ns = call->call.deadline_ns, .owner = call };
    deadline_add(&call->ctx->deadlines, &call->deadline);
    return 0;
}

static char *dup_request_id(const struct grpc_call *call)
{
    const char *given = metadata_get(&call->metadata, "x-request-id");
    char made[ID_TEXT_MAX];

    if (given && given[0] != '\0' && strlen(given) <= REQUEST_ID_MAX)
        return xdup(given);
    id_new("req_", made);
    return xdup(made);
}

void h2_begin_request(struct h2 *h2, struct grpc_call *call)
{
    const char *verb = metadata_get(&call->metadata, ":method");
    struct err err = ERR_NONE;

    atomic_fetch_add(&h2->ctx->calls_started, 1);
    if (call->metadata.is_too_large)
        h2_reject_request(h2, call, ERR_RESOURCE_EXHAUSTED, "the header fields are too large");
    else if (!verb || strcmp(verb, "POST") != 0)
        h2_answer_http(h2, call, "405");
    else if (!is_grpc_content_type(metadata_get(&call->metadata, "content-type")))
        h2_answer_http(h2, call, "415");
    else if (check_call_encoding(call, &err) < 0 || set_call_deadline(call, &err) < 0 ||
             find_method(call, metadata_get(&call->metadata, ":path"), &err) < 0)
        h2_reject_request(h2, call, err.code, err.text);
    else
        call->call.request_id = dup_request_id(call);
}

static bool call_is_ready(struct grpc_call *call)
{
    bool streams = call->call.method->flags & METHOD_CLIENT_STREAMS;

    /* No lock: only this thread uses `in` before the handler runs. */
    return call->client_is_done || call->in.len >= (streams ? 1 : READY_BYTES);
}

static void h2_start_call(struct h2 *h2, struct grpc_call *call)
{
    struct rpc_context *ctx = h2->ctx;

    call->has_handler = true;
    h2->running++;
    rpc_context_enter(ctx);
    if (!call->client_is_done)
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, call->stream_id, RUNNING_WINDOW);
    if (ctx->start(ctx, grpc_call_ref(call)) == 0)
        return;
    grpc_call_unref(call);
    rpc_context_leave(ctx);
    call->has_handler = false;
    h2->running--;
    h2_reject_request(h2, call, ERR_RESOURCE_EXHAUSTED, "the server has too much to do");
}

void h2_start_if_ready(struct h2 *h2, struct grpc_call *call)
{
    if (!call->call.method || call->has_handler || call->is_waiting || call->has_answered || !call_is_ready(call))
        return;
    if (h2->running < h2->ctx->limits.running_max) {
        h2_start_call(h2, call);
        return;
    }
    call->is_waiting = true;
    call->next_waiting = NULL;
    *h2->last_waiting = call;
    h2->last_waiting = &call->next_waiting;
}

void h2_forget_waiting(struct h2 *h2, struct grpc_call *call)
{
    struct grpc_call **from = &h2->first_waiting;

    if (!call->is_waiting)
        return;
    while (*from != call)
        from = &(*from)->next_waiting;
    *from = call->next_waiting;
    if (h2->last_waiting == &call->next_waiting)
        h2->last_waiting = from;
    call->is_waiting = false;
}

void h2_start_waiting(struct h2 *h2)
{
    while (h2->first_waiting && h2->running < h2->ctx->limits.running_max) {
        struct grpc_call *call = h2->first_waiting;
        h2_forget_waiting(h2, call);
        h2_start_call(h2, call);
    }
}
