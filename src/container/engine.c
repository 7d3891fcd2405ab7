#include "container/engine.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define CONNECT_MS 5000
#define TURN_MS 1000

struct engine {
    char *socket_path; /* owned */
    int stop_fd;       /* borrowed */
    CURLM *multi;      /* owned: keeps the connection */
};

/* A request in progress. */
struct engine_transfer {
    const struct engine_request *request;
    struct engine_response *response;
    CURL *easy;
    bool is_too_long;
    int refusal; /* result of the piece function */
};

void engine_response_done(struct engine_response *response)
{
    buf_done(&response->body);
}

int engine_new(const char *socket_path, int stop_fd, struct engine **ret, struct err *err)
{
    autoptr(engine) engine = xnew(struct engine);

    engine->socket_path = xdup(socket_path && *socket_path ? socket_path : ENGINE_SOCKET);
    engine->stop_fd = stop_fd;
    if (curl_global_init(CURL_GLOBAL_NOTHING) != 0 || !(engine->multi = curl_multi_init()))
        return err_set(err, ERR_INTERNAL, -ENOMEM, "libcurl cannot be used");
    *ret = steal_ptr(&engine);
    return 0;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->multi)
        curl_multi_cleanup(engine->multi);
    free(engine->socket_path);
    free(engine);
}

void engine_ignore_stop(struct engine *engine)
{
    engine->stop_fd = -1;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *cookie)
{
    struct engine_transfer *transfer = cookie;
    struct buf *body = &transfer->response->body;
    size_t len = size * count;
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->request->piece && status == 200) {
        transfer->refusal = transfer->request->piece(bytes, len, transfer->request->cookie);
        return transfer->refusal < 0 ? 0 : len;
    }
    transfer->is_too_long = len > ENGINE_RESPONSE_MAX - body->len;
    if (transfer->is_too_long)
        return 0;
    buf_add(body, bytes, len);
    return len;
}

static struct curl_slist *set_up(const struct engine *engine, struct engine_transfer *transfer)
{
    const struct engine_request *request = transfer->request;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    autofree char *url = xprintf("http://engine%s", request->path);
    CURL *easy = transfer->easy;

    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, engine->socket_path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long) request->timeout_ms);
    if (request->silence_ms > 0) {
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long) request->silence_ms / 1000);
    }
    if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body ? request->body : "");
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    return headers;
}

static bool is_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Returns curl's result, or -ECANCELED. */
static int engine_perform(struct engine *engine, CURL *easy, int finish_ms)
{
    struct curl_waitfd stop = { .fd = engine->stop_fd, .events = CURL_WAIT_POLLIN };
    int64_t stop_ns = 0, left_ms; /* when it must end; 0: no limit yet */
    int result = CURLE_FAILED_INIT, running = 1, left;
    const CURLMsg *message;

    if (is_readable(engine->stop_fd))
        return -ECANCELED;
    if (curl_multi_add_handle(engine->multi, easy) != CURLM_OK)
        return CURLE_FAILED_INIT;
    while (running) {
        if (curl_multi_perform(engine->multi, &running) != CURLM_OK)
            break;
        if (stop_ns == 0 && is_readable(engine->stop_fd))
            stop_ns = clock_now_ns() + finish_ms * CLOCK_NS_PER_MS;
        left_ms = stop_ns == 0 ? TURN_MS : (stop_ns - clock_now_ns() + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
        if (running && left_ms <= 0) {
            result = -ECANCELED;
            break;
        }
        if (running)
            curl_multi_poll(engine->multi, &stop, engine->stop_fd >= 0 && stop_ns == 0, (int) left_ms, NULL);
    }
    while ((message = curl_multi_info_read(engine->multi, &left)))
        if (message->msg == CURLMSG_DONE && result != -ECANCELED)
            result = (int) message->data.result;
    curl_multi_remove_handle(engine->multi, easy);
    return result;
}

static int engine_explain_failure(const struct engine *engine, const struct engine_transfer *transfer, int result,
                                  struct err *err)
{
    autodone(buf) struct buf socket = BUF_EMPTY;
    long cause = 0;

    buf_add_escaped(&socket, engine->socket_path, strlen(engine->socket_path));
    if (result == -ECANCELED)
        return err_set(err, ERR_CANCELLED, result, "it was told to stop");
    if (transfer->refusal < 0)
        return transfer->refusal;
    if (transfer->is_too_long)
        return err_set(err, ERR_UNAVAILABLE, -EMSGSIZE, "the engine's answer has more than %u bytes", ENGINE_RESPONSE_MAX);
    curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &cause);
    if (result == CURLE_COULDNT_CONNECT && cause == EACCES)
        return err_set(err, ERR_FAILED_PRECONDITION, -EACCES, "the Docker engine's socket '%s' is closed to this user",
                       socket.data);
    if (result == CURLE_COULDNT_CONNECT)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN,
                       "no Docker engine answers at '%s' (%s); start it, or name another", socket.data,
                       strerror(cause ? (int) cause : ECONNREFUSED));
    if (result == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "the Docker engine at '%s' does not answer", socket.data);
    return err_set(err, ERR_UNAVAILABLE, -EIO, "the Docker engine at '%s': %s", socket.data,
                   curl_easy_strerror((CURLcode) result));
}

int engine_send(struct engine *engine, const struct engine_request *request, struct engine_response *response, struct err *err)
{
    struct engine_transfer transfer = { .request = request, .response = response, .easy = curl_easy_init() };
    struct curl_slist *headers;
    int result, r = 0;

    response->status = 0;
    buf_clear(&response->body);
    if (!transfer.easy)
        return err_set(err, ERR_INTERNAL, -ENOMEM, "libcurl cannot be used");
    headers = set_up(engine, &transfer);
    result = engine_perform(engine, transfer.easy, request->finish_ms);
    if (result == CURLE_OK)
        curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &response->status);
    else
        r = engine_explain_failure(engine, &transfer, result, err);
    curl_easy_cleanup(transfer.easy);
    curl_slist_free_all(headers);
    return r;
}
