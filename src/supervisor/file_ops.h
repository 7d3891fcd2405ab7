/*
 * Operations on the sandbox's files for clients (FILE of wire/ctl_proto.h), each in a thread beside the reactor, a few at a time: any
 * of them may wait for the fence, and that for a hold.
 *
 * Content goes through pipes, never as a descriptor of the mount: who reads from that waits for as long as the fence does,
 * and cannot even be killed meanwhile.
 */
#pragma once

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* Answers later. */
void file_ops_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame);

/* The client is going: nobody is answered, and what it waits for to be copied is not copied any more. */
void file_ops_lose_client(struct sandbox *sandbox, const struct client *client);

/* Ends all and waits for that. From the reactor, before the fence goes and when nobody holds it. */
void file_ops_stop(struct sandbox *sandbox);
