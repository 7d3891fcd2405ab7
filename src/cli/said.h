/*
 * What a person has said of the changes of a workspace, hunk by hunk, and of which state of each file. The agent goes on meanwhile: what has changed
 * when it is sent is asked about again, and all other words stand.
 */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"

struct said {
    json_t *files; /* owned: an object of those that something of was chosen, by their ids */
};

#define SAID_NOTHING ((struct said){ .files = NULL })

/* Asks about what is at and below each path; none: all. 1: there are no changes. */
int said_ask(struct said *said, struct api_call *call, const char *id, char **paths, int path_count, struct err *err);

/* Compares with the changes as they are now, says what is not what was seen, and asks about that. 1: there is no such thing. */
int said_ask_again(struct said *said, struct api_call *call, const char *id, struct err *err);

bool said_is_empty(const struct said *said);

/* The part of a request to approve that is about it, in place of one that is there. */
void said_put(const struct said *said, json_t *body);
void said_done(struct said *said);
