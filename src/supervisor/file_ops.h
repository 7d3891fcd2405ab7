/*
 * File operations for clients (FILE of wire/ctl_proto.h). Each runs in a thread, a few at a time, because any of them may wait
 * for the fence, and the fence for a quiesce.
 *
 * Content goes through pipes, never as a descriptor of the mount: a process that reads from such a descriptor would wait as
 * long as the fence does, and could not even be killed meanwhile.
 */
#pragma once

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* Answers later. */
void file_ops_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame);

/* The client goes: it gets no answers, and copying for it is cancelled. */
void file_ops_lose_client(struct sandbox *sandbox, const struct client *client);

/* Cancels all operations and waits for them. Call it from the reactor, before the fence is freed and while nothing quiesces
 * it. */
void file_ops_stop(struct sandbox *sandbox);
