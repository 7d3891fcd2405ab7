/*
 * Parts of JSON requests and of queries, read strictly: what is there and is not of its type is 400, what is not there, or null, leaves the
 * default that the caller has put into `ret`. Texts and values are borrowed from the request. And parts of answers.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/compat_workspace_call.h"
#include "base/err.h"

#define COMPAT_TEXT_MAX 4096
#define COMPAT_TEXTS_MAX 1000

/* `object` may be NULL: nothing is there. `max` is in bytes, 0: COMPAT_TEXT_MAX. */
int compat_get_text(const json_t *object, const char *key, size_t max, const char **ret, struct err *err);
int compat_get_bool(const json_t *object, const char *key, bool *ret, struct err *err);
int compat_get_int(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err);
/* Nanoseconds as an integer, or text: "24h", "90m", "1h30m", "500ms", "30" (seconds). Not negative. */
int compat_get_duration(const json_t *object, const char *key, int64_t *ret_ns, struct err *err);
/* Objects and arrays of anything. */
int compat_get_object(const json_t *object, const char *key, const json_t **ret, struct err *err);
int compat_get_array(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);
/* An array of texts: `ret` is ended by NULL, its items borrowed; free the array alone. NULL when it is not there. */
int compat_get_texts(const json_t *object, const char *key, size_t max, const char ***ret, size_t *ret_count, struct err *err);
/* {"NAME": "value"}, e.g. an environment; "no object of texts". */
int compat_get_pairs(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);

/* Of the query: "" counts as not there. */
int compat_query_int(const struct ws *ws, const char *name, int64_t least, int64_t most, int64_t *ret, struct err *err);
int compat_query_bool(const struct ws *ws, const char *name, bool *ret, struct err *err); /* true, false, 1, 0 */
int compat_query_duration(const struct ws *ws, const char *name, int64_t *ret_ns, struct err *err);

/* The version of the sandbox that the caller has seen: If-Match ("3", 3, or * for any), else the body's or the query's `version`. 0:
 * none was given. */
int compat_get_version(const struct ws *ws, int64_t *ret, struct err *err);

/* ---- answers ---- */

/* RFC 3339, UTC, nine digits. 0 is never: nothing is set. */
void compat_set_time(json_t *object, const char *key, int64_t wall_ns);
/* Any bytes as text: what is no UTF-8 becomes U+FFFD. */
json_t *compat_text(const char *bytes, size_t len);
/* The id of a sandbox as these routes spell it: its UUID. */
json_t *compat_uuid(const char *sandbox_id);
/* Nothing is set for "" or NULL. */
void compat_set_text(json_t *object, const char *key, const char *text);
