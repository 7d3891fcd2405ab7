/*
 * Time: what the clocks say, and how points and spans of time are written.
 *
 * Deadlines and spans are int64_t nanoseconds (292 years). A point in time that people read is a struct timespec since 1970
 * in UTC, because the API may name any year from 1 to 9999. Nothing here knows time zones other than an offset in the text.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "base/err.h"

#define CLOCK_NS_PER_SEC 1000000000LL
#define CLOCK_NS_PER_MS 1000000LL

/* Room for the longest text of the functions below, with its NUL. */
#define CLOCK_TEXT_MAX 40

/* As many fraction digits as the value needs, in steps of 0, 3, 6, 9: what protobuf's JSON mapping prints. */
#define CLOCK_DIGITS_FEWEST (-1)

int64_t clock_now_ns(void);  /* CLOCK_MONOTONIC: for deadlines and durations; means nothing to another host or after a reboot */
int64_t clock_wall_ns(void); /* CLOCK_REALTIME: for records; may jump */

struct timespec clock_timespec_of_ns(int64_t ns);

/* "2026-01-02T03:04:05.678Z". `digits` is 0, 3, 6, 9 or CLOCK_DIGITS_FEWEST; what does not fit is cut, not rounded.
 * -ERANGE outside the years 1 to 9999. */
int clock_format(struct timespec t, int digits, char out[CLOCK_TEXT_MAX]);

/* The way back, strict: upper case T, "Z" or an offset "+hh:mm", 1 to 9 fraction digits or none, a day that exists, no leap
 * second, nothing before or behind. -EINVAL. */
int clock_parse(const char *s, struct timespec *ret, struct err *err);

/* Spans as people type them: "30s", "1m30s", "500ms", "2h", "1.5s"; plain digits are seconds. Units h m s ms us ns, each once
 * and the larger first. No sign. -EINVAL, or -ERANGE for what is longer than 292 years. */
int clock_parse_duration(const char *s, int64_t *ret_ns, struct err *err);

/* Spans as protobuf's JSON mapping prints them: "0.012345678s". */
void clock_format_duration(int64_t ns, char out[CLOCK_TEXT_MAX]);
