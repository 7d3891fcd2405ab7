/*
 * The API in this process: the handlers of api/, called as gRPC and REST call them, by a carrier that carries nothing. The handler runs in
 * the caller's thread; what it sends is given to the callback at once.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/call.h"
#include "client/client_int.h"
#include "rest/field.h"
#include "rest/route.h"

#define PIECE_BYTES 65536
#define WAKE_NS (5 * CLOCK_NS_PER_SEC) /* as long as others wait for us */
#define RETRY_MS 25

struct own_call {
    struct call call; /* first */
    struct embedded *embedded;
    const struct client_call *wanted;
    struct err failure; /* of a callback, which knows better than the handler why the call ends */
    int failed;
    bool request_taken, has_answered;
};

int embedded_open(const struct service_options *options, int cancel_fd, struct embedded **ret, struct err *err)
{
    autoptr(embedded) embedded = xnew(struct embedded);
    int r = service_new(options, &embedded->service, err);

    if (r < 0)
        return r;
    embedded->uid = geteuid();
    embedded->peer = (struct peer){ .kind = PEER_UNIX, .text = "this process", .has_uid = true, .uid = embedded->uid, .is_self = true };
    embedded->api = (struct api){ .service = embedded->service, .allowed_uids = &embedded->uid, .allowed_uid_count = 1 };
    embedded->cancel_fd = cancel_fd;
    *ret = steal_ptr(&embedded);
    return 0;
}

void embedded_close(struct embedded *embedded)
{
    if (!embedded)
        return;
    route_table_free(embedded->routes);
    service_free(embedded->service);
    service_options_free(embedded->resting);
    free(embedded);
}

void embedded_rest(struct embedded *embedded)
{
    embedded->resting = service_dup_options(embedded->service);
    embedded->api.service = NULL;
    service_free(steal_ptr(&embedded->service));
}

int embedded_wake(struct embedded *embedded, struct err *err)
{
    int64_t until = clock_now_ns() + WAKE_NS;
    int r;

    while ((r = service_new(embedded->resting, &embedded->service, err)) == -EBUSY && clock_now_ns() < until)
        poll(NULL, 0, RETRY_MS);
    if (r < 0)
        return r;
    embedded->api.service = embedded->service;
    service_options_free(steal_ptr(&embedded->resting));
    return 0;
}

int embedded_health(struct embedded *embedded, struct buf *out, struct err *err)
{
    int r = service_check(embedded->service, err);

    if (r == 0)
        buf_add_str(out, "{\"status\":\"healthy\",\"version\":\"" AGENTFENSE_VERSION "\",\"uptime_seconds\":0}\n");
    return r;
}

/* ---- the handler's side ---- */

static struct own_call *of_call(struct call *call)
{
    return (struct own_call *) call;
}

static int fail(struct own_call *own, int r, const struct err *why)
{
    if (own->failed == 0) {
        own->failed = r;
        own->failure = *why;
    }
    return r;
}

static ProtobufCMessage *copy(const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    autofree uint8_t *bytes = malloc(len + 1);

    if (!bytes)
        return NULL;
    protobuf_c_message_pack(message, bytes);
    return protobuf_c_message_unpack(message->descriptor, NULL, len, bytes);
}

/* The next piece of the content, as a message with the field `data`. */
static int take_piece(struct own_call *own, ProtobufCMessage **ret, struct err *err)
{
    const ProtobufCMessageDescriptor *descriptor = own->call.method->request;
    const ProtobufCFieldDescriptor *field = field_find(descriptor, "data", strlen("data"));
    autofree uint8_t *bytes = xalloc(PIECE_BYTES);
    ProtobufCBinaryData *data;
    size_t budget = SIZE_MAX;
    struct err why = ERR_NONE;
    ssize_t n = own->wanted->source(bytes, PIECE_BYTES, own->wanted->cookie, &why);

    if (n < 0) {
        *err = why;
        return fail(own, (int) n, &why);
    }
    if (n == 0)
        return 0;
    *ret = field_new_message(&budget, descriptor);
    if (!*ret)
        return err_errno(err, -ENOMEM, "sending");
    field_choose(*ret, field);
    data = field_member(*ret, field);
    data->data = steal_ptr(&bytes);
    data->len = (size_t) n;
    return 1;
}

static int op_recv(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    struct own_call *own = of_call(call);

    if (call_is_cancelled(call))
        return err_set(err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    if (own->request_taken)
        return own->wanted->source ? take_piece(own, ret, err) : 0;
    own->request_taken = true;
    *ret = copy(own->wanted->request);
    return *ret ? 1 : err_errno(err, -ENOMEM, "%s", call->method->name);
}

static int op_send(struct call *call, const ProtobufCMessage *message)
{
    struct own_call *own = of_call(call);
    struct err why = ERR_NONE;
    int r = 0;

    if (call_is_cancelled(call))
        return -ECANCELED;
    own->has_answered = true;
    if (own->wanted->on_answer)
        r = own->wanted->on_answer(message, own->wanted->cookie, &why);
    if (r < 0)
        fail(own, r, &why);
    return r < 0 ? -ECANCELED : 0;
}

static const char *op_header(struct call *call, const char *name)
{
    (void) call;
    (void) name;
    return NULL;
}

static void op_set_trailer(struct call *call, const char *name, const char *value)
{
    struct own_call *own = of_call(call);

    if (own->wanted->on_trailer)
        own->wanted->on_trailer(name, value, own->wanted->cookie);
}

static int op_cancel_fd(struct call *call)
{
    return of_call(call)->embedded->cancel_fd;
}

static bool op_is_cancelled(struct call *call)
{
    struct pollfd p = { .fd = of_call(call)->embedded->cancel_fd, .events = POLLIN };

    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static const struct call_ops ops = {
    .recv = op_recv,
    .send = op_send,
    .header = op_header,
    .set_trailer = op_set_trailer,
    .cancel_fd = op_cancel_fd,
    .is_cancelled = op_is_cancelled,
};

int embedded_call(struct embedded *embedded, const struct method *method, const struct client_call *call, struct err *err)
{
    static char request_id[] = "embedded";
    struct own_call own = {
        .call = { .ops = &ops, .method = method, .peer = &embedded->peer, .request_id = request_id },
        .embedded = embedded,
        .wanted = call,
    };
    struct err why = ERR_NONE;
    int r = method->run(&own.call, &embedded->api, &why);
    bool is_cancelled = op_is_cancelled(&own.call);

    call_done(&own.call);
    if (own.failed < 0) {
        *err = own.failure;
        return own.failed;
    }
    if (r < 0 && is_cancelled)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
    if (r < 0 && why.code == ERR_OK)
        return err_errno(err, r, "%s", method->name);
    if (r < 0)
        *err = why;
    return r < 0 ? r : 0;
}
