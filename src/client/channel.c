#include "client/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "call/websocket.h"
#include "client/client_int.h"

#define FINISH_MS 5000
/* A command that does not read its input keeps us waiting as long as it likes; a server that is gone is noticed by its silence. */
#define WRITE_MS (24 * 3600 * 1000)

struct channel {
    struct websocket *socket; /* owned */
    struct carrier carrier;   /* owned */
    const char *where;        /* borrowed from the client */
};

int channel_open(struct client *client, const char *path, channel_fn fn, void *cookie, struct channel **ret, int *ret_status,
                 struct buf *answer, struct err *err)
{
    autoptr(channel) channel = xnew(struct channel);
    struct websocket_options options = { .is_client = true, .message_max = CHANNEL_MESSAGE_MAX, .write_ms = WRITE_MS };
    struct carrier *carrier = &channel->carrier;
    int r;

    carrier->fd = -1;
    channel->where = client_where(client);
    r = client_connect(client, path, carrier, ret_status, answer, err);
    if (r < 0 || *ret_status != 101)
        return r;
    if (carrier->wire.recv)
        options.wire = &carrier->wire;
    r = websocket_new(carrier->fd, NULL, carrier->early.data, carrier->early.len, &options, fn, cookie, &channel->socket);
    if (r < 0)
        return err_errno(err, r, "making a WebSocket");
    *ret = steal_ptr(&channel);
    return 0;
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    websocket_free(channel->socket);
    if (channel->carrier.close)
        channel->carrier.close(channel->carrier.own);
    buf_done(&channel->carrier.early);
    free(channel);
}

int channel_fd(const struct channel *channel)
{
    return websocket_fd(channel->socket);
}

short channel_events(const struct channel *channel)
{
    return websocket_events(channel->socket);
}

int channel_timeout_ms(const struct channel *channel)
{
    return websocket_timeout_ms(channel->socket);
}

int channel_work(struct channel *channel, short revents)
{
    return websocket_work(channel->socket, revents);
}

void channel_hold(struct channel *channel, bool on)
{
    websocket_pause(channel->socket, on);
}

int channel_send(struct channel *channel, bool is_binary, const void *bytes, size_t len)
{
    return websocket_send(channel->socket, is_binary, bytes, len);
}

size_t channel_queued(const struct channel *channel)
{
    return websocket_queued(channel->socket);
}

void channel_finish(struct channel *channel)
{
    websocket_close(channel->socket, WEBSOCKET_NORMAL, "");
    websocket_finish(channel->socket, FINISH_MS, -1);
}

int channel_tell_end(const struct channel *channel, struct err *err)
{
    int r = websocket_explain_end(channel->socket, err);

    return err_wrap(err, r, "%s", channel->where);
}
