/*
 * File operations for clients (FILE of wire/ctl_proto.h). Each runs in a thread, a few at a time, because any of them may wait
 * for the fence, and the fence for a quiesce.
 *
 * Content goes through pipes, never as a descriptor of the mount: a process that reads from such a descriptor would wait as
 * long as the fence does, and could not even be killed meanwhile.
 */
#pragma once

#include "supervisor/job.h"
#include "wire/ctl_proto.h"

/* For sandbox->file_ops. Stop the queue before the fence is freed and while nothing quiesces it. */
#define FILE_OPS_QUEUE ((struct job_queue){ .noun = "operations on files", .parallel_max = 16, .count_max = 256 })

struct client;
struct sandbox;

/* Answers later. */
void file_ops_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame);
