/*
 * The program's log: one event, one line, one write(2).
 *
 *     log_info("sandbox started", LOG_STR("id", id), LOG_INT("pid", pid));
 *
 * A line is a JSON object ("time", "level", "msg", then the fields) in plain ASCII. Other characters are escaped and invalid
 * UTF-8 becomes U+FFFD, so untrusted values cannot forge a line or a terminal sequence. The text format is for people.
 *
 * Any thread may log; errno is preserved. Logging never fails and never raises SIGPIPE. If the output accepts no line for
 * LOG_WAIT_MS, that line is dropped, and further lines are dropped at once until the output accepts data again. The first line
 * after that reports the number of dropped lines ("dropped"). Several processes may share a file opened with O_APPEND, or a
 * pipe, where lines up to PIPE_BUF stay whole. Do not log in signal handlers or between fork and exec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 16384 /* including the newline; fields that do not fit are left out and "truncated" is set */
#define LOG_VALUE_MAX 4096 /* in its escaped form; longer values are cut and "truncated" is set */
#define LOG_WAIT_MS 100

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };

struct log_field {
    const char *key; /* a literal: lower case, needs no quotes */
    enum { LOG_KIND_BYTES, LOG_KIND_INT, LOG_KIND_UINT, LOG_KIND_BOOL, LOG_KIND_ERRNO, LOG_KIND_JSON } kind;
    const void *bytes; /* borrowed for the call; NULL is printed as null */
    size_t len;        /* LOG_LEN_OF_STRING: up to the NUL */
    uint64_t number;
};

#define LOG_LEN_OF_STRING SIZE_MAX

#define LOG_BYTES(k, p, n) ((struct log_field){ .key = (k), .kind = LOG_KIND_BYTES, .bytes = (p), .len = (n) })
#define LOG_STR(k, s) LOG_BYTES(k, (const char *){ s }, LOG_LEN_OF_STRING)
/* `s` is JSON in plain ASCII that we generated. It is written unchanged. */
#define LOG_JSON(k, s) ((struct log_field){ .key = (k), .kind = LOG_KIND_JSON, .bytes = (s) })
#define LOG_INT(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_INT, .number = (uint64_t) (int64_t) (v) })
#define LOG_UINT(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_UINT, .number = (v) })
#define LOG_BOOL(k, v) ((struct log_field){ .key = (k), .kind = LOG_KIND_BOOL, .number = (v) })
#define LOG_ERRNO(k, r) ((struct log_field){ .key = (k), .kind = LOG_KIND_ERRNO, .number = (uint64_t) (int64_t) (r) })

/* Evaluates the fields only if the level is enabled. */
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

/* May be called at any time from any thread. The defaults are LOG_LEVEL_INFO, JSON and descriptor 2. The caller keeps the
 * descriptor. */
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
void log_set_fd(int fd);

/* Accept "debug", "info", "warn", "error" and "json", "text". Return -EINVAL for other names. */
int log_level_of_name(const char *name, enum log_level *ret);
int log_format_of_name(const char *name, enum log_format *ret);
