#include "policy/level.h"

#include <string.h>

static const char *const names[] = {
    [LEVEL_NONE] = "none",
    [LEVEL_VIEW] = "view",
    [LEVEL_READ] = "read",
    [LEVEL_WRITE] = "write",
};

const char *level_name(enum level level)
{
    return names[level];
}

bool level_parse(const char *name, enum level *ret_level)
{
    for (int i = LEVEL_NONE; i <= LEVEL_WRITE; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_level = (enum level) i;
            return true;
        }
    }
    return false;
}
