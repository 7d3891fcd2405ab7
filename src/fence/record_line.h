/*
 * One line of a delta's diary (record.h), taken apart. Whoever wrote it, it is read like a stranger's: what is torn, or is no line of
 * that kind, is not parsed, and words that nobody here knows are passed over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct record_line {
    struct buf change, path, to, hash, kept; /* what is not told has no data */
    bool has_base, has_moved_on;
    uint64_t size_bytes, mode;
    int64_t mtime_ns, time_ns;
};

#define RECORD_LINE_EMPTY ((struct record_line){ 0 })

/* Without its newline. What the struct held is gone either way. */
bool record_line_parse(struct record_line *line, const char *text, size_t len);
void record_line_done(struct record_line *line);
