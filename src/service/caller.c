#include "service/caller.h"

#include <pwd.h>
#include <string.h>

#include "base/mem.h"

const struct caller caller_system = { .owner = "", .is_admin = true, .cancel_fd = -1 };

char *caller_name(const struct caller *caller)
{
    struct passwd room, *user = NULL;
    char names[1024];

    if (*caller->owner)
        return xdup(caller->owner);
    if (!caller->has_uid)
        return xdup(CALLER_SYSTEM);
    if (getpwuid_r(caller->uid, &room, names, sizeof(names), &user) == 0 && user)
        return xdup(user->pw_name);
    return xprintf("uid %u", (unsigned) caller->uid);
}

bool caller_sees(const struct caller *caller, const char *owner)
{
    return caller->is_admin || strcmp(caller->owner, owner) == 0;
}
