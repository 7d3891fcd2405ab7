/*
 * Executes the requests of clients.
 */
#pragma once

#include "wire/frame.h"

struct client;

/* Answers the request, or starts what will. Negative for an invalid frame: the caller disconnects the client. */
int request_handle(struct client *client, struct frame *frame);
