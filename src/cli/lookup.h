/*
 * Finds what a word of the command line names: an id, the beginning of one that no other has (with or without its prefix), or a name. The
 * server resolves the names of sandboxes, which may also be UUIDs.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/client.h"

/* Each returns an id, to be freed. A whole id is returned without asking whether it exists. -ENOENT. A word that may mean several is refused,
 * and some of them are named. */
int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err);
int lookup_codebase(struct client *client, const char *text, char **ret, struct err *err);
int lookup_session(struct client *client, const char *text, char **ret, struct err *err);

/* The sandbox itself: a Sandbox of the API, freed with api_free_message(). */
int lookup_get_sandbox(struct client *client, const char *text, ProtobufCMessage **ret, struct err *err);

/* The id of the newest sandbox, whoever made it. To be freed. -ENOENT. */
int lookup_last(struct client *client, bool only_directories, char **ret, struct err *err);

/* The id of the codebase of `owner` ("": of anybody) with exactly this name, to be freed, or NULL. */
int lookup_codebase_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err);

/* If `err` says that a sandbox is not running, replaces its text: which one, and which verb starts it. Returns `r`. */
int lookup_explain_stopped(const char *text, int r, struct err *err);
