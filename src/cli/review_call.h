/*
 * Calls methods of the review, and explains refusals to the user. The first word of a verb names the sandbox, by its id, name or prefix, which the
 * server resolves.
 */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"
#include <sandbox/v1/review.pb-c.h>

#define EXIT_REFUSED 1 /* nothing was written; the reason is in the changes */

/* Calls `method`. If it refuses because of the changes, this prints the refusal (with --json on standard output as well) and returns EXIT_REFUSED. */
int review_ask(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct err *err);

/* Like review_ask(), but does not print a refusal: it only adds advice to `err`. */
int review_try(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct client_refusal *refusal, struct err *err);

/* Prints the refusal in `err`. Returns EXIT_REFUSED, or `r` if the reason is not in the changes. */
int review_refuse(struct api_call *call, int r, const struct client_refusal *refusal, const struct err *err);

/* Adds advice to the error of a method that refused, depending on its reason. Returns `r`. */
int review_complete(const char *sandbox, int r, struct err *err);

/* Calls a streaming method for the sandbox that the first word names. */
int review_stream(struct api_call *call, struct client_call *wanted, struct err *err);

/* Like client_list(). The first word of the verb, if there is one, names the sandbox. */
int review_list(struct api_call *call, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err);

/* Prints files with their verdicts; after a refused approval only those that stopped it. */
void review_print_stopping(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count);
void review_print_verdicts(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count, bool is_dry);
void review_print_hooks(FILE *out, Sandbox__V1__HookResult *const *hooks, size_t count);

/* Prints "  conflict: src/app.py: it was changed in the same lines". `reason` may be empty. */
void review_print_path(FILE *out, const char *state, const char *path, const char *reason);

/* Returns "conflict" for VERDICT_CONFLICT: the name of an enum value, in lower case and without its type's `prefix`. */
const char *review_word(const ProtobufCEnumDescriptor *descriptor, int value, const char *prefix, char ret[32]);

/* Takes the verb's words from `first` on as paths; `ret` borrows them. A path that is not UTF-8 becomes the id of its file. */
struct review_paths {
    char **paths, **ids; /* owned, and so are the ids; the paths are borrowed */
    size_t path_count, id_count;
};

int review_paths_take(struct api_call *call, int first, struct review_paths *ret, struct err *err);
void review_paths_done(struct review_paths *paths);
