/*
 * What people call things by: an id, the beginning of one that no other shares (with or without "sb_"), or a name. Of a codebase that is its
 * name, of a sandbox its label `name`.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/client.h"

/* Each gives an id, to be freed. A whole id is taken as it is, whether or not there is such a thing. -ENOENT; ambiguous: -EEXIST, naming some. */
int lookup_sandbox(struct client *client, const char *text, char **ret, struct err *err);
int lookup_codebase(struct client *client, const char *text, char **ret, struct err *err);
int lookup_session(struct client *client, const char *text, char **ret, struct err *err);

/* A sandbox, for what workspaces have not got. Of a workspace it says that it is one, and `hint`: -EINVAL. */
int lookup_over_codebase(struct client *client, const char *text, const char *hint, char **ret, struct err *err);

/* The id of the sandbox, or UUID of the workspace, that was made last. To be freed. -ENOENT. */
int lookup_last(struct client *client, bool only_workspaces, char **ret, struct err *err);

/* What of `owner` has this very name already: its id, to be freed, or NULL. "": of anybody whose things we see. */
int lookup_codebase_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err);
int lookup_sandbox_named(struct client *client, const char *name, const char *owner, char **ret, struct err *err);

/* Where `err` says that a sandbox does not run: which one, by the word that named it, and what starts it. Returns `r`. */
int lookup_tell_stopped(const char *text, int r, struct err *err);
