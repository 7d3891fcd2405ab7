/*
 * Calls methods over HTTP: libcurl transfers the bytes, and the route of the method determines their format. Of a stream, only the current event or
 * piece is in memory.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/methods.h"
#include "base/mem.h"
#include "client/client_int.h"
#include "client/event_stream.h"
#include "client/request_line.h"
#include "rest/field.h"
#include "rest/json_message.h"

#define ANSWER_BYTES_MAX ((size_t) 64 << 20)

/* One request and its answer. */
struct transfer {
    struct client *client;
    const struct client_web *web; /* NULL: a method or a page is called */
    const struct method *method;  /* NULL: a web route or a page is called */
    const struct method_route *route;
    const struct client_call *call;
    struct buf body;
    size_t body_at;
    struct buf answer; /* JSON, or the body of a refusal */
    struct event_stream events;
    struct err failure;
    int failed;
    int status;
    bool has_ended; /* the last event has arrived */
};

/* ---- receiving ---- */

static int transfer_fail(struct transfer *t, int r)
{
    if (t->failed == 0)
        t->failed = r;
    return r;
}

/* Takes the message beside the reason, if it has the type that the caller expects. */
static void transfer_take_failure(const json_t *details, struct client_refusal *refusal)
{
    json_t *failure = json_array_get(details, 1);
    struct err ignored = ERR_NONE;

    if (!failure || !refusal->type || refusal->failure)
        return;
    const char *type = json_string_value(json_object_get(failure, "@type"));
    const char *name = type ? strrchr(type, '/') : NULL;
    if (!name || strcmp(name + 1, refusal->type->name) != 0)
        return;
    json_object_del(failure, "@type");
    autofree char *text = json_dumps(failure, JSON_COMPACT);
    json_message_parse(refusal->type, text, strlen(text), &refusal->failure, &ignored);
}

/* Parses {"code": 5, "message": "...", "details": [{"reason": "..."}]}. A proxy or a foreign server may send any other text. */
static int transfer_refuse_as_told(const struct transfer *t, const char *text, size_t len, long status, struct err *err)
{
    json_t *told = json_loadb(text, len, 0, NULL);
    json_t *code = json_object_get(told, "code"), *message = json_object_get(told, "message");
    const char *reason = json_string_value(json_object_get(json_array_get(json_object_get(told, "details"), 0), "reason"));
    int r;

    if (json_is_integer(code) && json_is_string(message) && json_integer_value(code) > 0 &&
        json_integer_value(code) <= ERR_UNAUTHENTICATED)
        r = err_set_reason(err,
                           err_set(err, (enum err_code) json_integer_value(code), -EREMOTEIO, "%s", json_string_value(message)),
                           client_keep_reason(reason));
    else
        r = err_set(err, ERR_UNAVAILABLE, -EPROTO,
                    "the program that answers there is not an agentfense server (HTTP status %ld)", status);
    if (r == -EREMOTEIO && t->call && t->call->refusal)
        transfer_take_failure(json_object_get(told, "details"), t->call->refusal);
    json_decref(told);
    return r;
}

static int transfer_take_message(struct transfer *t, const char *text, size_t len, struct err *err)
{
    ProtobufCMessage *message = NULL;
    int r = json_message_parse(t->method->response, text, len, &message, err);

    if (r < 0)
        return err_wrap(err, r, "the server's answer");
    if (t->call->on_answer)
        r = t->call->on_answer(message, t->call->cookie, err);
    protobuf_c_message_free_unpacked(message, NULL);
    return r < 0 ? r : 0;
}

static void transfer_take_trailers(struct transfer *t, const char *text, size_t len)
{
    json_t *told = json_loadb(text, len, 0, NULL), *value;
    const char *name;

    json_object_foreach(json_object_get(told, "trailers"), name, value)
    {
        if (t->call->on_trailer && json_is_string(value))
            t->call->on_trailer(name, json_string_value(value), t->call->cookie);
    }
    json_decref(told);
}

