/*
 * What an engine answers, read with care: it is another program, of any version, and texts in its answers may come from a registry
 * or an image. All texts are escaped and cut before a person sees them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "container/engine.h"

/* Of a stranger's text in a message: so much of it, and so much when it is escaped. */
#define RESPONSE_TEXT_MAX 400
#define RESPONSE_SHOWN_MAX 600

DEFINE_AUTOPTR(json_t, json_decref);

/* Its body as an object, or array; -EBADMSG. */
int response_json(const struct engine_response *response, json_type type, json_t **ret, struct err *err);

/* 0 for a status of success; otherwise what it complains of, with the code that fits. */
int response_check(const struct engine_response *response, struct err *err);

/* A string, a number or a truth value of an object, or what is to hold when it is not there or something else. */
const char *response_string(const json_t *object, const char *key, const char *otherwise);
json_int_t response_number(const json_t *object, const char *key, json_int_t otherwise);
bool response_is_true(const json_t *object, const char *key);

/* Adds it escaped and on one line, with " ..." where it was cut. */
void response_add_text(struct buf *out, const char *text);

/* Whether it can be an id in a path of the API: 1 to 128 of [0-9a-f]. */
bool response_is_id(const char *text);
