/*
 * One line of a delta's change log (change_log.h), taken apart. Whoever wrote it, it is read like a stranger's: what is torn, or is no line of
 * that kind, is not parsed, and words that nobody here knows are passed over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct change_log_line {
    struct buf change, path, to, hash, kept; /* what is not told has no data */
    bool has_base, has_moved_on;
    uint64_t size_bytes, mode;
    int64_t mtime_ns, time_ns;
};

#define CHANGE_LOG_LINE_EMPTY ((struct change_log_line){ 0 })

/* Without its newline. What the struct held is gone either way. */
bool change_log_line_parse(struct change_log_line *line, const char *text, size_t len);
void change_log_line_done(struct change_log_line *line);
