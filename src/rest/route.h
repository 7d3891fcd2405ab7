/*
 * Which method, or which web route, a request is for.
 *
 * The templates are tried one after the other, which costs up to 20 microseconds for 250 routes. Where a literal component and a variable
 * both fit, the literal one is tried first.
 *
 * "{name}" takes one component that is not empty, "{name=**}" everything that is left, at least one. One slash at the end of a path is
 * passed over, unless it is part of what "**" takes. Percent signs are decoded after the path is taken apart, so "%2F" is no separator.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "call/method.h"
#include "call/web.h"

#define ROUTE_CAPTURES_MAX 8
#define ROUTE_ALLOW_MAX 128

/* Where a path leads: to a method, by one of its routes, or to a web route. */
struct route {
    const char *verb;                        /* borrowed, as are the others */
    const char *path;                        /* the template */
    const struct method *method;             /* NULL: no method */
    const struct method_route *method_route; /* with a method */
    const struct web_route *web;             /* without a method */
    void *cookie;                            /* of the web route's table */
    size_t index;                            /* its place when the table was made */
    size_t capture_count;
    char *names[ROUTE_CAPTURES_MAX]; /* owned: the fields that take what the path says, in its order */
};

struct route_match {
    const struct route *route;   /* NULL: none */
    char allow[ROUTE_ALLOW_MAX]; /* "GET, POST": what the path has, for a verb that it has not; "" when there is no such path */
    const char *captures[ROUTE_CAPTURES_MAX]; /* raw, within the path that was given */
    size_t capture_lens[ROUTE_CAPTURES_MAX];
};

struct route_table;

/* Refuses templates that are malformed, or two that are the same for one verb. `webs` ends with NULL. */
int route_table_new(const struct method_table *methods, const struct web_table *const *webs, struct route_table **ret,
                    struct err *err);
void route_table_free(struct route_table *table);
DEFINE_AUTOPTR(route_table, route_table_free);

/* Returns whether the answer is a stream of events. `route` may be NULL. */
bool route_answers_events(const struct route *route);

/* `path` is raw, up to the question mark. HEAD is served by GET. */
void route_find(const struct route_table *table, const char *verb, const char *path, size_t len, struct route_match *ret);
