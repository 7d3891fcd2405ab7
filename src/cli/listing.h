/* Prints a list of the API: as a table, as ids with -q, or as one JSON answer with --json. */
#pragma once

#include "cli/api_verb.h"
#include "cli/grid.h"

struct listing {
    const char *method;
    const ProtobufCMessageDescriptor *response;
    const char *const *titles;
    void (*add_row)(struct grid *grid, const ProtobufCMessage *item);
};

int listing_print(struct api_call *call, const struct listing *listing, ProtobufCMessage *request, struct err *err);
