/*
 * Calls of the review's methods, and what people are told when a review is refused. The first word of a verb names the sandbox; the
 * server finds it by its id, name or prefix.
 */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"
#include <sandbox/v1/review.pb-c.h>

#define EXIT_REFUSED 1 /* nothing was written, because of the changes themselves */

/* Asks `method`. A refusal because of the changes is printed (with --json on standard output as well) and returns EXIT_REFUSED. */
int review_ask(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct err *err);

/* The same for a caller that looks at the refusal itself: it only makes `err` complete. */
int review_try(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct client_refusal *refusal, struct err *err);

/* Prints the refusal in `err`. Returns EXIT_REFUSED, or `r` when the cause does not lie in the changes. */
int review_refuse(struct api_call *call, int r, const struct client_refusal *refusal, const struct err *err);

/* Adds to the error of a method that refused what to do, by its reason. Returns `r`. */
int review_complete(const char *sandbox, int r, struct err *err);

/* Calls a method that streams, about the sandbox that the first word names. */
int review_stream(struct api_call *call, struct client_call *wanted, struct err *err);

/* client_list(); the first word of the verb, if it has one, names the sandbox. */
int review_list(struct api_call *call, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err);

/* Files with what became of each; of a refused approval only those that stopped it. */
void review_print_stopping(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count);
void review_print_verdicts(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count, bool is_dry);
void review_print_hooks(FILE *out, Sandbox__V1__HookResult *const *hooks, size_t count);

/* "  conflict: src/app.py: it was changed in the same lines". `reason` may be empty. */
void review_print_path(FILE *out, const char *state, const char *path, const char *reason);

/* "conflict" for VERDICT_CONFLICT: the name of a number of the API without the `prefix` of its type. */
const char *review_word(const ProtobufCEnumDescriptor *descriptor, int value, const char *prefix, char ret[32]);

/* The words of the verb from `first` on as paths: `ret` borrows them. Those that are no UTF-8 become ids of files. */
struct review_paths {
    char **paths, **ids; /* owned arrays; each id is owned too */
    size_t path_count, id_count;
};

int review_paths_take(struct api_call *call, int first, struct review_paths *ret, struct err *err);
void review_paths_done(struct review_paths *paths);
