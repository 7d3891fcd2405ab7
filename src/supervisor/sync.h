/*
 * Syncs, and notifications that others changed the base. Both may wait for disks and the kernel, so they run in a thread, one
 * after another in order of arrival, and are answered when they are done.
 */
#pragma once

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* SYNC or BASE_CHANGED: answers now or later. */
void sync_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request);

/* The client goes: it gets no answer, but the work is done all the same. */
void sync_lose_client(struct sandbox *sandbox, const struct client *client);

/* Waits for the running job and rejects the waiting ones. Call it from the reactor, before the fence is freed. */
void sync_stop(struct sandbox *sandbox);
