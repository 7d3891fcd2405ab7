/*
 * Syncs, and notifications that others changed the base. Both may wait for disks and the kernel, so they run in a thread, one
 * after another in order of arrival, and are answered when they are done.
 */
#pragma once

#include "supervisor/job.h"
#include "wire/ctl_proto.h"

/* For sandbox->syncs. Stop the queue before the fence is freed. */
#define SYNC_QUEUE ((struct job_queue){ .noun = "syncs", .parallel_max = 1, .count_max = 256 })

struct client;
struct sandbox;

/* SYNC or BASE_CHANGED: answers now or later. */
void sync_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request);
