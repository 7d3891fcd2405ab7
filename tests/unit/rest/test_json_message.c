#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <echo.pb-c.h>
#include <errno.h>
#include <sandbox/v1/sandbox.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "rest/json_message.h"

static Echo__V1__Everything *parse(const char *json)
{
    ProtobufCMessage *message = NULL;
    struct err err = ERR_NONE;
    int r = json_message_parse(&echo__v1__everything__descriptor, json, strlen(json), &message, &err);

    if (r < 0)
        print_error("%s: %s\n", json, err.text);
    assert_int_equal(r, 0);
    return (Echo__V1__Everything *) message;
}

static void refuse_bytes(const char *json, size_t len, const char *text)
{
    ProtobufCMessage *message = NULL;
    struct err err = ERR_NONE;
    int r = json_message_parse(&echo__v1__everything__descriptor, json, len, &message, &err);

    if (r == 0)
        print_error("taken: %s\n", json);
    assert_true(r < 0);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    if (!strstr(err.text, text))
        print_error("%s: %s\n", json, err.text);
    assert_non_null(strstr(err.text, text));
}

static void refuse(const char *json, const char *text)
{
    refuse_bytes(json, strlen(json), text);
}

static void becomes(const ProtobufCMessageDescriptor *descriptor, const char *json, const char *wanted)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    ProtobufCMessage *message = NULL;
    struct err err = ERR_NONE;

    if (json_message_parse(descriptor, json, strlen(json), &message, &err) < 0)
        fail_msg("%s: %s", json, err.text);
    json_message_add(&out, message);
    assert_string_equal(out.data, wanted);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void test_every_field_is_written_in_order(void **state)
{
    (void) state;
    becomes(
        &sandbox__v1__sandbox__descriptor, "",
        "{\"id\":\"\",\"codebaseId\":\"\",\"permissions\":[],\"status\":\"SANDBOX_STATUS_UNSPECIFIED\",\"labels\":{},"
        "\"createdAt\":null,\"startedAt\":null,\"stoppedAt\":null,\"expiresAt\":null,\"runtime\":\"RUNTIME_TYPE_UNSPECIFIED\","
        "\"image\":\"\",\"resources\":null,\"statusReason\":\"\",\"ownerId\":\"\",\"network\":\"\","
        "\"syncOnCompletion\":\"SYNC_MODE_UNSPECIFIED\",\"warnings\":[],\"limits\":[],\"name\":\"\",\"directory\":\"\","
        "\"projectRoot\":\"\",\"reservedPaths\":[],\"noLock\":false,\"decision\":\"SANDBOX_DECISION_UNSPECIFIED\","
        "\"driver\":\"\",\"version\":\"0\",\"preset\":\"\",\"updatedAt\":null,\"lastUsedAt\":null,\"decidedAt\":null,"
        "\"deletedAt\":null,\"restorableUntil\":null,\"changedBytes\":\"0\",\"changedFiles\":\"0\",\"baseCommit\":\"\","
        "\"creator\":\"\",\"creatorType\":\"\",\"tags\":[],\"metadata\":\"\",\"behavior\":\"\",\"profile\":\"\","
        "\"hostPath\":\"\"}");
    becomes(&sandbox__v1__empty__descriptor, "{\"anything\": [1]}", "{}");
    becomes(&sandbox__v1__resource_limits__descriptor, "{\"memoryBytes\": 5}",
            "{\"memoryBytes\":\"5\",\"cpuQuota\":\"0\",\"cpuShares\":\"0\",\"pidsLimit\":\"0\",\"diskBytes\":\"0\","
            "\"diskInodes\":\"0\"}");
}

static void test_either_name_of_a_field_is_taken(void **state)
{
    Echo__V1__Everything *one = parse("{\"an_int32\": 1, \"aUint64\": 2, \"two__bars_3\": \"x\"}");
    Echo__V1__Everything *two = parse("{\"anInt32\": 1, \"a_uint64\": 2, \"twoBars3\": \"x\"}");
    (void) state;

    assert_int_equal(one->an_int32, 1);
    assert_int_equal(two->a_uint64, 2);
    assert_string_equal(one->two__bars_3, "x");
    assert_string_equal(two->two__bars_3, "x");
    echo__v1__everything__free_unpacked(one, NULL);
    echo__v1__everything__free_unpacked(two, NULL);
}

