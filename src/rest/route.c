#include "rest/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct route_table {
    struct route *routes; /* in the order in which they are tried */
    size_t count;
};

/* What a component of a template takes, and so the order in which templates are tried. */
enum part_kind { PART_LITERAL, PART_ANY, PART_REST };

/* A component, at the slash before it. */
struct part {
    enum part_kind kind;
    const char *text; /* with the braces */
    size_t len;
};

static struct part route_part(const char *slash)
{
    struct part part = { .text = slash + 1, .len = (size_t) (strchrnul(slash + 1, '/') - slash - 1) };

    if (*part.text == '{')
        part.kind = part.len > 5 && memcmp(part.text + part.len - 4, "=**}", 4) == 0 ? PART_REST : PART_ANY;
    return part;
}

/* Templates that differ in the names of variables only are equal. */
static int route_compare_templates(const char *a, const char *b)
{
    while (*a == '/' && *b == '/') {
        struct part x = route_part(a), y = route_part(b);
        int order = x.kind != y.kind         ? (int) x.kind - (int) y.kind
                    : x.kind != PART_LITERAL ? 0
                    : x.len != y.len         ? (x.len < y.len ? -1 : 1)
                                             : memcmp(x.text, y.text, x.len);

        if (order != 0)
            return order;
        a = x.text + x.len;
        b = y.text + y.len;
    }
    return (*a != '\0') - (*b != '\0');
}

static int route_compare(const void *a, const void *b)
{
    const struct route *x = a, *y = b;
    int order = route_compare_templates(x->path, y->path);

    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* ---- making a table ---- */

/* Checks the template and keeps the names of its variables. */
static bool route_read_template(struct route *route)
{
    const char *at = route->path;

    if (*at != '/')
        return false;
    while (*at == '/' && strcmp(route->path, "/") != 0) {
        struct part part = route_part(at);
        size_t name_len = part.len - (part.kind == PART_REST ? 5 : 2);

        at = part.text + part.len;
        if (part.len == 0)
            return false;
        if (part.kind == PART_LITERAL)
            continue;
        if (part.len < 3 || part.text[part.len - 1] != '}' || memchr(part.text + 1, '=', name_len) ||
            (part.kind == PART_REST && *at != '\0') || route->capture_count == ROUTE_CAPTURES_MAX)
            return false;
        route->names[route->capture_count++] = xdupn(part.text + 1, name_len);
    }
    return true;
}

static int route_table_add(struct route_table *table, struct route route, struct err *err)
{
    struct route *kept = &table->routes[table->count];

    *kept = route;
    kept->index = table->count++;
    return route_read_template(kept) ? 0 : err_invalid(err, "the route '%s' is malformed", route.path);
}

static int route_table_sort(struct route_table *table, struct err *err)
{
    qsort(table->routes, table->count, sizeof(*table->routes), route_compare);
    for (size_t i = 0; i < table->count; i++) {
        const struct route *a = &table->routes[i];

        for (size_t j = i + 1; j < table->count && route_compare_templates(a->path, table->routes[j].path) == 0; j++)
            if (strcmp(a->verb, table->routes[j].verb) == 0)
                return err_invalid(err, "the route '%s %s' is there already", a->verb, a->path);
    }
    return 0;
}

int route_table_new(const struct method_table *methods, const struct web_table *const *webs, struct route_table **ret,
                    struct err *err)
{
    autoptr(route_table) table = xnew(struct route_table);
    size_t count = methods->count * METHOD_ROUTES_MAX + 1;
    int r = 0;

    for (const struct web_table *const *web = webs; *web; web++)
        count += (*web)->count;
    table->routes = xalloc(count * sizeof(*table->routes));
    for (size_t i = 0; r == 0 && i < methods->count; i++) {
        const struct method *method = &methods->methods[i];

        for (const struct method_route *at = method->routes; r == 0 && at < method->routes + METHOD_ROUTES_MAX && at->verb;
             at++)
            r = route_table_add(
                table, (struct route){ .verb = at->verb, .path = at->path, .method = method, .method_route = at }, err);
    }
    for (; r == 0 && *webs; webs++) {
        for (const struct web_route *at = (*webs)->routes; r == 0 && at < (*webs)->routes + (*webs)->count; at++)
            r = route_table_add(
                table, (struct route){ .verb = at->verb, .path = at->path, .web = at, .cookie = (*webs)->cookie }, err);
    }
    if (r == 0)
        r = route_table_sort(table, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&table);
    return 0;
}

void route_table_free(struct route_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->routes[i].capture_count; j++)
            free(table->routes[i].names[j]);
    free(table->routes);
    free(table);
}

/* ---- finding a route ---- */

/* `path` is what follows the first slash. */
static bool route_fits(const struct route *route, const char *path, const char *end, struct route_match *match)
{
    const char *at = strcmp(route->path, "/") == 0 ? "" : route->path;
    size_t captures = 0;

    for (; *at == '/'; path++) {
        struct part part = route_part(at);

        if (path >= end)
            return false;
        const char *stop = part.kind == PART_REST ? end : memchr(path, '/', (size_t) (end - path));
        size_t len = (size_t) ((stop ? stop : end) - path);
        if (len == 0 || (part.kind == PART_LITERAL && (len != part.len || memcmp(path, part.text, len) != 0)))
            return false;
        if (part.kind != PART_LITERAL) {
            match->captures[captures] = path;
            match->capture_lens[captures++] = len;
        }
        path += len;
        at = part.text + part.len;
    }
    return path >= end;
}

static void route_allow_verb(struct route_match *match, const char *verb)
{
    size_t len = strlen(match->allow);

    if (!strstr(match->allow, verb))
        snprintf(match->allow + len, sizeof(match->allow) - len, "%s%s", len ? ", " : "", verb);
}

bool route_answers_events(const struct route *route)
{
    if (!route)
        return false;
    return route->web ? route->web->answer == WEB_ANSWER_EVENTS : route->method_route->answer == METHOD_ANSWER_EVENTS;
}

void route_find(const struct route_table *table, const char *verb, const char *path, size_t len, struct route_match *ret)
{
    const char *wanted = strcmp(verb, "HEAD") == 0 ? "GET" : verb;

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; len > 0 && *path == '/' && i < table->count; i++) {
        const struct route *route = &table->routes[i];

        if (!route_fits(route, path + 1, path + len, ret))
            continue;
        if (strcmp(route->verb, wanted) == 0) {
            ret->route = route;
            ret->allow[0] = '\0';
            return;
        }
        route_allow_verb(ret, route->verb);
        if (strcmp(route->verb, "GET") == 0)
            route_allow_verb(ret, "HEAD");
    }
}
