/* What this is, for whoever finds the port. */
#include "api/compat_workspace_handlers.h"

int compat_about(struct ws *ws, struct err *err)
{
    (void) err;
    return compat_answer(ws, 200,
                         json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}, s:s}", "service", "agentfense",
                                   "version", AGENTFENSE_VERSION, "description",
                                   "sandboxes over live directories, whose changes are reviewed before they are applied",
                                   "apiVersion", "v1", "basePath", "/api/v1", "endpoints", "health", "/api/v1/health",
                                   "sandboxes", "/api/v1/sandboxes", "driver", "/api/v1/driver/info", "stats", "/api/v1/stats",
                                   "metrics", "/api/v1/metrics", "documentation", "/openapi.json"));
}
