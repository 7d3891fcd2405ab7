/*
 * The program's log: one event, one line, one write(2).
 *
 *     log_info("sandbox started", LOG_STR("id", id), LOG_INT("pid", pid));
 *
 * A line is a JSON object ("time", "level", "msg", then the fields) in plain ASCII: every other character is escaped, invalid
 * UTF-8 becomes U+FFFD, so nothing a stranger names can forge a line or a terminal sequence. The text form is for people.
 *
 * Threads may log at once; errno is kept. Logging never fails and never raises SIGPIPE. When nobody takes a line for LOG_WAIT_MS
 * it is dropped, later ones are dropped at once until there is room again, and the first one taken then says how many were
 * ("dropped"). Several processes may share a file opened with O_APPEND, or a pipe, where lines up to PIPE_BUF stay whole. Not
 * for signal handlers and not between fork and exec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 16384 /* with its newline; fields that do not fit are left out and "truncated" says so */
#define LOG_VALUE_MAX 4096 /* as written; longer values are cut and "truncated" says so */
#define LOG_WAIT_MS 100

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };

struct log_field {
    const char *key; /* ours: lower case, no quotes needed */
    enum { LOG_KIND_BYTES, LOG_KIND_INT, LOG_KIND_UINT, LOG_KIND_BOOL, LOG_KIND_ERRNO, LOG_KIND_JSON } kind;
    const void *bytes; /* borrowed for the call; NULL is null */
    size_t len;        /* LOG_LEN_OF_STRING: up to the NUL */
    uint64_t number;
};

#define LOG_LEN_OF_STRING SIZE_MAX

#define LOG_BYTES(k, p, n) ((struct log_field){ .key = (k), .kind = LOG_KIND_BYTES, .bytes = (p), .len = (n) })
#define LOG_STR(k, s) LOG_BYTES(k, (const char *){ s }, LOG_LEN_OF_STRING)
/* Written as it is: JSON in plain ASCII that we made ourselves. */
#define LOG_JSON(k, s) ((struct log_field){ .key = (k), .kind = LOG_KIND_JSON, .bytes = (s) })
#define LOG_INT(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_INT, .number = (uint64_t) (int64_t) (v) })
#define LOG_UINT(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_UINT, .number = (v) })
#define LOG_BOOL(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_BOOL, .number = (v) })
#define LOG_ERRNO(k, r) ((struct log_field){ .key = (k), .kind = LOG_KIND_ERRNO, .number = (uint64_t) (int64_t) (r) })

/* The fields are evaluated only when the level is on. */
#define log_event(level, msg, ...)                                                                                             \
    do {                                                                                                                       \
        if (log_is_on(level)) {                                                                                                \
            const struct log_field log_fields[] = { LOG_STR("msg", msg), ##__VA_ARGS__ };                                      \
            log_write(level, log_fields, sizeof(log_fields) / sizeof(log_fields[0]));                                          \
        }                                                                                                                      \
    } while (0)

#define log_debug(msg, ...) log_event(LOG_LEVEL_DEBUG, msg, ##__VA_ARGS__)
#define log_info(msg, ...) log_event(LOG_LEVEL_INFO, msg, ##__VA_ARGS__)
#define log_warn(msg, ...) log_event(LOG_LEVEL_WARN, msg, ##__VA_ARGS__)
#define log_error(msg, ...) log_event(LOG_LEVEL_ERROR, msg, ##__VA_ARGS__)

bool log_is_on(enum log_level level);
void log_write(enum log_level level, const struct log_field *fields, size_t count); /* fields[0] is "msg" */

/* At any time, from any thread. It begins as LOG_LEVEL_INFO in JSON to descriptor 2. The descriptor stays the caller's. */
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
void log_set_fd(int fd);

/* "debug", "info", "warn", "error"; "json", "text". -EINVAL. */
int log_level_of_name(const char *name, enum log_level *ret);
int log_format_of_name(const char *name, enum log_format *ret);