static void test_numbers_are_taken_to_their_ends(void **state)
{
    Echo__V1__Everything *all =
        parse("{\"anInt32\": -2147483648, \"aUint32\": \"4294967295\", \"anInt64\": \"-9223372036854775808\", "
              "\"aUint64\": 18446744073709551615, \"aSint64\": 9223372036854775807, \"aDouble\": 1e308, "
              "\"aFloat\": \"NaN\", \"aSint32\": 1.0e2, \"reals\": [1, -0.5, \"Infinity\"]}");
    (void) state;

    assert_int_equal(all->an_int32, INT32_MIN);
    assert_int_equal(all->a_uint32, UINT32_MAX);
    assert_true(all->an_int64 == INT64_MIN);
    assert_true(all->a_uint64 == UINT64_MAX);
    assert_true(all->a_sint64 == INT64_MAX);
    assert_int_equal(all->a_sint32, 100);
    assert_true(all->a_float != all->a_float);
    assert_int_equal(all->n_reals, 3);
    echo__v1__everything__free_unpacked(all, NULL);
}

static void test_spans_and_points_of_time(void **state)
{
    static const struct {
        const char *json;
        int64_t seconds;
        int32_t nanos;
    } spans[] = {
        { "\"30s\"", 30, 0 },
        { "30", 30, 0 },
        { "1.5", 1, 500000000 },
        { "\"-0.000000001s\"", 0, -1 },
        { "\"315576000000s\"", 315576000000, 0 },
        { "1e2", 100, 0 },
    };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        autofree char *json = xprintf("{\"timeout\": %s}", spans[i].json);
        Echo__V1__Everything *all = parse(json);

        assert_true(all->timeout->seconds == spans[i].seconds);
        assert_int_equal(all->timeout->nanos, spans[i].nanos);
        echo__v1__everything__free_unpacked(all, NULL);
    }
    becomes(&sandbox__v1__exec_result__descriptor, "{\"duration\": \"0.012345678s\"}",
            "{\"stdout\":\"\",\"stderr\":\"\",\"exitCode\":0,\"duration\":\"0.012345678s\",\"stdoutTruncated\":false,"
            "\"stderrTruncated\":false,\"execId\":\"\",\"codebaseVersion\":\"0\",\"syncConflicts\":[]}");
    becomes(&sandbox__v1__session__descriptor, "{\"createdAt\": \"2026-01-02T05:04:05.1200+02:00\"}",
            "{\"id\":\"\",\"sandboxId\":\"\",\"status\":\"SESSION_STATUS_UNSPECIFIED\",\"shell\":\"\",\"createdAt\":"
            "\"2026-01-02T03:04:05.120Z\",\"closedAt\":null}");
}

static void test_maps_lists_and_the_chosen_one(void **state)
{
    Echo__V1__Everything *all =
        parse("{\"labels\": {\"b\": \"1\", \"a\": \"2\", \"\": \"\"}, \"byNumber\": {\"-7\": {\"x\": 1}}, "
              "\"byTruth\": {\"true\": \"5\"}, \"points\": [{}, {\"next\": {\"y\": 2}}], \"choiceNumber\": 7, "
              "\"choiceText\": null, \"times\": {\"t\": \"1970-01-01T00:00:01Z\"}}");
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    assert_int_equal(all->n_labels, 3);
    assert_string_equal(all->labels[0]->key, "b");
    assert_int_equal(all->by_number[0]->key, -7);
    assert_int_equal(all->points[1]->next->y, 2);
    assert_int_equal(all->choice_case, ECHO__V1__EVERYTHING__CHOICE_CHOICE_NUMBER);
    json_message_add(&out, &all->base);
    assert_non_null(
        strstr(out.data,
               "\"labels\":{\"b\":\"1\",\"a\":\"2\",\"\":\"\"},\"byNumber\":{\"-7\":{\"x\":1,\"y\":0,\"next\":null}},"
               "\"byTruth\":{\"true\":\"5\"},\"waits\":[],\"choiceNumber\":\"7\",\"times\":{\"t\":\"1970-01-01T00:00:01Z\"}"));
    assert_null(strstr(out.data, "choiceText"));
    echo__v1__everything__free_unpacked(all, NULL);
}

