/*
 * What a client asks for, done.
 */
#pragma once

#include "wire/frame.h"

struct client;

/* Answers it, or begins what will. Negative for a frame that is no request of ours; then the client is to be cut off. */
int request_handle(struct client *client, struct frame *frame);
