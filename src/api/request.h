/*
 * What all handlers share: admitting the caller, receiving the request, and reading and making parts of messages.
 */
#pragma once

#include <stdint.h>

#include "api/api.h"
#include "base/sandbox_id.h"
#include "call/call.h"
#include "call/message.h"
#include "policy/rule.h"
#include "service/caller.h"
#include "service/sandbox_info.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* A call of an authenticated caller. */
struct request {
    struct call *call;       /* borrowed */
    struct service *service; /* borrowed */
    struct caller caller;
};

/* Authenticates the caller. `cookie` is the struct api. */
int request_admit(struct call *call, void *cookie, struct request *ret, struct err *err);

/* The method_fn of methods with one request: authenticates the caller, receives the request and calls the method's `serve`. The request lives as long as
 * the call. request_run() sends and frees the answer in `*ret`; a handler that sends a stream of answers itself leaves NULL there. */
int request_run(struct call *call, void *cookie, struct err *err);

void request_free(ProtobufCMessage **message);
#define autorequest __attribute__((cleanup(request_free))) ProtobufCMessage *

/* Copies the reason of a failure from `err` to the call and keeps details that were added for the same reason. Returns `r`. request_run() calls
 * it. */
int request_end(struct call *call, int r, const struct err *err);

/* "<name> is required". */
int request_need(const char *value, const char *name, struct err *err);

/* Finds the sandbox by an id, the unique beginning of one, a UUID or a name, and returns its id. "sandbox_id is required",
 * "sandbox not found". */
int request_find_sandbox(const struct request *request, const char *given, char ret[SANDBOX_ID_MAX], struct err *err);

/* ---- parts of requests ---- */

int take_rules(Sandbox__V1__PermissionRule *const *rules, size_t count, struct rule_list *ret, struct err *err);
/* In nanoseconds; 0 if there is none. Refuses negative durations and those that are too long for 64 bits. */
int take_duration(const Google__Protobuf__Duration *duration, const char *name, int64_t *ret, struct err *err);
/* 0, also for a negative size: all items, or the default number. */
size_t take_page_size(int32_t size);
/* The same with the default (100) and the maximum (1000) of newer methods. */
size_t take_bounded_page_size(int32_t size);

/* A page token is the name of the last item of the page before, in hex digits; the name may have any bytes but NUL. */
char *make_page_token(const char *name);
/* Decodes a token. Free the result. "page_token is not of this list". */
int take_page_token(const char *token, char **ret, struct err *err);

/* ---- parts of answers: all allocated, freed with the answer ---- */

/* NULL for 0, which means never. */
Google__Protobuf__Timestamp *make_timestamp(int64_t wall_ns);
Google__Protobuf__Duration *make_duration(int64_t ns);
/* Makes text for a string field: replaces NUL and invalid UTF-8 by U+FFFD. */
char *make_text(const void *bytes, size_t len);
/* The same, but at most `max` bytes of it. Sets `is_cut` if it cut the text, and never clears it. */
char *make_text_within(const void *bytes, size_t len, size_t max, protobuf_c_boolean *is_cut);
char **make_texts(char *const *texts, size_t count);
/* The same for a string; NULL gives "". */
char *make_string(const char *text);

/* Sends the answer and frees it. */
int answer_send(struct call *call, ProtobufCMessage *answer, struct err *err);