static void test_null_is_the_default_and_unknown_fields_are_skipped(void **state)
{
    Echo__V1__Everything *all =
        parse("{\"text\": null, \"point\": null, \"labels\": null, \"points\": null, \"timeout\": null, \"colour\": null, "
              "\"new\": {\"deep\": [1, {\"x\": \"\\u00e9\"}, null, true]}, \"new\": 1}");
    (void) state;

    assert_string_equal(all->text, "");
    assert_null(all->point);
    assert_int_equal(all->n_points, 0);
    echo__v1__everything__free_unpacked(all, NULL);
}

static void test_what_does_not_fit_is_refused_by_name(void **state)
{
    static const char *const wrong[][2] = {
        { "{\"text\": 5}", "field 'text': must be a string" },
        { "{\"text\": true}", "field 'text': " },
        { "{\"text\": {}}", "field 'text': " },
        { "{\"text\": [\"a\"]}", "field 'text': " },
        { "{\"flag\": \"true\"}", "field 'flag': must be true or false" },
        { "{\"flag\": 1}", "field 'flag': must be true or false" },
        { "{\"anInt32\": 2147483648}", "field 'an_int32': is out of range" },
        { "{\"anInt32\": -2147483649}", "field 'an_int32': is out of range" },
        { "{\"anInt32\": 1.5}", "field 'an_int32': must be a whole number" },
        { "{\"anInt32\": \"\"}", "field 'an_int32': must be a whole number" },
        { "{\"anInt32\": \" 1\"}", "field 'an_int32': must be a whole number" },
        { "{\"anInt32\": \"0x10\"}", "field 'an_int32': must be a whole number" },
        { "{\"aUint32\": -1}", "field 'a_uint32': is out of range" },
        { "{\"aUint64\": 18446744073709551616}", "field 'a_uint64': is out of range" },
        { "{\"anInt64\": 1e40}", "field 'an_int64': is out of range" },
        { "{\"aFloat\": 1e39}", "field 'a_float': is out of range" },
        { "{\"aDouble\": 1e309}", "field 'a_double': is out of range" },
        { "{\"aDouble\": \"nan\"}", "field 'a_double': must be a number" },
        { "{\"colour\": \"RED\"}", "field 'colour': 'RED' is no name of echo.v1.Colour" },
        { "{\"colour\": \"1\"}", "field 'colour': '1' is no name" },
        { "{\"raw\": \"A\"}", "field 'raw': is not base64" },
        { "{\"raw\": [1]}", "field 'raw': " },
        { "{\"at\": \"yesterday\"}", "field 'at': " },
        { "{\"at\": 5}", "field 'at': must be a time" },
        { "{\"at\": {\"seconds\": 5}}", "field 'at': cannot be an object" },
        { "{\"timeout\": \"30\"}", "field 'timeout': must be a duration" },
        { "{\"timeout\": \"1m\"}", "field 'timeout': must be a duration" },
        { "{\"timeout\": \"1e1s\"}", "field 'timeout': must be a duration" },
        { "{\"timeout\": 0.0000000001}", "field 'timeout': has more than nine digits" },
        { "{\"timeout\": \"315576000001s\"}", "field 'timeout': is out of range" },
        { "{\"timeout\": true}", "field 'timeout': " },
        { "{\"texts\": \"a\"}", "field 'texts': must be a list, not a string" },
        { "{\"texts\": [\"a\", 1]}", "field 'texts[1]': must be a string" },
        { "{\"texts\": [null]}", "field 'texts[0]': cannot be null" },
        { "{\"points\": [{}, {\"next\": {\"x\": \"z\"}}]}", "field 'points[1].next.x': must be a whole number" },
        { "{\"labels\": []}", "field 'labels': must be an object, not a list" },
        { "{\"labels\": {\"a\": 1}}", "field 'labels': must be a string" },
        { "{\"labels\": {\"a\": null}}", "field 'labels': cannot be null" },
        { "{\"labels\": {\"a\": \"1\", \"b\": \"\", \"a\": \"2\"}}", "field 'labels': the same key twice" },
        { "{\"byNumber\": {\"1\": {}, \"1.0\": {}}}", "field 'by_number': the same key twice" },
        { "{\"byNumber\": {\"x\": {}}}", "field 'by_number': a key: must be a whole number" },
        { "{\"byTruth\": {\"T\": 1}}", "field 'by_truth': a key: must be true or false" },
        { "{\"text\": \"a\", \"text\": \"b\"}", "field 'text': given twice" },
        { "{\"anInt32\": 1, \"an_int32\": 1}", "field 'an_int32': given twice" },
        { "{\"choiceText\": \"a\", \"choiceNumber\": 1}", "field 'choice_number': another of its group" },
    };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        refuse(wrong[i][0], wrong[i][1]);
}

