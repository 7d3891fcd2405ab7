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
    { "GET", "/", ws_about, "Tells what this is.", .flags = WS_PUBLIC },
    { "GET", "/api", ws_about, "Tells what this is.", .flags = WS_PUBLIC },

    /* life */

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
