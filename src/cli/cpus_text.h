/* Parses the value of --cpus: the CPU time of this many processors, such as "1.5". */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Returns the quota in microseconds of each RUNTIME_CPU_PERIOD_US. */
int cpus_text_parse(const char *text, uint32_t *ret_quota_us, struct err *err);
