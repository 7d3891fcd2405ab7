/*
 * Syncs, and word of changes that others made: both may wait for disks and for the kernel, so they run in a thread beside the reactor,
 * one after the other in the order in which they were asked for, and are answered when they are done.
 */
#pragma once

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* SYNC or BASE_CHANGED: answers now or later. */
void sync_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request);

/* The client is going: nobody is answered, the work is done all the same. */
void sync_lose_client(struct sandbox *sandbox, const struct client *client);

/* Waits for what runs; who waits for his turn gets an error. From the reactor, before the fence goes. */
void sync_stop(struct sandbox *sandbox);
