#include "cli/age.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

void age_format(int64_t wall_ns, char out[AGE_TEXT_MAX])
{
    int64_t age = wall_ns ? (clock_wall_ns() - wall_ns) / CLOCK_NS_PER_SEC : -1;

    if (age < 0)
        snprintf(out, AGE_TEXT_MAX, "-");
    else if (age < 60)
        snprintf(out, AGE_TEXT_MAX, "%" PRId64 "s", age);
    else if (age < 3600)
        snprintf(out, AGE_TEXT_MAX, "%" PRId64 "m", age / 60);
    else if (age < 86400)
        snprintf(out, AGE_TEXT_MAX, "%" PRId64 "h", age / 3600);
    else
        snprintf(out, AGE_TEXT_MAX, "%" PRId64 "d", age / 86400);
}
