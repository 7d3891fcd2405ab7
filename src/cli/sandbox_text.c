#include "cli/sandbox_text.h"

#include "base/mem.h"

const char *sandbox_status_text(Sandbox__V1__SandboxStatus status)
{
    static const char *const names[] = { "unknown", "pending", "running", "stopped", "error", "deleted" };

    return (size_t) status < ARRAY_LEN(names) ? names[status] : names[0];
}

const char *sandbox_decision_text(Sandbox__V1__SandboxDecision decision)
{
    static const char *const names[] = { "open", "open", "approved", "rejected" };

    return (size_t) decision < ARRAY_LEN(names) ? names[decision] : names[0];
}

enum grid_colour sandbox_status_colour(Sandbox__V1__SandboxStatus status)
{
    if (status == SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_RUNNING)
        return GRID_GOOD;
    return status == SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_ERROR ? GRID_BAD : GRID_DIM;
}

const char *permission_text(Sandbox__V1__Permission permission)
{
    static const char *const names[] = { "none", "none", "view", "read", "write" };

    return (size_t) permission < ARRAY_LEN(names) ? names[permission] : names[0];
}
