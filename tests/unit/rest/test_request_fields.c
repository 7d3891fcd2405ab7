#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <echo.pb-c.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "rest/json_message.h"
#include "rest/request_fields.h"

static char name[] = "id";
static const struct route route = { .capture_count = 1, .names = { name } };

static Echo__V1__Question *make_question(const char *json)
{
    ProtobufCMessage *message = NULL;

    assert_int_equal(json_message_parse(&echo__v1__question__descriptor, json, strlen(json), &message, NULL), 0);
    return (Echo__V1__Question *) message;
}

static int set(Echo__V1__Question *question, const char *query, struct err *err)
{
    const struct route_match match = { .route = &route };

    return request_fields_of_query(&question->base, &match, query, strlen(query), err);
}

static void test_the_path_wins_over_the_body(void **state)
{
    Echo__V1__Question *question = make_question("{\"id\": \"body\", \"text\": \"kept\"}");
    const struct route_match match = { .route = &route, .captures = { "p%20q" }, .capture_lens = { 5 } };
    (void) state;

    assert_int_equal(request_fields_of_path(&question->base, &match, NULL), 0);
    assert_string_equal(question->id, "p q");
    assert_string_equal(question->text, "kept");
    echo__v1__question__free_unpacked(question, NULL);
}

static void test_a_query_fills_fields_by_either_name(void **state)
{
    Echo__V1__Question *question = make_question("");
    (void) state;

    assert_int_equal(set(question,
                         "text=a+b&count=-3&size=9007199254740993&recursive=T&colour=COLOUR_BLUE&timeout=1.5s&since=2026-01-"
                         "02T03:04:05Z&tags=x&tags=y&raw=AQI&unknown=1&id=not&question.id=2",
                         NULL),
                     0);
    assert_string_equal(question->text, "a b");
    assert_int_equal(question->count, -3);
    assert_int_equal(question->size, 9007199254740993);
    assert_true(question->recursive);
    assert_int_equal(question->colour, ECHO__V1__COLOUR__COLOUR_BLUE);
    assert_int_equal(question->timeout->nanos, 500000000);
    assert_int_equal(question->since->seconds, 1767323045);
    assert_int_equal(question->n_tags, 2);
    assert_string_equal(question->tags[1], "y");
    assert_int_equal(question->raw.len, 2);
    assert_string_equal(question->id, ""); /* the path's */
    echo__v1__question__free_unpacked(question, NULL);
}

static void test_truth_is_what_go_takes_for_it(void **state)
{
    static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" }, *const no[] = { "0",     "f",     "F",
                                                                                                "FALSE", "false", "False" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        Echo__V1__Question *question = make_question("");
        char query[32];

        snprintf(query, sizeof(query), "recursive=%s", yes[i]);
        assert_int_equal(set(question, query, NULL), 0);
        assert_true(question->recursive);
        echo__v1__question__free_unpacked(question, NULL);
        question = make_question("");
        snprintf(query, sizeof(query), "recursive=%s", no[i]);
        assert_int_equal(set(question, query, NULL), 0);
        assert_false(question->recursive);
        echo__v1__question__free_unpacked(question, NULL);
    }
}

static void test_what_a_field_cannot_hold_is_refused_by_name(void **state)
{
    static const char *const wrong[][2] = {
        { "count=x", "count" },          { "count=", "count" },
        { "count=2147483648", "count" }, { "recursive=yes", "recursive" },
        { "recursive=", "recursive" },   { "colour=RED", "colour" },
        { "timeout=soon", "timeout" },   { "since=1", "since" },
        { "labels=x", "labels" },        { "raw=%21", "raw" },
        { "count=1&count=1", "count" },  { "size=1.5", "size" },
    };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        Echo__V1__Question *question = make_question("");
        struct err err = ERR_NONE;

        assert_int_equal(set(question, wrong[i][0], &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        char shown[40];
        snprintf(shown, sizeof(shown), "field '%s': ", wrong[i][1]);
        assert_memory_equal(err.text, shown, strlen(shown));
        echo__v1__question__free_unpacked(question, NULL);
    }
}

static void test_a_path_fills_the_field_file_path_of_a_form(void **state)
{
    const struct route_match match = { .route = &route };
    Echo__V1__Piece__Metadata *kept =
        (void *) protobuf_c_message_unpack(&echo__v1__piece__metadata__descriptor, NULL, 0, (const uint8_t *) "");
    (void) state;

    assert_int_equal(request_fields_set(&kept->base, &match, "path", "a/b", 3, NULL), 0);
    assert_string_equal(kept->file_path, "a/b");
    assert_int_equal(request_fields_set(&kept->base, &match, "comment", "x", 1, NULL), 0);
    assert_int_equal(request_fields_set(&kept->base, &match, "id", "x", 1, NULL), 0);
    assert_string_equal(kept->id, ""); /* the path's */
    protobuf_c_message_free_unpacked(&kept->base, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_path_wins_over_the_body),
        cmocka_unit_test(test_a_query_fills_fields_by_either_name),
        cmocka_unit_test(test_truth_is_what_go_takes_for_it),
        cmocka_unit_test(test_what_a_field_cannot_hold_is_refused_by_name),
        cmocka_unit_test(test_a_path_fills_the_field_file_path_of_a_form),
    };
    return cmocka_run_group_tests_name("request_fields", tests, NULL, NULL);
}
