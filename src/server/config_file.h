/*
 * A configuration file: YAML of mappings in mappings, whose leaves are single values or lists of them.
 *
 *     server:
 *       grpc_addr: "localhost:9000"        one call with the key server.grpc_addr
 *       allowed_uids: [1000, 1001]         two calls with the key server.allowed_uids
 *
 * The parser reads events. It rejects aliases, and depths and sizes that no such file has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CONFIG_FILE_BYTES_MAX (1u << 20)

/* Receives a value. `is_item`: the value is an item of a list. An empty list causes one call with `value` NULL. A negative
 * errno with `err` ends the parsing. */
typedef int (*config_file_fn)(const char *key, const char *value, bool is_item, size_t line, void *cookie, struct err *err);

/* The error names the line. */
int config_file_parse(const char *text, size_t len, config_file_fn fn, void *cookie, struct err *err);
