#include "web_routes.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PIECE 10000

static void echo(struct web *web, void *cookie)
{
    json_t *query = json_array();
    (void) cookie;

    for (size_t i = 0; i < web->query_count; i++)
        json_array_append_new(query, json_pack("[ss]", web->queries[i].name, web->queries[i].value));
    web_add_header(web, "ETag", "\"7\"");
    web_answer_json(
        web, 201,
        json_pack("{s:s, s:s%, s:o}", "id", web_capture(web, "id"), "body", web->body, web->body_len, "query", query));
}

static const char *text_of(const struct web *web)
{
    const char *text = web_query(web, "text");

    return text ? text : "";
}

static void events(struct web *web, void *cookie)
{
    const char *text = text_of(web);
    (void) cookie;

    if (strcmp(text, "refuse") == 0) {
        web->response.status = 409;
        web_add_error(&web->response.body, 409, "not now", "later", true, NULL);
        return;
    }
    web->response.content_type = "text/event-stream";
    web_event(web, NULL, "1", text, strlen(text));
    if (web_query(web, "wait"))
        poll(&(struct pollfd){ .fd = call_cancel_fd(web->call), .events = POLLIN }, 1, -1);
    web_event(web, "end", NULL, "{}", 2);
}

/* `count` bytes are sent and `size` promised. */
static void bytes(struct web *web, void *cookie)
{
    const char *size = web_query(web, "size"), *given = web_query(web, "count");
    size_t count = given ? strtoul(given, NULL, 10) : 0;
    autofree char *piece = xalloc(PIECE);
    (void) cookie;

    memset(piece, 'x', PIECE);
    web->response.content_type = "application/octet-stream";
    web->response.size_bytes = size ? strtoll(size, NULL, 10) : -1;
    web->is_broken = web_query(web, "broken") != NULL;
    for (int r = web_begin(web); r == 0 && count > 0;) {
        size_t len = count < PIECE ? count : PIECE;

        r = web_write(web, piece, len);
        count -= len;
    }
}

static const struct web_route routes[] = {
    { .verb = "POST", .path = "/api/echo/{id}", .run = echo, .has_body = true, .body_max = 1000 },
    { .verb = "GET", .path = "/api/events", .run = events, .answer = WEB_ANSWER_EVENTS },
    { .verb = "GET", .path = "/api/bytes", .run = bytes, .answer = WEB_ANSWER_BYTES },
    { .verb = "GET", .path = "/api/socket", .run = web_run_socket },
};

const struct web_table web_routes = { .routes = routes, .count = ARRAY_LEN(routes) };
