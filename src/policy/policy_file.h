/*
 * Rules from text: policy files in YAML or JSON, and lists of rules as the API has them.
 *
 *     version: 1
 *     extends: agent-safe          # optional: the rules of a preset come first
 *     rules:
 *       - pattern: /logs/
 *         permission: write
 *         type: directory          # optional: glob, directory, file
 *         priority: 10             # optional: 0
 *
 * Strict: an unknown or repeated key, a wrong type, an alias, a second document or trailing text is refused; the error names
 * the rule by its number in the file, the line, and the value. On any failure the list is left as it was.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "policy/rule.h"

#define POLICY_TEXT_MAX ((size_t) 16 << 20)

/* Reads a file and appends its rules: JSON when the name ends in .json, YAML otherwise. "-" is standard input (YAML). */
int policy_file_load(const char *path, struct rule_list *rules, struct err *err);

int policy_parse_yaml(const char *text, size_t len, struct rule_list *rules, struct err *err);

/* An array of rules, or an object with the keys of a policy file. */
int policy_parse_json(const char *text, size_t len, struct rule_list *rules, struct err *err);
