/*
 * A conversation in messages with a route that is a WebSocket.
 *
 * Its owner polls channel_fd() for channel_events() beside whatever else it waits for, no longer than channel_timeout_ms(), and then calls
 * channel_work(), which hands on what has come. The client must outlive it, and does nothing else meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

struct channel;
struct client;

#define CHANNEL_MESSAGE_MAX ((size_t) 256 << 10) /* that comes; what goes must not be longer than 64 KiB, but for the first */

/* A message, lent. Negative: nothing more is handed on. */
typedef int (*channel_fn)(bool is_binary, const void *bytes, size_t len, void *cookie);

/* `path` is "/api/v1/sandboxes/ID/exec-interactive". A status other than 101 is a refusal: there is no channel then, and `answer` is what was
 * said. It fails only where there is no answer. -ECANCELED when it was given up. */
int channel_open(struct client *client, const char *path, channel_fn fn, void *cookie, struct channel **ret, int *ret_status,
                 struct buf *answer, struct err *err);
/* Hangs up. */
void channel_close(struct channel *channel);
DEFINE_AUTOPTR(channel, channel_close);

int channel_fd(const struct channel *channel);
short channel_events(const struct channel *channel);
int channel_timeout_ms(const struct channel *channel);
/* 0; negative: it is over. */
int channel_work(struct channel *channel, short revents);

/* No message is handed on while this is so. */
void channel_hold(struct channel *channel, bool on);

/* Copied. -EPIPE when nothing may be sent any more. */
int channel_send(struct channel *channel, bool is_binary, const void *bytes, size_t len);
/* How many bytes the other end has not taken yet. */
size_t channel_queued(const struct channel *channel);

/* What was sent, and both good-byes; for a few seconds. */
void channel_finish(struct channel *channel);

/* Why it is over, for people: fills in `err`. */
int channel_tell_end(const struct channel *channel, struct err *err);
