/*
 * One parsed line of a delta's change log (change_log.h). Whoever wrote the line, it is not trusted: incomplete and malformed
 * lines are not parsed, and unknown keys are ignored.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct change_log_line {
    struct buf change, path, to, hash, kept; /* absent keys have no data */
    bool has_base, has_moved_on;
    uint64_t size_bytes, mode;
    int64_t mtime_ns, time_ns;
};

#define CHANGE_LOG_LINE_EMPTY ((struct change_log_line){ 0 })

/* Parses a line without its newline. Frees what the struct held before in either case. */
bool change_log_line_parse(struct change_log_line *line, const char *text, size_t len);
void change_log_line_done(struct change_log_line *line);
