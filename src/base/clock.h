/*
 * The clocks, and the text forms of points in time and durations.
 *
 * Deadlines and durations are int64_t nanoseconds (292 years). A point in time that people read is a struct timespec since 1970
 * in UTC, because the API accepts every year from 1 to 9999. The only time zones are offsets in the text.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "base/err.h"

#define CLOCK_NS_PER_SEC 1000000000LL
#define CLOCK_NS_PER_MS 1000000LL

/* Long enough for the output of every function below, including the NUL. */
#define CLOCK_TEXT_MAX 40

/* 0, 3, 6 or 9 fraction digits, as few as the value needs. Protobuf's JSON mapping prints times this way. */
#define CLOCK_DIGITS_FEWEST (-1)

int64_t clock_now_ns(void);  /* CLOCK_MONOTONIC, for deadlines and durations; meaningless on another host and after a reboot */
int64_t clock_wall_ns(void); /* CLOCK_REALTIME, for records; may jump */

struct timespec clock_timespec_of_ns(int64_t ns);

/* Undefined outside the years 1678 to 2262. */
static inline int64_t clock_ns_of_timespec(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

/* Writes "2026-01-02T03:04:05.678Z". `digits` is 0, 3, 6, 9 or CLOCK_DIGITS_FEWEST; further digits are cut, not rounded.
 * Returns -ERANGE outside the years 1 to 9999. */
int clock_format(struct timespec t, int digits, char out[CLOCK_TEXT_MAX]);

/* Parses strictly what clock_format() writes: an upper-case T, "Z" or an offset "+hh:mm", no fraction or 1 to 9 digits, an
 * existing day, no leap second, nothing before or after. Returns -EINVAL otherwise. */
int clock_parse(const char *s, struct timespec *ret, struct err *err);

/* Parses a duration as people type it: "30s", "1m30s", "500ms", "2h", "1.5s"; plain digits are seconds. Units are h m s ms us
 * ns, each at most once, larger units first. No sign. Returns -EINVAL, or -ERANGE above 292 years. */
int clock_parse_duration(const char *s, int64_t *ret_ns, struct err *err);

/* Writes a duration as protobuf's JSON mapping does: "0.012345678s". */
void clock_format_duration(int64_t ns, char out[CLOCK_TEXT_MAX]);
