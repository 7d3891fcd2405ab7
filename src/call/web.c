#include "call/web.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Agents choose file names. In a terminal, a name with bidi controls would look like another file. */
#define WEB_JSON (JSON_COMPACT | JSON_ENSURE_ASCII)

bool web_is_path(const char *path, size_t len)
{
    return (len >= 5 && memcmp(path, "/api/", 5) == 0) || (len == 4 && memcmp(path, "/api", 4) == 0);
}

static const char *web_find_pair(const struct web_pair *pairs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}

const char *web_capture(const struct web *web, const char *name)
{
    const char *value = web_find_pair(web->captures, web->capture_count, name);

    return value ? value : "";
}

const char *web_query(const struct web *web, const char *name)
{
    return web_find_pair(web->queries, web->query_count, name);
}

const char *web_header(const struct web *web, const char *name)
{
    return call_header(web->call, name);
}

void web_response_add_header(struct web_response *response, const char *name, const char *value)
{
    if (response->header_count < WEB_HEADERS_MAX)
        response->headers[response->header_count++] = (struct web_header){ .name = xdup(name), .value = xdup(value) };
}

void web_add_header(struct web *web, const char *name, const char *value)
{
    web_response_add_header(&web->response, name, value);
}

static int web_append(const char *bytes, size_t len, void *out)
{
    buf_add(out, bytes, len);
    return 0;
}

bool web_add_json(struct buf *out, json_t *value)
{
    if (!value)
        return false;
    json_dump_callback(value, web_append, out, WEB_JSON);
    json_decref(value);
    return true;
}

void web_answer_json(struct web *web, int status, json_t *value)
{
    web->response.status = status;
    web->response.content_type = "application/json";
    buf_clear(&web->response.body);
    if (!web_add_json(&web->response.body, value)) {
        /* json_pack() returns NULL for text that is not UTF-8. That is a bug of ours, but no reason to abort the server. */
        web->response.status = 500;
        web_add_error(&web->response.body, 500, "the answer cannot be written as JSON", NULL, false, NULL);
        return;
    }
    buf_add_char(&web->response.body, '\n');
}

void web_answer_json_text(struct web *web, int status, struct buf *text)
{
    web->response.status = status;
    web->response.content_type = "application/json";
    buf_done(&web->response.body);
    web->response.body = *text;
    *text = BUF_EMPTY;
    buf_add_char(&web->response.body, '\n');
}

int web_begin(struct web *web)
{
    int r = web->has_begun ? 0 : web->ops->begin(web);

    web->has_begun |= r == 0;
    return r;
}

int web_write(struct web *web, const void *bytes, size_t len)
{
    int r = web_begin(web);

    return r < 0 || len == 0 ? r : web->ops->write(web, bytes, len);
}

int web_drain(struct web *web)
{
    return web->ops->drain ? web->ops->drain(web) : 0;
}

static void add_lines(struct buf *out, const char *text, size_t len)
{
    const char *end = text + len;

    for (;;) {
        const char *stop = text;

        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        buf_add_str(out, "data: ");
        buf_add(out, text, (size_t) (stop - text));
        buf_add_char(out, '\n');
        if (stop == end)
            return;
        text = stop + 1 + (*stop == '\r' && stop + 1 < end && stop[1] == '\n');
    }
}

int web_event(struct web *web, const char *event, const char *id, const char *text, size_t len)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    if (event)
        buf_addf(&out, "event: %s\n", event);
    if (id)
        buf_addf(&out, "id: %s\n", id);
    add_lines(&out, text, len);
    buf_add_char(&out, '\n');
    return web_write(web, out.data, out.len);
}

int web_upgrade(struct web *web, const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret,
                struct err *err)
{
    struct web_socket raw = { .fd = -1 };
    int r = web->ops->upgrade(web, &raw, err);

    if (r < 0)
        return r;
    web->has_begun = true;
    r = websocket_new(raw.fd, raw.tls, raw.early.data, raw.early.len, options, fn, cookie, ret);
    buf_done(&raw.early);
    if (r < 0)
        web->ops->hang_up(web);
    return r < 0 ? err_errno(err, r, "making a WebSocket") : 0;
}

void web_hang_up(struct web *web, struct websocket *socket)
{
    websocket_free(socket);
    web->ops->hang_up(web);
}

/* A message may quote untrusted bytes. */
static json_t *text_of(const char *text)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;
    json_t *value = json_string(text);

    if (value)
        return value;
    buf_add_escaped(&escaped, text, strlen(text));
    return json_string(escaped.data ? escaped.data : "");
}

void web_add_error(struct buf *out, int status, const char *message, const char *hint, bool is_retryable, json_t *details)
{
    json_t *error = json_pack("{s:o, s:i, s:b}", "error", text_of(message), "code", status, "success", 0);

    if (hint)
        json_object_set_new(error, "hint", text_of(hint));
    if (is_retryable)
        json_object_set_new(error, "retryable", json_true());
    if (details)
        json_object_set(error, "details", details);
    json_dump_callback(error, web_append, out, WEB_JSON);
    buf_add_char(out, '\n');
    json_decref(error);
}

void web_response_done(struct web_response *response)
{
    for (size_t i = 0; i < response->header_count; i++) {
        free(response->headers[i].name);
        free(response->headers[i].value);
    }
    buf_done(&response->body);
    *response = (struct web_response){ 0 };
}
