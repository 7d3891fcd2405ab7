/*
 * Reads rules from text: a policy file.
 *
 *     version: 1
 *     extends: agent-safe          # optional: the rules of a preset come first
 *     rules:
 *       - pattern: /logs/
 *         permission: write
 *         type: directory          # optional: glob, directory, file
 *         priority: 10             # optional: 0
 *
 * A list of rules alone is a policy as well. JSON is YAML, so one parser reads both.
 *
 * The reader is strict: it refuses an unknown or repeated key, a value of the wrong type, an alias, a tag, a second document
 * and trailing text. The error names the line, the rule by its number in the file, and the value. On failure the list is
 * unchanged.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "policy/rule.h"

#define POLICY_TEXT_MAX ((size_t) 16 << 20)

/* Reads a file and appends its rules: JSON if the name ends in .json, YAML otherwise. "-" is standard input. */
int policy_file_load(const char *path, struct rule_list *rules, struct err *err);

int policy_parse_yaml(const char *text, size_t len, struct rule_list *rules, struct err *err);

/* Also reads what YAML does not know: a character outside the BMP as two \u escapes, which many JSON encoders write. */
int policy_parse_json(const char *text, size_t len, struct rule_list *rules, struct err *err);
