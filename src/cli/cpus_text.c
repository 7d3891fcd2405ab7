#include "cli/cpus_text.h"

#include <ctype.h>
#include <stdlib.h>

#include "runtime/runtime_spec.h"

#define LEAST 0.01
#define MOST 1024

int cpus_text_parse(const char *text, uint32_t *ret_quota_us, struct err *err)
{
    char *end;
    double n = strtod(text, &end);

    if (end == text || *end || !isdigit((unsigned char) *text) || !(n >= LEAST && n <= MOST))
        return err_invalid(err, "--cpus '%s' is not a number from %g to %d", text, LEAST, MOST);
    *ret_quota_us = (uint32_t) (n * RUNTIME_CPU_PERIOD_US + 0.5);
    return 0;
}
