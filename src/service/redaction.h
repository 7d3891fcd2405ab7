/*
 * Removes secrets from texts that are stored: the commands in events, which go to the log and to the database.
 *
 * It replaces values that follow the name of a secret in a command (--token X, PASSWORD=x, "api_key": "x", Authorization: Bearer x),
 * passwords in URLs, words that look like well-known tokens, values that follow a configured name, and matches of configured patterns. This
 * is best effort, not a guarantee: a secret without such a clue is stored like any other word.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"

#define REDACTION_MARK "[redacted]"

struct redaction;

/* `names` are names of options, variables, keys and headers, separated by commas; case and '-' or '_' do not matter. `patterns_path` is a
 * file of extended regular expressions, one per line, with '#' for comments. The first group's match is replaced, or the whole match
 * without a group. Either may be "". */
int redaction_new(const char *names, const char *patterns_path, struct redaction **ret, struct err *err);
void redaction_free(struct redaction *redaction);
DEFINE_AUTOPTR(redaction, redaction_free);

/* Returns a new string, or NULL if there is nothing to replace. */
char *redaction_text(const struct redaction *redaction, const char *text);

/* Redacts every text in an object or a list, in place. */
void redaction_json(const struct redaction *redaction, json_t *value);