static int transfer_on_event(const char *name, const char *data, size_t len, void *cookie, struct err *err)
{
    struct transfer *t = cookie;

    if (strcmp(name, "message") == 0)
        return transfer_take_message(t, data, len, err);
    t->has_ended = true;
    if (strcmp(name, "error") == 0)
        return transfer_refuse_as_told(t, data, len, 200, err);
    if (strcmp(name, "end") == 0)
        transfer_take_trailers(t, data, len);
    return 0;
}

/* Passes a piece of content on as the answer's message, in its only bytes field. */
static int transfer_take_bytes(struct transfer *t, char *bytes, size_t len, struct err *err)
{
    size_t budget = SIZE_MAX;
    ProtobufCMessage *message = field_new_message(&budget, t->method->response);
    const ProtobufCFieldDescriptor *field = field_find(t->method->response, "data", strlen("data"));
    ProtobufCBinaryData *data = field_member(message, field);
    int r;

    *data = (ProtobufCBinaryData){ .data = (uint8_t *) bytes, .len = len };
    r = t->call->on_answer ? t->call->on_answer(message, t->call->cookie, err) : 0;
    *data = (ProtobufCBinaryData){ 0 };
    protobuf_c_message_free_unpacked(message, NULL);
    return r < 0 ? r : 0;
}

static size_t transfer_on_receive(char *bytes, size_t size, size_t count, void *cookie)
{
    struct transfer *t = cookie;
    size_t len = size * count;
    long status = 0;
    int r = 0;

    curl_easy_getinfo(t->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && t->route && t->route->answer == METHOD_ANSWER_EVENTS)
        r = event_stream_feed(&t->events, bytes, len, &t->failure);
    else if (status == 200 && t->route && t->route->answer == METHOD_ANSWER_BYTES)
        r = transfer_take_bytes(t, bytes, len, &t->failure);
    else if (status == 200 && t->web && t->web->on_bytes)
        r = t->web->on_bytes(bytes, len, t->web->cookie, &t->failure);
    else if (t->answer.len + len > ANSWER_BYTES_MAX)
        r = err_set(&t->failure, ERR_RESOURCE_EXHAUSTED, -EMSGSIZE, "the server's answer is too large");
    else
        buf_add(&t->answer, bytes, len);
    return transfer_fail(t, r) < 0 ? 0 : len;
}

/* ---- sending ---- */

static size_t transfer_on_send(char *bytes, size_t size, size_t count, void *cookie)
{
    struct transfer *t = cookie;
    size_t room = size * count;
    ssize_t n;

    if (!t->call->source) {
        size_t left = t->body.len - t->body_at;
        n = (ssize_t) (left < room ? left : room);
        memcpy(bytes, t->body.data + t->body_at, (size_t) n);
        t->body_at += (size_t) n;
        return (size_t) n;
    }
    n = t->call->source(bytes, room, t->call->cookie, &t->failure);
    return transfer_fail(t, n < 0 ? (int) n : 0) < 0 ? CURL_READFUNC_ABORT : (size_t) n;
}

static void transfer_set_body(struct transfer *t)
{
    CURL *easy = t->client->easy;

    if (t->call && t->call->source) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, transfer_on_send);
        curl_easy_setopt(easy, CURLOPT_READDATA, t);
    } else if (t->body.len > 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t->body.data);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) t->body.len);
    }
}

static struct curl_slist *transfer_make_headers(const struct transfer *t)
{
    struct curl_slist *headers = curl_slist_append(NULL, t->body.len > 0 ? "Content-Type: application/json" : "Content-Type:");

    if (t->body.len > 0)
        headers = curl_slist_append(headers, "Expect:");
    if (t->client->token) {
        autofree char *line = xprintf("Authorization: Bearer %s", t->client->token);
        headers = curl_slist_append(headers, line);
        explicit_bzero(line, strlen(line));
    }
    return headers;
}

