/*
 * Workspaces, the sandboxes over a live directory, as the verbs call them: by the routes under /api/v1, in JSON, on a server or in this
 * process (client/client.h).
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/uuid.h"
#include "cli/api_verb.h"

/* Nothing was written, because of what the review is for: conflicts, changes that are not what was seen. */
#define EXIT_REFUSED 1

/* A value that is released where it goes out of scope. */
void json_release(json_t **value);
#define autojson __attribute__((cleanup(json_release))) json_t *

/* Asks `verb` of the path, which is formatted; takes `body`, NULL for none. `*ret` is the answer, an object or NULL; also when it was refused,
 * and then `err` has what it says, with its hint. */
int workspace_ask(struct api_call *call, const char *verb, json_t *body, json_t **ret, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* What was answered with a status that is none of success, as an error. `told` may be NULL. */
int workspace_refuse(int status, const json_t *told, struct err *err);

/* Likewise, with what is refused printed as --json has it; returns the exit code EXIT_REFUSED for a 409 or 422. */
int workspace_decide(struct api_call *call, json_t *body, json_t **ret, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Of a workspace's metadata: what to call it by. */
#define WORKSPACE_NAME_KEY "name"
const char *workspace_name_of(const json_t *workspace); /* "": none */
bool workspace_may_be_name(const char *text);           /* what begins as ids of sandboxes do is one */

/* The id of the one workspace that is called so, or whose id begins so. -ENOENT; several: -EEXIST, naming them. */
int workspace_find(struct client *client, const char *text, char ret[UUID_TEXT_MAX], struct err *err);

/* The one that was made last. -ENOENT. */
int workspace_find_last(struct client *client, char ret[UUID_TEXT_MAX], int64_t *ret_created_ns, struct err *err);

/* What a word names that may be either: a sandbox over a codebase has `id`, a workspace `workspace`. */
struct target {
    char *id; /* owned; NULL: a workspace */
    char workspace[UUID_TEXT_MAX];
};
int target_find(struct client *client, const char *text, struct target *ret, struct err *err);
void target_done(struct target *target);

/* "&path=a%20b", with '?' for the first. Nothing for NULL. */
void workspace_add_query(struct buf *path, const char *name, const char *value);

/* `status`, or for NULL all but those that were deleted. */
void workspace_add_statuses(struct buf *path, const char *status);

/* A path of a word or an option, made absolute by where we are. To be freed. */
char *workspace_absolute(const char *path);

/* "" for what is not there. */
const char *json_text(const json_t *object, const char *key);
long long json_number(const json_t *object, const char *key);

/* "key: value" lines of an object, without what is empty. */
void workspace_print_fields(json_t *object);
/* The answer with --json; else whatever `id` is, NULL for nothing. */
void workspace_print(const struct api_call *call, json_t *answer, const char *id);
