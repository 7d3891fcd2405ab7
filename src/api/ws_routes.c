/*
 * Every workspace route, and who serves it. A new one is a line here, a function in a ws_*.c, and its declaration in ws_handlers.h. Paths
 * are relative to the root of the server; "{id}" behind /sandboxes is a workspace's id and is checked before the handler is called.
 */
#include "api/ws_routes.h"

#include "api/ws_handlers.h"
#include "base/mem.h"

#define V1 "/api/v1"
#define ONE V1 "/sandboxes/{id}"

static const struct ws_route routes[] = {
    /* what there is */
    { "GET", "/", ws_about, .summary = "Tells what this is.", .flags = WS_PUBLIC },
    { "GET", "/api", ws_about, .summary = "Tells what this is.", .flags = WS_PUBLIC },

    { "GET", V1 "/health", ws_health, .summary = "Tells whether it can do its work.", .flags = WS_PUBLIC },
    { "GET", V1 "/metrics", ws_metrics, .summary = "Counters, for Prometheus or as JSON." },
    { "GET", V1 "/stats", ws_stats, .summary = "Counts sandboxes by their status." },
    { "GET", V1 "/audit", ws_audit, .summary = "What happened, the newest first." },
    { "GET", V1 "/driver/info", ws_driver_info, .summary = "Tells which driver sandboxes get." },
    { "GET", V1 "/driver/options", ws_driver_options, .summary = "Lists drivers, and what they need." },
    { "POST", V1 "/driver/select", ws_driver_select, .summary = "Chooses the driver of new sandboxes.",
      .flags = WS_NEEDS_BODY },
    { "GET", V1 "/driver/preference", ws_driver_preference, .summary = "Tells which driver was chosen." },
    { "GET", V1 "/driver/bwrap", ws_driver_bwrap, .summary = "Tells whether bubblewrap is there." },
    { "GET", V1 "/validate-path", ws_validate_path, .summary = "Tells whether a sandbox could be over a path." },

    /* life */
    { "POST", V1 "/sandboxes", ws_create, .summary = "Makes a sandbox over a live directory.", .flags = WS_NEEDS_BODY },
    { "GET", V1 "/sandboxes", ws_list, .summary = "Lists sandboxes, the newest first." },
    { "GET", ONE, ws_get, .summary = "Tells about a sandbox." },
    { "DELETE", ONE, ws_delete, .summary = "Deletes a sandbox with its changes.", .flags = WS_BODY },
    { "POST", ONE "/stop", ws_stop, .summary = "Stops a sandbox; its changes stay.", .flags = WS_BODY },
    { "POST", ONE "/start", ws_start, .summary = "Starts a stopped sandbox.", .flags = WS_BODY },
    { "GET", ONE "/workspace", ws_workspace, .summary = "Tells where a sandbox is mounted." },
    { "GET", ONE "/audit", ws_audit_one, .summary = "What happened to a sandbox, the newest first." },
    { "POST", V1 "/gc", ws_gc, .summary = "Collects sandboxes that nobody needs.", .flags = WS_BODY, .keys = ws_gc_keys },
    { "POST", V1 "/gc/preview", ws_gc_preview, .summary = "Tells what would be collected.", .flags = WS_BODY,
      .keys = ws_gc_keys },

    /* commands, processes, logs, terminals, files */

    /* review */
};

const struct web_table *ws_routes_make(struct api *api)
{
    static struct web_route list[ARRAY_LEN(routes)];
    static struct web_table table;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        list[i] = (struct web_route){
            .verb = routes[i].verb,
            .path = routes[i].path,
            .run = ws_run,
            .answer = routes[i].answer,
            .has_body = routes[i].flags & (WS_BODY | WS_NEEDS_BODY | WS_RAW_BODY),
            .body_max = routes[i].body_max,
            .summary = routes[i].summary,
            .detail = &routes[i],
        };
    table = (struct web_table){ .routes = list, .count = ARRAY_LEN(list), .cookie = api };
    return &table;
}