static void transfer_set_up(struct transfer *t, const char *verb, const char *url, struct curl_slist *headers, char *why)
{
    CURL *easy = t->client->easy;

    curl_easy_reset(easy);
    client_dress(t->client, easy, url, why);
    if (t->client->timeout_ms > 0)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long) t->client->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, transfer_on_receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    transfer_set_body(t);
    /* Must follow transfer_set_body(), because its options change the HTTP method. */
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, verb);
}

/* ---- the request ---- */

static int transfer_judge(struct transfer *t, CURLcode code, const char *why, struct err *err)
{
    long status = 0;

    if (t->failed < 0) {
        *err = t->failure;
        return t->failed;
    }
    curl_easy_getinfo(t->client->easy, CURLINFO_RESPONSE_CODE, &status);
    t->status = (int) status;
    if (t->web && code == CURLE_OK)
        return 0;
    /* A server that refuses an upload may answer and close the connection before it has read all of it. Then its answer is the result, not the
     * error of the connection. */
    if (status >= 300 && t->answer.len > 0)
        return transfer_refuse_as_told(t, t->answer.data, t->answer.len, status, err);
    if (code != CURLE_OK)
        return client_refuse(t->client, code, why, err);
    if (status != 200)
        return transfer_refuse_as_told(t, "", 0, status, err);
    if (!t->route)
        return 0;
    if (t->route->answer == METHOD_ANSWER_EVENTS && !t->has_ended)
        return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%s: the stream ended before its end", t->client->where);
    if (t->route->answer == METHOD_ANSWER_JSON)
        return transfer_take_message(t, t->answer.data ? t->answer.data : "", t->answer.len, err);
    return 0;
}

static int transfer_run(struct transfer *t, const char *verb, const char *path, struct err *err)
{
    char why[CURL_ERROR_SIZE] = "";
    autofree char *url = xprintf("%s%s", t->client->base, path);
    struct curl_slist *headers = transfer_make_headers(t);
    CURLcode code;
    int r;

    transfer_set_up(t, verb, url, headers, why);
    r = client_perform(t->client, t->client->easy, t->client->multi, &code);
    curl_multi_remove_handle(t->client->multi, t->client->easy);
    if (r == 0)
        r = transfer_judge(t, code, why, err);
    else if (r == -ECANCELED)
        err_set(err, ERR_CANCELLED, r, "interrupted");
    else
        err_errno(err, r, "%s", t->client->where);
    curl_easy_reset(t->client->easy); /* the handle must not keep pointers to `why` and `headers` */
    curl_slist_free_all(headers);
    return r;
}

static const struct method *client_find_method(const char *name)
{
    size_t count;
    const struct method *methods = api_methods(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    abort(); /* callers pass constant names */
}

int client_call(struct client *client, const struct client_call *call, struct err *err)
{
    struct transfer t = { .client = client, .method = client_find_method(call->method), .call = call };
    autodone(buf) struct buf path = BUF_EMPTY;
    int r = request_line_add(t.method, call->request, &t.route, &path, &t.body, err);

    event_stream_init(&t.events, transfer_on_event, &t);
    if (r == 0)
        r = transfer_run(&t, t.route->verb, path.data, err);
    event_stream_done(&t.events);
    buf_done(&t.body);
    buf_done(&t.answer);
    return r;
}

int client_web(struct client *client, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err)
{
    struct transfer t = { .client = client, .web = request };
    autofree char *body = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
    int r;

    if (body)
        buf_add_str(&t.body, body);
    r = transfer_run(&t, request->verb, request->path, err);
    if (r == 0) {
        *ret_status = t.status;
        buf_add(ret, t.answer.data, t.answer.len);
    }
    buf_done(&t.body);
    buf_done(&t.answer);
    return r;
}

int client_health(struct client *client, struct buf *out, struct err *err)
{
    struct transfer t = { .client = client };
    int r = transfer_run(&t, "GET", "/health", err);

    if (r == 0)
        buf_add(out, t.answer.data, t.answer.len);
    buf_done(&t.answer);
    return r;
}
