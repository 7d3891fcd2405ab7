/*
 * A configuration file: YAML of mappings in mappings, whose leaves are single values or lists of them.
 *
 *     server:
 *       grpc_addr: "localhost:9000"        is told as server.grpc_addr
 *       allowed_uids: [1000, 1001]         is told as server.allowed_uids, twice
 *
 * Read as events; aliases, and a depth or a size that no such file has, are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CONFIG_FILE_BYTES_MAX (1u << 20)

/* A value. `is_item`: of a list; an empty list is told with value NULL. A negative errno with `err` ends the reading. */
typedef int (*config_file_fn)(const char *key, const char *value, bool is_item, size_t line, void *cookie, struct err *err);

/* The error says the line. */
int config_file_parse(const char *text, size_t len, config_file_fn fn, void *cookie, struct err *err);
