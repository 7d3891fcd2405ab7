/*
 * JSON as it stands in memory, read token by token: nothing is built, so a body costs no more memory than what is made of it.
 *
 * Strict: RFC 8259, UTF-8 without NUL (neither raw nor as \u0000), no half surrogates, nested no more than JSON_DEPTH_MAX deep.
 * Every function that fails says where: "not JSON at byte 17: ...".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX 32

struct json_text {
    const char *start, *at, *end; /* borrowed */
    int depth;
};

enum json_kind {
    JSON_KIND_END,
    JSON_KIND_OBJECT,
    JSON_KIND_LIST,
    JSON_KIND_STRING,
    JSON_KIND_NUMBER,
    JSON_KIND_BOOL,
    JSON_KIND_NULL,
    JSON_KIND_BAD
};

/* What comes next, blanks skipped; nothing is taken. */
enum json_kind json_text_peek(struct json_text *text);
const char *json_kind_name(enum json_kind kind); /* "a list" */

/* Take what json_text_peek() said is there. A string is added to `out`, decoded; a number is lent as it is written. */
int json_text_string(struct json_text *text, struct buf *out, struct err *err);
int json_text_number(struct json_text *text, const char **ret, size_t *ret_len, struct err *err);
int json_text_bool(struct json_text *text, bool *ret, struct err *err);
int json_text_null(struct json_text *text, struct err *err);

/* Into a list or an object, and on in it: `json_text_next` is 1 when a member follows, 0 after the last, which closes it. Of an object a
 * key comes first, which json_text_key() adds to `out`. */
int json_text_enter(struct json_text *text, struct err *err);
int json_text_next(struct json_text *text, bool is_first, char close, struct err *err);
int json_text_key(struct json_text *text, struct buf *out, struct err *err);

/* Whatever it is. */
int json_text_skip(struct json_text *text, struct err *err);

/* Nothing but blanks may be left. */
int json_text_finish(struct json_text *text, struct err *err);
