/* A WebSocket: what comes is sent back; "close" ends it, "flood" is answered with 64 MiB. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "web_routes.h"

#define LEAKY_BUCKET_COUNT 1024

struct talk {
    struct web *web;
    struct websocket *socket;
    bool is_over, is_flooding;
};

static int on_talk(bool is_binary, const void *bytes, size_t len, void *cookie)
{
    struct talk *talk = cookie;

    if (!is_binary && len == 5 && memcmp(bytes, "close", 5) == 0) {
        websocket_close(talk->socket, WEBSOCKET_GOING_AWAY, "as you wish");
        talk->is_over = true;
    } else if (!is_binary && len == 5 && memcmp(bytes, "flood", 5) == 0) {
        talk->is_flooding = true;
    } else {
        websocket_send(talk->socket, is_binary, bytes, len);
    }
    return 0;
}

static bool work(struct talk *talk)
{
    struct pollfd fds[] = {
        { .fd = websocket_fd(talk->socket), .events = websocket_events(talk->socket) },
        { .fd = call_cancel_fd(talk->web->call), .events = POLLIN },
    };

    poll(fds, ARRAY_LEN(fds), websocket_timeout_ms(talk->socket));
    return !fds[1].revents && websocket_work(talk->socket, fds[0].revents) == 0;
}

static bool flood(struct talk *talk)
{
    autofree char *block = xalloc(WEBSOCKET_MESSAGE_MAX);

    note("flooding", "", 0);
    talk->is_flooding = false;
    for (int i = 0; i < LEAKY_BUCKET_COUNT; i++) {
        websocket_send(talk->socket, true, block, WEBSOCKET_MESSAGE_MAX);
        while (websocket_queued(talk->socket) >= WEBSOCKET_QUEUE_MAX / 2)
            if (!work(talk))
                return false;
    }
    return true;
}

void web_run_socket(struct web *web, void *cookie)
{
    const char *ping = web_query(web, "ping"), *silence = web_query(web, "silence");
    const struct websocket_options options = { .ping_ms = ping ? (unsigned) atoi(ping) : 0,
                                               .silence_ms = silence ? (unsigned) atoi(silence) : 0 };
    struct talk talk = { .web = web };
    struct err err = ERR_NONE;
    int r = web_upgrade(web, &options, on_talk, &talk, &talk.socket, &err);
    (void) cookie;

    if (r < 0) {
        web->response.status = r == -EPROTONOSUPPORT ? 426 : 400;
        web_add_error(&web->response.body, web->response.status, err.text, NULL, false, NULL);
        return;
    }
    while (!talk.is_over && work(&talk))
        if (talk.is_flooding && !flood(&talk))
            break;
    websocket_finish(talk.socket, 5000, call_cancel_fd(web->call));
    web_hang_up(web, talk.socket);
    note("socket-end", "", 0);
}
