/*
 * What people call things by: an id, the beginning of one that no other shares (with or without "sb_"), or a name. Of a codebase that is its
 * name, of a sandbox its label `name`.
 */
#pragma once

#include "base/err.h"
#include "client/client.h"

/* Each gives an id, to be freed. A whole id is taken as it is, whether or not there is such a thing. -ENOENT; ambiguous: -EEXIST, naming some. */
int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err);
int lookup_codebase(struct client *client, const char *text, char **ret, struct err *err);
int lookup_session(struct client *client, const char *text, char **ret, struct err *err);
