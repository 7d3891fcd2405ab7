#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "rest/route.h"

static const struct method methods[] = {
    { .name = "Create", .routes = { { .verb = "POST", .path = "/v1/things" } } },
    { .name = "List", .routes = { { .verb = "GET", .path = "/v1/things" } } },
    { .name = "Get", .routes = { { .verb = "GET", .path = "/v1/things/{id}" } } },
    { .name = "Delete", .routes = { { .verb = "DELETE", .path = "/v1/things/{id}" } } },
    { .name = "Start", .routes = { { .verb = "POST", .path = "/v1/things/{id}/start" } } },
    { .name = "Special", .routes = { { .verb = "GET", .path = "/v1/things/special" } } },
    { .name = "Files", .routes = { { .verb = "GET", .path = "/v1/things/{id}/files" } } },
    { .name = "Download", .routes = { { .verb = "GET", .path = "/v1/things/{id}/files/{file_path=**}" } } },
    { .name = "Upload",
      .routes = { { .verb = "PUT", .path = "/v1/things/{id}/files/{file_path=**}" },
                  { .verb = "POST", .path = "/v1/things/{id}/files" } } },
};

static const struct web_route page_routes[] = { { .verb = "GET", .path = "/health" }, { .verb = "GET", .path = "/" } };
static const struct web_table pages = { .routes = page_routes, .count = ARRAY_LEN(page_routes) };
static const struct web_table *const with_pages[] = { &pages, NULL }, *const without[] = { NULL };

static struct route_table *make_table(void)
{
    const struct method_table table = { .methods = methods, .count = ARRAY_LEN(methods) };
    struct route_table *routes = NULL;

    assert_int_equal(route_table_new(&table, with_pages, &routes, NULL), 0);
    return routes;
}

static const char *find(const struct route_table *table, const char *verb, const char *path, struct route_match *match)
{
    route_find(table, verb, path, strlen(path), match);
    if (!match->route)
        return NULL;
    return match->route->method ? match->route->method->name : match->route->web->path;
}

static void test_paths_lead_to_methods(void **state)
{
    static const struct {
        const char *verb, *path, *name;
    } ways[] = {
        { "POST", "/v1/things", "Create" },
        { "GET", "/v1/things", "List" },
        { "HEAD", "/v1/things", "List" },
        { "GET", "/v1/things/", "List" },
        { "GET", "/v1/things/t1", "Get" },
        { "GET", "/v1/things/t1/", "Get" },
        { "DELETE", "/v1/things/t1", "Delete" },
        { "POST", "/v1/things/t1/start", "Start" },
        { "GET", "/v1/things/special", "Special" },
        { "DELETE", "/v1/things/special", "Delete" }, /* the literal has no such verb, the variable has */
        { "GET", "/v1/things/special/files", "Files" },
        { "GET", "/v1/things/t1/files/", "Files" },
        { "GET", "/v1/things/t1/files/a/b.py", "Download" },
        { "PUT", "/v1/things/t1/files/a", "Upload" },
        { "POST", "/v1/things/t1/files", "Upload" },
        { "GET", "/health", "/health" },
        { "GET", "/", "/" },
    };
    static const char *const nowhere[] = { "",
                                           "v1/things",
                                           "/v1",
                                           "/v1/thing",
                                           "/v1/thingss",
                                           "//v1/things",
                                           "/v1//things",
                                           "/v1/things//",
                                           "/v1/things/t1/start/x",
                                           "/V1/things",
                                           "/health/x",
                                           "*" };
    autoptr(route_table) table = make_table();
    struct route_match match;
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        const char *name = find(table, ways[i].verb, ways[i].path, &match);
        assert_non_null(name);
        assert_string_equal(name, ways[i].name);
    }
    for (size_t i = 0; i < ARRAY_LEN(nowhere); i++) {
        assert_null(find(table, "GET", nowhere[i], &match));
        assert_string_equal(match.allow, "");
    }
}

static void test_variables_take_what_stands_there(void **state)
{
    autoptr(route_table) table = make_table();
    struct route_match match;
    (void) state;

    find(table, "GET", "/v1/things/a%2Fb/files/x/y//z/", &match);
    assert_int_equal(match.route->capture_count, 2);
    assert_string_equal(match.route->names[0], "id");
    assert_string_equal(match.route->names[1], "file_path");
    assert_memory_equal(match.captures[0], "a%2Fb", match.capture_lens[0]);
    assert_int_equal(match.capture_lens[0], 5);
    assert_memory_equal(match.captures[1], "x/y//z/", match.capture_lens[1]);
    assert_int_equal(match.capture_lens[1], 7);
}

static void test_a_wrong_verb_is_told_the_right_ones(void **state)
{
    autoptr(route_table) table = make_table();
    struct route_match match;
    (void) state;

    assert_null(find(table, "PUT", "/v1/things", &match));
    assert_string_equal(match.allow, "POST, GET, HEAD");
    assert_null(find(table, "TRACE", "/v1/things/special", &match));
    assert_string_equal(match.allow, "GET, HEAD, DELETE");
    assert_null(find(table, "get", "/health", &match));
    assert_string_equal(match.allow, "GET, HEAD");
}

static void test_a_thousand_routes_are_all_found(void **state)
{
    enum { COUNT = 1000 };
    static struct method many[COUNT];
    static char paths[COUNT][40];
    const struct method_table all = { .methods = many, .count = COUNT };
    autoptr(route_table) table = NULL;
    struct route_match match;
    (void) state;

    for (int i = 0; i < COUNT; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/v%d/a%d/{id}/b%d", i % 7, i, i % 13);
        many[i] = (struct method){ .name = paths[i], .routes = { { .verb = "GET", .path = paths[i] } } };
    }
    assert_int_equal(route_table_new(&all, without, &table, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        char path[40];

        snprintf(path, sizeof(path), "/v%d/a%d/x/b%d", i % 7, i, i % 13);
        assert_string_equal(find(table, "GET", path, &match), paths[i]);
        snprintf(path, sizeof(path), "/v%d/a%d/x/b%d", i % 7, i, i % 13 + 1);
        assert_null(find(table, "GET", path, &match));
    }
}

static void test_templates_that_make_no_sense_are_refused(void **state)
{
    static const char *const wrong[] = { "", "v1", "/v1//x", "/v1/", "/{}", "/{=**}", "/{a=**}/x", "/{a", "/{a=*}" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        const struct method one = { .name = "X", .routes = { { .verb = "GET", .path = wrong[i] } } };
        const struct method_table table = { .methods = &one, .count = 1 };
        struct route_table *routes = NULL;
        struct err err = ERR_NONE;

        assert_int_equal(route_table_new(&table, without, &routes, &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    }
    const struct method twice[] = { { .name = "X", .routes = { { .verb = "GET", .path = "/a/{b}" } } },
                                    { .name = "Y", .routes = { { .verb = "GET", .path = "/a/{c}" } } } };
    const struct method_table table = { .methods = twice, .count = 2 };
    struct route_table *routes = NULL;
    assert_int_equal(route_table_new(&table, without, &routes, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_lead_to_methods),
        cmocka_unit_test(test_variables_take_what_stands_there),
        cmocka_unit_test(test_a_wrong_verb_is_told_the_right_ones),
        cmocka_unit_test(test_a_thousand_routes_are_all_found),
        cmocka_unit_test(test_templates_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
