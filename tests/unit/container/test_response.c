#include "container_fixture.h"

static struct engine_response answer_of(long status, const char *body, size_t len)
{
    struct engine_response response = { .status = status };

    buf_add(&response.body, body, len);
    return response;
}

static void check(long status, const char *body, enum err_code code, const char *text)
{
    autodone(engine_response) struct engine_response response = answer_of(status, body, strlen(body));
    struct err err = ERR_NONE;

    assert_true(response_check(&response, &err) < 0);
    assert_int_equal(err.code, code);
    assert_string_equal(err.text, text);
    assert_printable(err.text);
}

static void a_refusal_is_told_in_the_engines_words(void **state)
{
    (void) state;
    check(404, "{\"message\":\"No such image: x\"}", ERR_NOT_FOUND, "the engine says: No such image: x");
    check(409, "{\"message\":\"busy\"}", ERR_FAILED_PRECONDITION, "the engine says: busy");
    check(400, "{\"message\":\"two\\nlines\\n\"}", ERR_INVALID_ARGUMENT, "the engine says: two lines");
    check(500, "{\"message\":\"\\u001b[2J\"}", ERR_UNAVAILABLE, "the engine says: \\x1b[2J");
    check(500, "{\"message\":\"a\\u0000b\"}", ERR_UNAVAILABLE, "the engine says: (nothing that helps)");
    check(503, "<html>", ERR_UNAVAILABLE, "the engine says: (nothing that helps)");
    check(500, "{\"message\":7}", ERR_UNAVAILABLE, "the engine says: (nothing that helps)");
    check(500, "", ERR_UNAVAILABLE, "the engine says: (nothing that helps)");
    check(0, "", ERR_UNAVAILABLE, "the engine says: (nothing that helps)");
}

static void success_is_no_error(void **state)
{
    autodone(engine_response) struct engine_response response = answer_of(204, "", 0);

    (void) state;
    assert_int_equal(response_check(&response, NULL), 0);
}

/* Of two bytes each, so that a cut may fall into one; and of those that grow when they are escaped. */
static void a_long_text_is_cut_between_characters(void **state)
{
    (void) state;
    for (size_t len = RESPONSE_TEXT_MAX - 3; len < RESPONSE_TEXT_MAX + 8; len++) {
        static const char *const units[] = { "\xc3\xa4", "\x1b", "\xe2\x80\xae" };

        for (size_t unit = 0; unit < count_of(units); unit++) {
            autodone(buf) struct buf text = BUF_EMPTY, shown = BUF_EMPTY;

            buf_add(&text, "xxx", len % 3);
            while (text.len < len)
                buf_add_str(&text, units[unit]);
            response_add_text(&shown, text.data);
            assert_printable(shown.data);
            assert_true(shown.len <= RESPONSE_SHOWN_MAX + 4);
            if (unit == 0)
                assert_null(strstr(shown.data, "\\x"));
        }
    }
}

static void what_is_no_json_of_its_kind_is_refused(void **state)
{
    static const char *const bodies[] = { "", "{", "[]", "7", "{\"a\":1,\"a\":2}", "{}x", "\xff" };
    autodone(buf) struct buf deep = BUF_EMPTY;
    json_t *json = NULL;

    (void) state;
    for (size_t i = 0; i < count_of(bodies); i++) {
        autodone(engine_response) struct engine_response response = answer_of(200, bodies[i], strlen(bodies[i]));

        assert_int_equal(response_json(&response, JSON_OBJECT, &json, NULL), -EBADMSG);
        assert_null(json);
    }
    for (int i = 0; i < 100000; i++)
        buf_add_char(&deep, '[');
    autodone(engine_response) struct engine_response response = answer_of(200, deep.data, deep.len);
    assert_int_equal(response_json(&response, JSON_ARRAY, &json, NULL), -EBADMSG);
}

static void fields_of_another_kind_are_as_if_absent(void **state)
{
    autoptr(json_t) json = json_loads("{\"s\":\"x\",\"n\":7,\"t\":true,\"f\":7.5,\"z\":null}", 0, NULL);

    (void) state;
    assert_string_equal(response_string(json, "s", "-"), "x");
    assert_string_equal(response_string(json, "n", "-"), "-");
    assert_string_equal(response_string(NULL, "n", "-"), "-");
    assert_int_equal(response_number(json, "n", -1), 7);
    assert_int_equal(response_number(json, "f", -1), -1);
    assert_int_equal(response_number(json, "z", -1), -1);
    assert_true(response_is_true(json, "t") && !response_is_true(json, "n") && !response_is_true(json, "q"));
}

static void ids_are_hexadecimal_and_bounded(void **state)
{
    char id[130];

    (void) state;
    memset(id, 'a', sizeof(id));
    id[129] = '\0';
    assert_false(response_is_id(id));
    id[128] = '\0';
    assert_true(response_is_id(id));
    assert_false(response_is_id(""));
    assert_false(response_is_id("../x"));
    assert_false(response_is_id("ab?force=1"));
    assert_false(response_is_id("AB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_is_told_in_the_engines_words),  cmocka_unit_test(success_is_no_error),
        cmocka_unit_test(a_long_text_is_cut_between_characters),   cmocka_unit_test(what_is_no_json_of_its_kind_is_refused),
        cmocka_unit_test(fields_of_another_kind_are_as_if_absent), cmocka_unit_test(ids_are_hexadecimal_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
