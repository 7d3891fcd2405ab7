/*
 * A server with methods that do what the tests of HTTP need: answer, fail, wait, stream either way. What they saw is told on a page.
 *
 * usage: rest-server [--listen ADDRESS | --listen-tls ADDRESS]... [--cert FILE --key FILE [--client-ca FILE]] [--host NAME] [--origin ORIGIN]
 *                    [--header-ms N] [--body-ms N] [--write-ms N] [--heartbeat-ms N] [--connections N] [--threads N]
 * Prints "listening ADDRESS" for each, and ends when its standard input does.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <echo.pb-c.h>

#include "base/mem.h"
#include "call/call.h"
#include "rest/http_server.h"
#include "rest/json_message.h"
#include "web_routes.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static struct buf notes;
static bool is_released;

void note(const char *what, const char *id, long long number)
{
    pthread_mutex_lock(&lock);
    buf_addf(&notes, "%s %s %lld\n", what, id, number);
    pthread_mutex_unlock(&lock);
}

static void wait_for_release(void)
{
    pthread_mutex_lock(&lock);
    while (!is_released)
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
}

static int wait_for_cancel(struct call *call)
{
    struct pollfd fd = { .fd = call_cancel_fd(call), .events = POLLIN };

    while (!call_is_cancelled(call))
        poll(&fd, 1, call_ms_left(call));
    return -ECANCELED;
}

static void free_message(void *message)
{
    if (*(void **) message)
        protobuf_c_message_free_unpacked(*(void **) message, NULL);
}

#define automessage __attribute__((cleanup(free_message)))

static int take(struct call *call, void *ret, struct err *err)
{
    int r = call_recv(call, ret, err);

    return r == 0 ? err_invalid(err, "there is no request") : r < 0 ? r : 0;
}

static int echo(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Question *question = NULL;
    Echo__V1__Answer answer = ECHO__V1__ANSWER__INIT;
    int r = take(call, &question, err);
    (void) cookie;

    if (r < 0)
        return r;
    const char *header = call_header(call, "x-echo");
    answer.text = (char *) (uintptr_t) (header ? header : call->request_id);
    answer.question = question;
    if (strcmp(question->text, "trailer") == 0)
        call_set_trailer(call, "agentfense-exit-code", "7");
    return call_send(call, &answer.base);
}

static int everything(struct call *call, void *cookie, struct err *err)
{
    automessage ProtobufCMessage *message = NULL;
    int r = take(call, &message, err);
    (void) cookie;

    return r < 0 ? r : call_send(call, message);
}

static int fail(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Question *question = NULL;
    int r = take(call, &question, err);
    (void) cookie;

    if (r < 0)
        return r;
    if (strcmp(question->id, "reason") == 0) {
        call_set_reason(call, "THING_NOT_FOUND");
        call_add_detail(call, "thing_id", question->text);
    }
    if (strcmp(question->id, "nothing") == 0)
        return 0;
    return err_set(err, (enum err_code) question->count, -EIO, "%s", question->text);
}

static int wait_here(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Question *question = NULL;
    int r = take(call, &question, err);
    (void) cookie;

    if (r < 0)
        return r;
    note("waiting", question->id, 0);
    r = wait_for_cancel(call);
    note("cancelled", question->id, 0);
    return r;
}

static int hold(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Question *question = NULL;
    Echo__V1__Answer answer = ECHO__V1__ANSWER__INIT;
    int r = take(call, &question, err);
    (void) cookie;

    if (r < 0)
        return r;
    note("holding", question->id, 0);
    wait_for_release();
    return call_send(call, &answer.base);
}

static int stream(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Question *question = NULL;
    autofree char *padding = NULL;
    int r = take(call, &question, err);
    (void) cookie;

    if (r < 0)
        return r;
    if (strcmp(question->text, "refuse") == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "no such thing");
    padding = xalloc((size_t) question->size + 1);
    memset(padding, 'x', (size_t) question->size);
    for (int i = 0; i < question->count; i++) {
        Echo__V1__Answer answer = ECHO__V1__ANSWER__INIT;

        answer.count = i;
        answer.text = padding;
        r = call_send(call, &answer.base);
        if (r < 0) {
            note("stopped", question->id, i);
            return r;
        }
        if (i % 100 == 0)
            note("sent", question->id, i);
    }
    note("all-sent", question->id, question->count);
    if (strcmp(question->text, "fail") == 0)
        return err_set(err, ERR_ABORTED, -EIO, "it broke");
    if (strcmp(question->text, "wait") == 0) {
        r = wait_for_cancel(call);
        note("cancelled", question->id, 0);
        return r;
    }
    call_set_trailer(call, "agentfense-exit-code", "3");
    return 0;
}

static int upload(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Piece *first = NULL;
    Echo__V1__Question question = ECHO__V1__QUESTION__INIT;
    Echo__V1__Answer answer = ECHO__V1__ANSWER__INIT;
    autodone(buf) struct buf kept = BUF_EMPTY;
    uint64_t sum = 0;
    int r = take(call, &first, err);
    (void) cookie;

    if (r < 0)
        return r;
    if (first->content_case != ECHO__V1__PIECE__CONTENT_METADATA)
        return err_invalid(err, "metadata must be sent first");
    const char *id = first->metadata->id;
    note("upload", id, first->metadata->total_size);
    if (strcmp(id, "early") == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "no such thing");
    if (strcmp(id, "slow") == 0)
        wait_for_release();
    for (;;) {
        automessage Echo__V1__Piece *piece = NULL;

        r = call_recv(call, (ProtobufCMessage **) &piece, err);
        if (r <= 0)
            break;
        for (size_t i = 0; i < piece->data.len; i++)
            sum = sum * 31 + piece->data.data[i];
        answer.count += (int64_t) piece->data.len;
        if (kept.len < 100)
            buf_add(&kept, piece->data.data, piece->data.len < 100 ? piece->data.len : 100);
    }
    note(r < 0 ? "upload-failed" : "uploaded", id, answer.count);
    if (r < 0)
        return r;
    question.id = (char *) (uintptr_t) id;
    question.text = first->metadata->file_path;
    question.count = (int32_t) first->metadata->mode;
    question.size = (int64_t) sum;
    answer.text = kept.data ? kept.data : question.text + strlen(question.text);
    answer.question = &question;
    return call_send(call, &answer.base);
}

enum { FAIL_BEFORE = 1, FAIL_AFTER = 2, WAIT_AFTER = 3 };

static int download(struct call *call, void *cookie, struct err *err)
{
    automessage Echo__V1__Piece__Metadata *request = NULL;
    uint8_t block[10000];
    int r = take(call, &request, err);
    (void) cookie;

    if (r < 0)
        return r;
    if (request->mode == FAIL_BEFORE)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "no file '%s'", request->file_path);
    for (int64_t left = request->total_size; left > 0; left -= (int64_t) sizeof(block)) {
        Echo__V1__Chunk chunk = ECHO__V1__CHUNK__INIT;

        memset(block, 'a' + (int) (left % 26), sizeof(block));
        chunk.data.data = block;
        chunk.data.len = left < (int64_t) sizeof(block) ? (size_t) left : sizeof(block);
        r = call_send(call, &chunk.base);
        if (r < 0) {
            note("stopped", request->id, left);
            return r;
        }
    }
    note("all-sent", request->id, request->total_size);
    if (request->mode == WAIT_AFTER)
        return wait_for_cancel(call);
    return request->mode == FAIL_AFTER ? err_set(err, ERR_DATA_LOSS, -EIO, "it broke") : 0;
}

#define QUESTION &echo__v1__question__descriptor
#define ANSWER &echo__v1__answer__descriptor
#define SERVICE "echo.v1.EchoService"

static const struct method methods[] = {
    { SERVICE,
      "Ask",
      0,
      QUESTION,
      ANSWER,
      echo,
      { { "POST", "/v1/things/{id}/echo", METHOD_BODY_JSON, METHOD_ANSWER_JSON } },
      "Says it again.",
      NULL },
    { SERVICE,
      "List",
      0,
      QUESTION,
      ANSWER,
      echo,
      { { "GET", "/v1/things", METHOD_BODY_NONE, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Get",
      METHOD_PUBLIC,
      QUESTION,
      ANSWER,
      echo,
      { { "GET", "/v1/things/{id}", METHOD_BODY_NONE, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Start",
      0,
      QUESTION,
      ANSWER,
      echo,
      { { "POST", "/v1/things/{id}/start", METHOD_BODY_NONE, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Everything",
      0,
      &echo__v1__everything__descriptor,
      &echo__v1__everything__descriptor,
      everything,
      { { "POST", "/v1/everything", METHOD_BODY_JSON, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Fail",
      0,
      QUESTION,
      ANSWER,
      fail,
      { { "POST", "/v1/fail", METHOD_BODY_JSON, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Wait",
      0,
      QUESTION,
      ANSWER,
      wait_here,
      { { "POST", "/v1/things/{id}/wait", METHOD_BODY_JSON, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Hold",
      0,
      QUESTION,
      ANSWER,
      hold,
      { { "GET", "/v1/things/{id}/hold", METHOD_BODY_NONE, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Stream",
      METHOD_SERVER_STREAMS,
      QUESTION,
      ANSWER,
      stream,
      { { "POST", "/v1/things/{id}/stream", METHOD_BODY_JSON, METHOD_ANSWER_EVENTS },
        { "GET", "/v1/things/{id}/stream", METHOD_BODY_NONE, METHOD_ANSWER_EVENTS } },
      NULL,
      NULL },
    { SERVICE,
      "Upload",
      METHOD_CLIENT_STREAMS,
      &echo__v1__piece__descriptor,
      ANSWER,
      upload,
      { { "PUT", "/v1/things/{id}/files/{file_path=**}", METHOD_BODY_BYTES, METHOD_ANSWER_JSON },
        { "POST", "/v1/things/{id}/files", METHOD_BODY_BYTES, METHOD_ANSWER_JSON } },
      NULL,
      NULL },
    { SERVICE,
      "Download",
      METHOD_SERVER_STREAMS,
      &echo__v1__piece__metadata__descriptor,
      &echo__v1__chunk__descriptor,
      download,
      { { "GET", "/v1/things/{id}/files/{file_path=**}", METHOD_BODY_NONE, METHOD_ANSWER_BYTES } },
      NULL,
      NULL },
    { SERVICE, "Hidden", 0, QUESTION, ANSWER, echo, { { 0 } }, NULL, NULL },
};

static void show_health(struct web *web, void *cookie)
{
    (void) cookie;
    buf_add_str(&web->response.body, "{\"status\":\"ok\"}");
}

static void show_notes(struct web *web, void *cookie)
{
    (void) cookie;
    web->response.content_type = "text/plain";
    pthread_mutex_lock(&lock);
    buf_add(&web->response.body, notes.data, notes.len);
    pthread_mutex_unlock(&lock);
}

static void release(struct web *web, void *cookie)
{
    (void) cookie;
    pthread_mutex_lock(&lock);
    is_released = !web_query(web, "again");
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
    buf_add_str(&web->response.body, "{}");
}

static void show_page(struct web *web, void *cookie)
{
    const char *agent = web_header(web, "user-agent"), *rest = web_capture(web, "x");
    (void) cookie;

    web->response.status = strcmp(rest, "missing") == 0 ? 404 : 200;
    web->response.content_type = "text/html";
    web_add_header(web, "Cache-Control", "max-age=60");
    buf_addf(&web->response.body, "<p>%s|", rest);
    for (size_t i = 0; i < web->query_count; i++)
        buf_addf(&web->response.body, "%s%s=%s", i > 0 ? "&" : "", web->queries[i].name, web->queries[i].value);
    buf_addf(&web->response.body, "|%s", agent ? agent : "");
}

static struct http_server *server;

static void show_stats(struct web *web, void *cookie)
{
    struct http_server_stats stats;
    (void) cookie;

    http_server_stats(server, &stats);
    buf_addf(&web->response.body, "{\"connections\":%zu,\"calls\":%zu,\"refused\":%llu}", stats.connections, stats.calls,
             (unsigned long long) stats.refused);
}

static const struct web_route page_routes[] = {
    { .verb = "GET", .path = "/health", .run = show_health },  { .verb = "GET", .path = "/notes", .run = show_notes },
    { .verb = "GET", .path = "/release", .run = release },     { .verb = "GET", .path = "/stats", .run = show_stats },
    { .verb = "GET", .path = "/ui/{x=**}", .run = show_page },
};
static const struct web_table pages = { .routes = page_routes, .count = ARRAY_LEN(page_routes) };

static void on_call_end(const struct method *method, enum err_code code, int64_t ns, void *cookie)
{
    (void) cookie;
    note("end", method->name, ns < 0 ? -1 : (int) code);
}

static struct listener listeners[8];
static size_t listener_count;
static bool with_tls[8];
static struct tls_files tls;
static const char *hosts[8], *origins[8];

static unsigned number_of(const char *text)
{
    return (unsigned) strtoul(text, NULL, 10);
}

static void take_option(struct http_server_options *options, unsigned *threads, const char *name, const char *value)
{
    struct err err = ERR_NONE;

    if (strcmp(name, "--listen") == 0 || strcmp(name, "--listen-tls") == 0) {
        with_tls[listener_count] = strcmp(name, "--listen-tls") == 0;
        if (listener_open(&listeners[listener_count++], value, 0, &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
    } else if (strcmp(name, "--cert") == 0)
        tls.certificate = value;
    else if (strcmp(name, "--key") == 0)
        tls.key = value;
    else if (strcmp(name, "--client-ca") == 0)
        tls.client_ca = value;
    else if (strcmp(name, "--host") == 0)
        hosts[0] = value;
    else if (strcmp(name, "--origin") == 0)
        origins[0] = value;
    else if (strcmp(name, "--header-ms") == 0)
        options->header_timeout_ms = number_of(value);
    else if (strcmp(name, "--body-ms") == 0)
        options->body_timeout_ms = number_of(value);
    else if (strcmp(name, "--write-ms") == 0)
        options->write_timeout_ms = number_of(value);
    else if (strcmp(name, "--heartbeat-ms") == 0)
        options->heartbeat_ms = number_of(value);
    else if (strcmp(name, "--connections") == 0)
        options->connections_max = number_of(value);
    else if (strcmp(name, "--threads") == 0)
        *threads = number_of(value);
    else
        exit(2);
}

int main(int argc, char **argv)
{
    const struct method_table table = { .methods = methods, .count = ARRAY_LEN(methods) };
    struct http_server_options options = {
        .methods = &table,
        .web = &web_routes,
        .pages = &pages,
        .openapi_title = "echo",
        .openapi_version = "1",
        .host_names = hosts,
        .on_call_end = on_call_end,
    };
    unsigned threads = 0;
    struct err err = ERR_NONE;
    sigset_t all;
    char byte;

    sigfillset(&all);
    sigdelset(&all, SIGTERM);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 1; i + 1 < argc; i += 2)
        take_option(&options, &threads, argv[i], argv[i + 1]);
    options.tls = tls.certificate ? &tls : NULL;
    options.origins = origins[0] ? origins : NULL;
    if (pool_new(threads, threads ? 1 : 0, &options.pool, &err) < 0 || http_server_new(&options, &server, &err) < 0)
        goto fail;
    for (size_t i = 0; i < listener_count; i++)
        if (http_server_listen(server, &listeners[i], with_tls[i], &err) < 0)
            goto fail;
    if (http_server_start(server, &err) < 0)
        goto fail;
    for (size_t i = 0; i < listener_count; i++)
        printf("listening %s\n", listeners[i].text);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    http_server_stop(server, 200);
    http_server_free(server);
    pool_free(options.pool);
    for (size_t i = 0; i < listener_count; i++)
        listener_done(&listeners[i]);
    buf_done(&notes);
    printf("ended\n");
    return 0;
fail:
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
