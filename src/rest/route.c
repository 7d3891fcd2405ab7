#include "rest/route.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define VERBS_MAX 8
#define NO_NODE 0 /* the root is nobody's child */

struct route_node {
    uint32_t any, rest; /* the child for "{name}", the one for "{name=**}"; or NO_NODE */
    struct route *routes[VERBS_MAX];
    size_t route_count;
};

/* A step by a literal component: from which node, by which name, to which. */
struct route_step {
    uint32_t from, to; /* to: NO_NODE in a slot that is free */
    const char *name;  /* borrowed from the template */
    size_t len;
};

struct route_table {
    struct route_node *nodes;
    size_t node_count, node_cap;
    struct route_step *steps; /* open addressing; a power of two, at most half full */
    size_t step_count, step_cap;
    struct route *routes; /* as many as were counted beforehand, so that pointers to them stay */
    size_t route_count;
};

static size_t hash_of(uint32_t from, const char *name, size_t len)
{
    uint64_t hash = hash_add(HASH_START ^ from, name, len);

    return (size_t) (hash ^ hash >> 32);
}

static struct route_step *route_table_slot_of(const struct route_table *table, uint32_t from, const char *name, size_t len)
{
    for (size_t i = hash_of(from, name, len);; i++) {
        struct route_step *step = &table->steps[i & (table->step_cap - 1)];

        if (step->to == NO_NODE || (step->from == from && step->len == len && memcmp(step->name, name, len) == 0))
            return step;
    }
}

static void route_table_grow_steps(struct route_table *table)
{
    struct route_step *old = table->steps;
    size_t old_cap = table->step_cap;

    table->step_cap = old_cap ? old_cap * 2 : 64;
    table->steps = xalloc(table->step_cap * sizeof(*table->steps));
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].to != NO_NODE)
            *route_table_slot_of(table, old[i].from, old[i].name, old[i].len) = old[i];
    free(old);
}

static uint32_t route_table_add_node(struct route_table *table)
{
    vec_room(&table->nodes, &table->node_cap, table->node_count);
    table->nodes[table->node_count] = (struct route_node){ 0 };
    return (uint32_t) table->node_count++;
}

static uint32_t route_table_step_by_name(struct route_table *table, uint32_t from, const char *name, size_t len)
{
    struct route_step *step = route_table_slot_of(table, from, name, len);

    if (step->to != NO_NODE)
        return step->to;
    if ((table->step_count + 1) * 2 > table->step_cap) {
        route_table_grow_steps(table);
        step = route_table_slot_of(table, from, name, len);
    }
    *step = (struct route_step){ .from = from, .to = route_table_add_node(table), .name = name, .len = len };
    table->step_count++;
    return step->to;
}

static uint32_t route_table_step_by_any(struct route_table *table, uint32_t from, bool is_rest)
{
    uint32_t to = is_rest ? table->nodes[from].rest : table->nodes[from].any;

    if (to == NO_NODE) {
        to = route_table_add_node(table);
        *(is_rest ? &table->nodes[from].rest : &table->nodes[from].any) = to;
    }
    return to;
}

/* "{name}" or "{name=**}" */
static int add_capture(struct route *route, const char *part, size_t len, bool is_last, bool *ret_is_rest)
{
    bool is_rest = len > 5 && memcmp(part + len - 4, "=**}", 4) == 0;
    size_t name_len = len - (is_rest ? 5 : 2);

    if (len < 3 || part[len - 1] != '}' || memchr(part + 1, '=', name_len) || (is_rest && !is_last) ||
        route->capture_count == ROUTE_CAPTURES_MAX)
        return -EINVAL;
    route->names[route->capture_count++] = xdupn(part + 1, name_len);
    *ret_is_rest = is_rest;
    return 0;
}

static int route_table_add_template(struct route_table *table, struct route *route, uint32_t *ret)
{
    const char *at = route->path;
    uint32_t node = 0;
    bool is_rest;

    if (*at != '/')
        return -EINVAL;
    while (*at == '/') {
        const char *part = at + 1;
        size_t len = strcspn(part, "/");

        at = part + len;
        if (len == 0 && *at == '\0' && part == route->path + 1)
            break; /* the path "/" */
        if (len == 0)
            return -EINVAL;
        if (*part != '{') {
            node = route_table_step_by_name(table, node, part, len);
            continue;
        }
        if (add_capture(route, part, len, *at == '\0', &is_rest) < 0)
            return -EINVAL;
        node = route_table_step_by_any(table, node, is_rest);
    }
    *ret = node;
    return 0;
}

static struct route *find_verb(const struct route_node *node, const char *verb)
{
    for (size_t i = 0; i < node->route_count; i++)
        if (strcmp(node->routes[i]->verb, verb) == 0)
            return node->routes[i];
    return NULL;
}