/* Strings are looked at several bytes at a time. */
static void test_what_is_not_plain_is_seen_wherever_it_stands(void **state)
{
    (void) state;
    for (int before = 0; before < 20; before++) {
        for (int after = 0; after < 12; after++) {
            autofree char *plain = xprintf("%.*s\xc3\xa9\x7f%.*s", before, "!#$%&'()*+,-./0123456", after, "]^_`abcdefghi");
            autofree char *good = xprintf("{\"text\": \"%s\\n%s\"}", plain, plain);
            autofree char *wanted = xprintf("%s\n%s", plain, plain);
            autofree char *control = xprintf("{\"text\": \"%s\x1f%s\"}", plain, plain);
            autofree char *early = xprintf("{\"text\": \"%s\"%s\"}", plain, plain);
            Echo__V1__Everything *all = parse(good);

            assert_string_equal(all->text, wanted);
            echo__v1__everything__free_unpacked(all, NULL);
            refuse(control, "a control character in a string");
            refuse(early, "not JSON");
        }
    }
}

static void test_what_is_no_json_is_refused(void **state)
{
    static const char *const wrong[] = { "{",
                                         "}",
                                         "{\"text\"}",
                                         "{\"text\":}",
                                         "{\"text\": \"a\",}",
                                         "{,}",
                                         "{text: 1}",
                                         "{'text': 1}",
                                         "{\"text\": \"a\"} x",
                                         "{\"text\": \"a\" \"b\"}",
                                         "{\"x\": [1,]}",
                                         "{\"x\": [1 2]}",
                                         "{\"x\": tru}",
                                         "{\"x\": nul}",
                                         "{\"x\": 01}",
                                         "{\"x\": .5}",
                                         "{\"x\": +1}",
                                         "{\"x\": 1e}",
                                         "{\"x\": \"\\x\"}",
                                         "{\"x\": \"\\u12\"}",
                                         "{\"x\": \"\\ud800\"}",
                                         "{\"x\": \"\\udc00\"}",
                                         "{\"x\": \"\\ud800\\u0041\"}",
                                         "{\"text\": \"\\u0000\"}",
                                         "{\"x\": \"\n\"}",
                                         "{\"x\": \"",
                                         "{\"x\": \"\\",
                                         "{\"x\": \"\xff\"}",
                                         "{\"\xc0\xaf\": 1}",
                                         "{\"text\": \"\xed\xa0\x80\"}",
                                         "{\"x\": NaN}",
                                         "\xEF\xBB\xBF{}",
                                         "{\"x\": /* */ 1}" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        refuse(wrong[i], "not JSON at byte ");
    refuse_bytes("{\"x\0\": 1}", 9, "not JSON at byte ");
    refuse("[]", "must be a JSON object, not a list");
    refuse("null", "must be a JSON object, not null");
    refuse("\"x\"", "must be a JSON object, not a string");
}

static void test_depth_is_bounded(void **state)
{
    autodone(buf) struct buf known = BUF_EMPTY;
    autodone(buf) struct buf unknown = BUF_EMPTY;
    (void) state;

    for (int i = 0; i < 100000; i++) {
        buf_add_str(&known, i ? "{\"next\":" : "{\"point\":");
        buf_add_str(&unknown, i ? "[" : "{\"x\":");
    }
    refuse(known.data, "nested more than 32 deep");
    refuse(unknown.data, "nested more than 32 deep");
}

/* 4 MiB of "{}," would be more than 100 MiB of messages. */
static void test_memory_is_bounded(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    (void) state;

    buf_add_str(&text, "{\"points\":[{}");
    while (text.len < (4u << 20) - 8)
        buf_add_str(&text, ",{}");
    buf_add_str(&text, "]}");
    refuse_bytes(text.data, text.len, "the message is too large");
}

static void test_as_much_text_as_a_body_may_have_is_taken(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    (void) state;

    buf_add_str(&text, "{\"text\":\"");
    while (text.len < (4u << 20) - 8)
        buf_add_char(&text, 'x');
    buf_add_str(&text, "\"}");
    Echo__V1__Everything *all = parse(text.data);
    assert_int_equal(strlen(all->text), text.len - 11);
    echo__v1__everything__free_unpacked(all, NULL);
}

static void test_strings_are_written_as_json_whatever_they_hold(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    json_message_add_string(&out, "a\"\\\n\x01\x7F\xC3\xA9\xFF\xE2\x82", 11);
    assert_string_equal(out.data, "\"a\\\"\\\\\\n\\u0001\\u007f\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void test_an_enum_may_be_a_number_nobody_named(void **state)
{
    Echo__V1__Everything *all = parse("{\"colour\": 77, \"colours\": [2, \"COLOUR_DEEP\", -3]}");
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    json_message_add(&out, &all->base);
    assert_non_null(strstr(out.data, "\"colour\":77,"));
    assert_non_null(strstr(out.data, "\"colours\":[\"COLOUR_BLUE\",\"COLOUR_DEEP\",\"COLOUR_DEEP\"]"));
    echo__v1__everything__free_unpacked(all, NULL);
}

static void test_unknown_fields_are_refused_where_they_matter(void **state)
{
    static const struct {
        const char *json, *text;
    } unknown[] = { { "{\"nothing\": 1}", "'nothing' is not known" },
                    { "{\"text\": \"a\", \"TEXT\": \"b\"}", "'TEXT' is not known" },
                    { "{\"point\": {\"z\": [1, {}]}}", "field 'point': 'z' is not known" },
                    { "{\"points\": [{}, {\"w\": null}]}", "field 'points[1]': 'w' is not known" } };
    (void) state;

    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
        const char *json = unknown[i].json;
        ProtobufCMessage *message = NULL;
        struct err err = ERR_NONE;

        protobuf_c_message_free_unpacked(&parse(json)->base, NULL);
        assert_int_equal(json_message_parse_known(&echo__v1__everything__descriptor, json, strlen(json), &message, &err),
                         -EINVAL);
        assert_non_null(strstr(err.text, unknown[i].text));
        assert_null(message);
    }
    ProtobufCMessage *message = NULL;
    const char *known = "{\"point\": {}, \"labels\": {\"any\": \"thing\"}}";
    assert_int_equal(json_message_parse_known(&echo__v1__everything__descriptor, known, strlen(known), &message, NULL), 0);
    protobuf_c_message_free_unpacked(message, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_fields_are_refused_where_they_matter),
        cmocka_unit_test(test_every_field_is_written_in_order),
        cmocka_unit_test(test_either_name_of_a_field_is_taken),
        cmocka_unit_test(test_what_is_not_plain_is_seen_wherever_it_stands),
        cmocka_unit_test(test_numbers_are_taken_to_their_ends),
        cmocka_unit_test(test_spans_and_points_of_time),
        cmocka_unit_test(test_maps_lists_and_the_chosen_one),
        cmocka_unit_test(test_null_is_the_default_and_unknown_fields_are_skipped),
        cmocka_unit_test(test_what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(test_what_is_no_json_is_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_as_much_text_as_a_body_may_have_is_taken),
        cmocka_unit_test(test_strings_are_written_as_json_whatever_they_hold),
        cmocka_unit_test(test_an_enum_may_be_a_number_nobody_named),
    };
    return cmocka_run_group_tests_name("json_message", tests, NULL, NULL);
}
