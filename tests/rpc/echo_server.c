/*
 * A server for tests: echo-server [--listen ADDRESS]... [--tls CERT KEY [CA]] [--limit NAME VALUE]... [--threads N] [--files N]
 *
 * Says where it listens, an address a line and then an empty one. Obeys lines on its input: "drain MS", "down", "up", "reload"; answers each with
 * a line. Goes when the input ends.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "echo.pb-c.h"
#include "echo_descriptors.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "call/call.h"
#include "rpc/server.h"

#define LISTENERS_MAX 4

static atomic_llong cancelled, running, ended, sent;
static struct rpc_server *server;

static void free_request(Test__V1__Request **request)
{
    if (*request)
        test__v1__request__free_unpacked(*request, NULL);
}

#define autorequest __attribute__((cleanup(free_request))) Test__V1__Request *

/* Waits as told, or until nobody wants the answer any more. */
static int wait_as_told(struct call *call, const Test__V1__Request *request, struct err *err)
{
    struct pollfd fd = { .fd = call_cancel_fd(call), .events = POLLIN };

    if (!request->wait)
        return 0;
    int ms = (int) (request->wait->seconds * 1000 + request->wait->nanos / 1000000);
    if (poll(&fd, 1, ms) > 0)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "cancelled");
    return 0;
}

static int fail_as_told(struct call *call, const Test__V1__Request *request, struct err *err)
{
    if (request->code == 0)
        return 0;
    if (request->reason[0] != '\0') {
        call_set_reason(call, strcmp(request->reason, "LONG") == 0 ? "LONG_REASON" : "SANDBOX_NOT_FOUND");
        call_add_detail(call, "sandbox_id", request->text);
        call_add_detail(call, "other", request->reason);
    }
    return err_set(err, (enum err_code) request->code, -EINVAL, "told to fail: %s", request->text);
}

static int answer(struct call *call, const Test__V1__Request *request, int64_t count, int64_t size)
{
    Test__V1__Response response = TEST__V1__RESPONSE__INIT;
    const char *header = request->header[0] != '\0' ? call_header(call, request->header) : NULL;
    autofree uint8_t *made = request->size > 0 ? xalloc((size_t) request->size) : NULL;

    response.text = (char *) (header ? header : request->text);
    response.data = made ? (ProtobufCBinaryData){ .data = made, .len = (size_t) request->size } : request->data;
    response.count = count;
    response.size = size;
    int r = call_send(call, &response.base);
    if (r == 0)
        atomic_fetch_add(&sent, 1);
    return r;
}

static int unary(struct call *call, struct err *err)
{
    autorequest request = NULL;
    int r = call_recv(call, (ProtobufCMessage **) &request, err);

    if (r <= 0)
        return r;
    call_set_trailer(call, "X-Request-Id", call->request_id);
    call_set_trailer(call, "echo-bin", request->text);
    r = wait_as_told(call, request, err);
    if (r == 0)
        r = fail_as_told(call, request, err);
    return r < 0 ? r : answer(call, request, (int64_t) request->n_labels, (int64_t) request->data.len);
}

