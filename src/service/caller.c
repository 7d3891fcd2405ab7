#include "service/caller.h"

#include <string.h>

bool caller_sees(const struct caller *caller, const char *owner)
{
    return caller->is_admin || strcmp(caller->owner, owner) == 0;
}
