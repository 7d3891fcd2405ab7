/*
 * How much of what is repeated runs. With AGENTFENSE_LONG=1 in the environment (make test-long) all of it does, otherwise a share that
 * takes seconds.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool runs_long(void)
{
    const char *text = getenv("AGENTFENSE_LONG");

    return text && strcmp(text, "1") == 0;
}

static inline unsigned full_or_share(unsigned full, unsigned share)
{
    return runs_long() ? full : share;
}