static int collect(struct call *call, struct err *err)
{
    Test__V1__Request none = TEST__V1__REQUEST__INIT;
    int64_t count = 0, size = 0;
    int r;

    for (;;) {
        autorequest request = NULL;
        r = call_recv(call, (ProtobufCMessage **) &request, err);
        if (r <= 0)
            break;
        count++;
        size += (int64_t) request->data.len;
        r = wait_as_told(call, request, err);
        if (r == 0)
            r = fail_as_told(call, request, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : answer(call, &none, count, size);
}

static int stream(struct call *call, struct err *err)
{
    autorequest request = NULL;
    int r = call_recv(call, (ProtobufCMessage **) &request, err);

    for (int32_t i = 0; r >= 0 && request && i < request->count; i++) {
        r = wait_as_told(call, request, err);
        if (r == 0)
            r = answer(call, request, i, 0);
    }
    return r < 0 ? r : fail_as_told(call, request, err);
}

static int chat(struct call *call, struct err *err)
{
    int64_t count = 0;
    int r;

    for (;;) {
        autorequest request = NULL;
        r = call_recv(call, (ProtobufCMessage **) &request, err);
        if (r > 0)
            r = fail_as_told(call, request, err);
        else
            return r;
        if (r == 0)
            r = answer(call, request, count++, 0);
        if (r < 0)
            return r;
    }
}

static int facts(struct call *call, struct err *err)
{
    Test__V1__Facts response = TEST__V1__FACTS__INIT;
    ProtobufCMessage *request = NULL;
    struct rpc_stats stats;
    uid_t uid;
    int r = call_recv(call, &request, err);

    if (r < 0)
        return r;
    protobuf_c_message_free_unpacked(request, NULL);
    rpc_server_stats(server, &stats);
    response.cancelled = atomic_load(&cancelled);
    response.running = atomic_load(&running) - 1;
    response.ended = atomic_load(&ended);
    response.out = atomic_load(&sent);
    response.connections = (int64_t) stats.connections;
    response.refused = (int64_t) stats.connections_refused;
    response.uid = peer_uid(call->peer, &uid) == 0 ? (int64_t) uid : -1;
    response.subject = call->peer->tls_subject ? call->peer->tls_subject : (char *) "";
    return call_send(call, &response.base);
}

static int silent(struct call *call, struct err *err)
{
    (void) call;
    (void) err;
    return 0;
}

/* Every handler is counted, and what it ends with when its client has gone. */
static int counted(struct call *call, void *cookie, struct err *err)
{
    static const struct {
        const char *name;
        int (*run)(struct call *call, struct err *err);
    } handlers[] = { { "Unary", unary }, { "Collect", collect }, { "Stream", stream },
                     { "Chat", chat },   { "Facts", facts },     { "Silent", silent } };
    int r = -ENOSYS;

    (void) cookie;
    atomic_fetch_add(&running, 1);
    for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
        if (strcmp(handlers[i].name, call->method->name) == 0)
            r = handlers[i].run(call, err);
    }
    if (call_is_cancelled(call))
        atomic_fetch_add(&cancelled, 1);
    atomic_fetch_sub(&running, 1);
    return r;
}

#define REQUEST .request = &test__v1__request__descriptor, .response = &test__v1__response__descriptor
#define NOTHING .request = &test__v1__nothing__descriptor

static const struct method methods[] = {
    { .service = "test.v1.Echo", .name = "Unary", REQUEST, .run = counted },
    { .service = "test.v1.Echo", .name = "Collect", REQUEST, .run = counted, .flags = METHOD_CLIENT_STREAMS },
    { .service = "test.v1.Echo", .name = "Stream", REQUEST, .run = counted, .flags = METHOD_SERVER_STREAMS },
    { .service = "test.v1.Echo",
      .name = "Chat",
      REQUEST,
      .run = counted,
      .flags = METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS },
    { .service = "test.v1.Echo", .name = "Facts", NOTHING, .response = &test__v1__facts__descriptor, .run = counted },
    { .service = "test.v1.Echo", .name = "Silent", NOTHING, .response = &test__v1__nothing__descriptor, .run = counted },
};
static const struct method_table table = { .methods = methods, .count = ARRAY_LEN(methods) };

static void on_call_end(void *cookie, const struct rpc_call_end *end)
{
    (void) cookie;
    if (end->duration_ns >= 0 && end->code <= ERR_UNAUTHENTICATED)
        atomic_fetch_add(&ended, 1);
}

static void set_limit(struct rpc_limits *limits, const char *name, unsigned value)
{
    const struct {
        const char *name;
        unsigned *value;
    } all[] = { { "connections", &limits->connections_max },
                { "streams", &limits->streams_max },
                { "running", &limits->running_max },
                { "handshake", &limits->handshake_ms },
                { "keepalive", &limits->keepalive_ms },
                { "keepalive_timeout", &limits->keepalive_timeout_ms },
                { "stall", &limits->stall_ms },
                { "slow_reader", &limits->slow_reader_ms },
                { "queued", &limits->queued_bytes_max },
                { "age", &limits->age_ms },
                { "reset_burst", &limits->reset_burst },
                { "reset_per_second", &limits->reset_per_second } };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (strcmp(all[i].name, name) == 0)
            *all[i].value = value;
    }
}

static void obey(const char *line, struct tls *tls)
{
    struct err err = ERR_NONE;
    int r = 0;

    if (strncmp(line, "drain ", 6) == 0)
        r = rpc_server_drain(server, atoi(line + 6));
    else if (strcmp(line, "down") == 0)
        rpc_server_set_serving(server, false);
    else if (strcmp(line, "up") == 0)
        rpc_server_set_serving(server, true);
    else if (strcmp(line, "reload") == 0)
        r = tls_reload(tls, &err);
    printf("%d %s\n", r, err.text);
    fflush(stdout);
}

static int die(const struct err *err)
{
    fprintf(stderr, "echo-server: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct listener listeners[LISTENERS_MAX];
    struct rpc_options options = { .listeners = listeners,
                                   .methods = &table,
                                   .descriptors = echo_descriptors,
                                   .descriptors_len = echo_descriptors_len,
                                   .on_call_end = on_call_end };
    struct err err = ERR_NONE;
    struct pool *pool = NULL;
    struct tls *tls = NULL;
    unsigned threads = 0;
    char line[256];
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    log_set_level(getenv("ECHO_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--listen") == 0 && options.listener_count < LISTENERS_MAX) {
            if (listener_open(&listeners[options.listener_count], argv[++i], 0, &err) < 0)
                return die(&err);
            options.listener_count++;
        } else if (strcmp(argv[i], "--tls") == 0) {
            struct tls_files files = { .certificate = argv[i + 1], .key = argv[i + 2] };
            i += 2;
            if (i + 1 < argc && argv[i + 1][0] != '-')
                files.client_ca = argv[++i];
            if (tls_new(&files, &tls, &err) < 0)
                return die(&err);
        } else if (strcmp(argv[i], "--limit") == 0) {
            set_limit(&options.limits, argv[i + 1], (unsigned) atoi(argv[i + 2]));
            i += 2;
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = (unsigned) atoi(argv[++i]);
        } else if (strcmp(argv[i], "--files") == 0) {
            rlim_t n = (rlim_t) atoi(argv[++i]);
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, n });
        }
    }
    options.tls = tls;
    if (pool_new(threads, 0, &pool, &err) < 0)
        return die(&err);
    options.pool = pool;
    if (rpc_server_new(&options, &server, &err) < 0 || rpc_server_start(server, &err) < 0)
        return die(&err);
    for (size_t i = 0; i < options.listener_count; i++)
        printf("%s\n", listeners[i].text);
    printf("\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line, tls);
    }
    rpc_server_free(server);
    pool_free(pool);
    tls_free(tls);
    for (size_t i = 0; i < options.listener_count; i++)
        listener_done(&listeners[i]);
    return 0;
}
