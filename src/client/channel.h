/*
 * A WebSocket connection to a route of the API.
 *
 * The caller polls channel_fd() for channel_events(), beside its other descriptors and for at most channel_timeout_ms(). Then it calls
 * channel_work(), which passes each received message to the callback. The client must outlive the channel and must not be used for anything else
 * meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

struct channel;
struct client;

#define CHANNEL_MESSAGE_MAX ((size_t) 256 << 10) /* of a received message; a sent message may have 64 KiB, the first one more */

/* Receives one message, which is borrowed. After a negative return the channel delivers no more messages. */
typedef int (*channel_fn)(bool is_binary, const void *bytes, size_t len, void *cookie);

/* `path` is "/api/v1/sandboxes/ID/exec-interactive". If the server refuses, `*ret_status` is not 101, `answer` has the body of the refusal and
 * there is no channel. Fails only if the server does not answer, or with -ECANCELED after an interrupt. */
int channel_open(struct client *client, const char *path, channel_fn fn, void *cookie, struct channel **ret, int *ret_status,
                 struct buf *answer, struct err *err);
/* Closes the connection at once. */
void channel_close(struct channel *channel);
DEFINE_AUTOPTR(channel, channel_close);

int channel_fd(const struct channel *channel);
short channel_events(const struct channel *channel);
int channel_timeout_ms(const struct channel *channel);
/* Returns 0, or a negative errno once the conversation has ended. */
int channel_work(struct channel *channel, short revents);

/* While on, the channel delivers no messages. */
void channel_hold(struct channel *channel, bool on);

/* Copies the bytes. -EPIPE: the channel sends no more. */
int channel_send(struct channel *channel, bool is_binary, const void *bytes, size_t len);
/* Returns how many queued bytes the connection has not accepted yet. */
size_t channel_queued(const struct channel *channel);

/* Sends what is queued and exchanges close frames, for a few seconds at most. */
void channel_finish(struct channel *channel);

/* Sets `err` to the reason for the end, as a message for people. */
int channel_tell_end(const struct channel *channel, struct err *err);