static int route_table_add_route(struct route_table *table, struct route route, struct err *err)
{
    struct route *kept = &table->routes[table->route_count++];
    uint32_t at;

    *kept = route;
    if (route_table_add_template(table, kept, &at) < 0)
        return err_invalid(err, "the route '%s' is malformed", route.path);
    struct route_node *node = &table->nodes[at];
    if (find_verb(node, route.verb) || node->route_count == VERBS_MAX)
        return err_invalid(err, "the route '%s %s' is there already", route.verb, route.path);
    node->routes[node->route_count++] = kept;
    return 0;
}

static int route_table_add_methods(struct route_table *table, const struct method_table *methods, struct err *err)
{
    for (size_t i = 0; i < methods->count; i++) {
        const struct method *method = &methods->methods[i];

        for (size_t j = 0; j < METHOD_ROUTES_MAX && method->routes[j].verb; j++) {
            const struct method_route *method_route = &method->routes[j];
            int r = route_table_add_route(
                table,
                (struct route){
                    .verb = method_route->verb, .path = method_route->path, .method = method, .method_route = method_route },
                err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int route_add_webs(struct route_table *table, const struct web_table *web, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < web->count; i++) {
        const struct web_route *route = &web->routes[i];

        r = route_table_add_route(
            table, (struct route){ .verb = route->verb, .path = route->path, .web = route, .cookie = web->cookie }, err);
    }
    return r;
}

int route_table_new(const struct method_table *methods, const struct web_table *const *webs, struct route_table **ret,
                    struct err *err)
{
    autoptr(route_table) table = xnew(struct route_table);
    size_t count = methods->count * METHOD_ROUTES_MAX + 1;
    int r;

    for (const struct web_table *const *web = webs; *web; web++)
        count += (*web)->count;
    table->routes = xalloc(count * sizeof(*table->routes));
    route_table_add_node(table);
    route_table_grow_steps(table);
    r = route_table_add_methods(table, methods, err);
    for (const struct web_table *const *web = webs; r == 0 && *web; web++)
        r = route_add_webs(table, *web, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&table);
    return 0;
}

void route_table_free(struct route_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->route_count; i++)
        for (size_t j = 0; j < table->routes[i].capture_count; j++)
            free(table->routes[i].names[j]);
    free(table->nodes);
    free(table->steps);
    free(table->routes);
    free(table);
}

struct route_search {
    const struct route_table *table;
    const char *verb;
    const char *end;
    struct route_match *match;
    size_t capture_count;
};

static void route_allow_verb(struct route_match *match, const char *verb)
{
    size_t len = strlen(match->allow);

    if (!strstr(match->allow, verb))
        snprintf(match->allow + len, sizeof(match->allow) - len, "%s%s", len ? ", " : "", verb);
}

static bool route_match_node(struct route_search *search, const struct route_node *node)
{
    search->match->route = find_verb(node, search->verb);
    if (search->match->route)
        return true;
    for (size_t i = 0; i < node->route_count; i++) {
        route_allow_verb(search->match, node->routes[i]->verb);
        if (strcmp(node->routes[i]->verb, "GET") == 0)
            route_allow_verb(search->match, "HEAD");
    }
    return false;
}

static void route_capture(struct route_search *search, const char *from, const char *to)
{
    search->match->captures[search->capture_count] = from;
    search->match->capture_lens[search->capture_count++] = (size_t) (to - from);
}

/* From a node, with what is left of the path behind a slash. Templates are few components deep, which bounds the ways that are tried. */
static bool route_walk(struct route_search *search, uint32_t from, const char *part)
{
    const struct route_node *node = &search->table->nodes[from];
    const char *stop;

    if (part >= search->end)
        return route_match_node(search, node);
    stop = memchr(part, '/', (size_t) (search->end - part));
    stop = stop ? stop : search->end;
    if (stop > part) {
        const struct route_step *step = route_table_slot_of(search->table, from, part, (size_t) (stop - part));

        if (step->to != NO_NODE && route_walk(search, step->to, stop + 1))
            return true;
    }
    if (stop > part && node->any != NO_NODE) {
        route_capture(search, part, stop);
        if (route_walk(search, node->any, stop + 1))
            return true;
        search->capture_count--;
    }
    if (node->rest != NO_NODE) {
        route_capture(search, part, search->end);
        if (route_match_node(search, &search->table->nodes[node->rest]))
            return true;
        search->capture_count--;
    }
    return false;
}

bool route_answers_events(const struct route *route)
{
    if (!route)
        return false;
    return route->web ? route->web->answer == WEB_ANSWER_EVENTS : route->method_route->answer == METHOD_ANSWER_EVENTS;
}

void route_find(const struct route_table *table, const char *verb, const char *path, size_t len, struct route_match *ret)
{
    struct route_search search = {
        .table = table, .verb = strcmp(verb, "HEAD") == 0 ? "GET" : verb, .end = path + len, .match = ret
    };

    memset(ret, 0, sizeof(*ret));
    if (len > 0 && *path == '/')
        route_walk(&search, 0, path + 1);
}
