/*
 * Parses an engine's responses with care: it is another program, of any version, and its texts may come from a registry or an
 * image. All texts are escaped and truncated before a person sees them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "container/engine.h"

/* How much of a foreign text appears in a message, before and after escaping. */
#define RESPONSE_TEXT_MAX 400
#define RESPONSE_SHOWN_MAX 600

DEFINE_AUTOPTR(json_t, json_decref);

/* Parses the body as an object or array; -EBADMSG. */
int response_json(const struct engine_response *response, json_type type, json_t **ret, struct err *err);

/* Returns 0 for a status of success; otherwise its complaint, with a fitting code. */
int response_check(const struct engine_response *response, struct err *err);

/* Returns a member of an object; `otherwise` or false if it is missing or of another type. */
const char *response_string(const json_t *object, const char *key, const char *otherwise);
json_int_t response_number(const json_t *object, const char *key, json_int_t otherwise);
bool response_is_true(const json_t *object, const char *key);

/* Adds the text escaped and on one line, with " ..." where it was truncated. */
void response_add_text(struct buf *out, const char *text);

/* Tells whether the text can be an id in an API path: 1 to 128 of [0-9a-f]. */
bool response_is_id(const char *text);
