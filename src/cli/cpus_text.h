/* "1.5" of --cpus: how many processors' time. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* As microseconds of each RUNTIME_CPU_PERIOD_US. */
int cpus_text_parse(const char *text, uint32_t *ret_quota_us, struct err *err);
