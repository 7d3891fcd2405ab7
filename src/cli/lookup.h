/*
 * Resolves a word of the command line to an id. The word may be an id, a unique prefix of one (with or without its type prefix), or a name. The
 * server resolves the names of sandboxes, which may also be UUIDs.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/client.h"

/* Each returns an id, which the caller frees, or -ENOENT. It returns a complete id without asking whether it exists. It refuses an ambiguous word
 * and names some of the candidates. */
int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err);
int lookup_codebase(struct client *client, const char *text, char **ret, struct err *err);
int lookup_session(struct client *client, const char *text, char **ret, struct err *err);

/* Returns the sandbox itself, a Sandbox of the API. The caller frees it with api_free_message(). */
int lookup_get_sandbox(struct client *client, const char *text, ProtobufCMessage **ret, struct err *err);

/* Returns the id of the newest sandbox, or with `only_directories` of the newest one over a directory. The caller frees it. -ENOENT. */
int lookup_last(struct client *client, bool only_directories, char **ret, struct err *err);

/* Returns the id of the codebase with exactly this name that belongs to `owner` ("": any owner), or NULL. The caller frees it. */
int lookup_codebase_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err);

/* If `err` reports that a sandbox is not running, replaces its text by one that names the sandbox and the verb that starts it. Returns `r`. */
int lookup_explain_stopped(const char *text, int r, struct err *err);
