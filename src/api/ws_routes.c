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
    { "POST", ONE "/exec", ws_exec, "Runs a command and waits for its end.", .flags = WS_NEEDS_BODY },
    { "POST", ONE "/processes", ws_process_start, "Starts a process in the background.", .flags = WS_NEEDS_BODY },
    { "POST", ONE "/start-process", ws_process_start, "Starts a process in the background.", .flags = WS_NEEDS_BODY },
    { "GET", ONE "/processes", ws_process_list, "Lists the processes in the background.", .flags = 0 },
    { "DELETE", ONE "/processes", ws_process_end_all, "Ends all processes in the background.", .flags = 0 },
    { "POST", ONE "/processes/kill-all", ws_process_end_all, "Ends all processes in the background.", .flags = WS_BODY },
    { "DELETE", ONE "/processes/{pid}", ws_process_end, "Ends a process.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs", ws_log_read, "What a process printed.", .flags = 0 },
    { "GET", ONE "/processes/{pid}/logs/stream", ws_log_follow, "What a process prints, as events.", .flags = 0,
      .answer = WEB_ANSWER_EVENTS },
    { "GET", ONE "/logs", ws_log_list, "Lists the logs of processes.", .flags = 0 },
    { "GET", ONE "/exec-interactive", ws_terminal, "A terminal, over a WebSocket.", .flags = 0 },
    { "GET", V1 "/stats/processes", ws_process_stats, "How many processes there are.", .flags = 0 },
    { "GET", V1 "/config/execution", ws_execution_get, "Limits of commands, and the default profile.", .flags = 0 },
    { "PUT", V1 "/config/execution", ws_execution_put, "Replaces these.", .flags = WS_NEEDS_BODY },
    { "GET", V1 "/config/profiles", ws_profile_list, "Lists the isolation profiles.", .flags = 0 },
    { "GET", V1 "/config/profiles/{profile}", ws_profile_get, "One of them.", .flags = 0 },
    { "PUT", V1 "/config/profiles/{profile}", ws_profile_put, "Makes one, or replaces it.", .flags = WS_NEEDS_BODY },
    { "DELETE", V1 "/config/profiles/{profile}", ws_profile_delete, "Removes one.", .flags = 0 },

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
