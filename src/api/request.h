/*
 * What every handler begins and ends with: the caller let in, the one request received; parts of messages in both directions.
 */
#pragma once

#include <stdint.h>

#include "api/api.h"
#include "base/sandbox_id.h"
#include "call/call.h"
#include "policy/rule.h"
#include "service/caller.h"
#include "service/sandbox_info.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* A call whose caller was let in. */
struct request {
    struct call *call;       /* borrowed */
    struct service *service; /* borrowed */
    struct caller caller;
};

/* Lets the caller in. A handler's cookie is the api. */
int request_admit(struct call *call, void *cookie, struct request *ret, struct err *err);

/* The method_fn of methods with one request: lets the caller in, receives the request and calls `serve` of the method. The request lives for the call.
 * An answer in `*ret` is sent and freed; the answers of a stream are sent one by one, and NULL is left there. */
int request_run(struct call *call, void *cookie, struct err *err);

void request_free(ProtobufCMessage **message);
#define autorequest __attribute__((cleanup(request_free))) ProtobufCMessage *

/* Why a call failed, for programs, goes from `err` to the call; details of the same reason that are there stay. Returns `r`. request_run()
 * does it. */
int request_end(struct call *call, int r, const struct err *err);

/* "<name> is required". */
int request_need(const char *value, const char *name, struct err *err);

/* The id of the sandbox that a request means by an id, the unique beginning of one, a UUID or a name. "sandbox_id is required",
 * "sandbox not found". */
int request_find_sandbox(const struct request *request, const char *given, char ret[SANDBOX_ID_MAX], struct err *err);

/* ---- parts of requests ---- */

int take_rules(Sandbox__V1__PermissionRule *const *rules, size_t count, struct rule_list *ret, struct err *err);
/* Nanoseconds; 0 without one. Negative ones, and those no one lives to see, are refused. */
int take_duration(const Google__Protobuf__Duration *duration, const char *name, int64_t *ret, struct err *err);
/* 0, for which a negative one stands too: all, or the default. */
size_t take_page_size(int32_t size);
/* The same, with the default of the new methods and their most. */
size_t take_bounded_page_size(int32_t size);

/* Where a page begins: behind the item whose name, any bytes but NUL, the token has in hex digits. "": at the beginning. */
char *make_page_token(const char *name);
/* Free it. "page_token is not of this list". */
int take_page_token(const char *token, char **ret, struct err *err);

/* ---- parts of answers: all allocated, freed with the answer ---- */

/* NULL for 0, which is never. */
Google__Protobuf__Timestamp *make_timestamp(int64_t wall_ns);
Google__Protobuf__Duration *make_duration(int64_t ns);
/* Text for a string field: what is no UTF-8 becomes U+FFFD, and so does NUL. */
char *make_text(const void *bytes, size_t len);
/* The same, at most so many bytes of it. Whether it was cut is added to `is_cut`. */
char *make_text_within(const void *bytes, size_t len, size_t max, protobuf_c_boolean *is_cut);
char **make_texts(char *const *texts, size_t count);
/* The same of a string; NULL is "". */
char *make_string(const char *text);

/* Sends the answer and frees it. */
int answer_send(struct call *call, ProtobufCMessage *answer, struct err *err);
