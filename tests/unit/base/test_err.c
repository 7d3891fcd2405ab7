#include "fixture.h"

#include "base/err.h"
#include "base/utf8.h"

static void codes_are_numbered_as_grpc_numbers_them(void **state)
{
    (void) state;
    assert_int_equal(ERR_INVALID_ARGUMENT, 3);
    assert_int_equal(ERR_PERMISSION_DENIED, 7);
    assert_int_equal(ERR_UNAUTHENTICATED, 16);
    assert_string_equal(err_code_name(ERR_FAILED_PRECONDITION), "FAILED_PRECONDITION");
    for (int code = ERR_OK; code <= ERR_UNAUTHENTICATED; code++) {
        assert_non_null(err_code_name((enum err_code) code));
        assert_in_range(err_code_http_status((enum err_code) code), 200, 599);
    }
}

static void a_code_that_does_not_exist_is_unknown(void **state)
{
    (void) state;
    assert_string_equal(err_code_name((enum err_code) 17), "UNKNOWN");
    assert_string_equal(err_code_name((enum err_code) - 1), "UNKNOWN");
    assert_int_equal(err_code_http_status((enum err_code) 99), 500);
}

static void http_statuses_follow_the_code(void **state)
{
    (void) state;
    assert_int_equal(err_code_http_status(ERR_OK), 200);
    assert_int_equal(err_code_http_status(ERR_NOT_FOUND), 404);
    assert_int_equal(err_code_http_status(ERR_PERMISSION_DENIED), 403);
    assert_int_equal(err_code_http_status(ERR_INTERNAL), 500);
}

static void set_returns_the_errno_and_keeps_the_text(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(err_set(&err, ERR_NOT_FOUND, -ENOENT, "no sandbox '%s'", "sb_1"), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "no sandbox 'sb_1'");
}

static void a_failed_system_call_says_why(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(err_errno(&err, -EACCES, "opening '%s'", "x"), -EACCES);
    assert_int_equal(err.code, ERR_PERMISSION_DENIED);
    assert_string_equal(err.text, "opening 'x': Permission denied");
}

static void context_goes_before_and_the_code_stays(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    err_invalid(&err, "rule %d: bad pattern", 3);
    assert_int_equal(err_wrap(&err, -EINVAL, "reading policy '%s'", "p.yaml"), -EINVAL);
    assert_string_equal(err.text, "reading policy 'p.yaml': rule 3: bad pattern");
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
}

static void wrapping_an_empty_error_takes_the_errno(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    err_wrap(&err, -ENOSPC, "copying");
    assert_string_equal(err.text, "copying: No space left on device");
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
}

static void a_refused_text_is_shown_escaped(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(err_reject(&err, -ERANGE, "1\033[31m", "is too much"), -ERANGE);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_string_equal(err.text, "'1\\x1b[31m' is too much");
    assert_int_equal(err_reject(NULL, -EINVAL, "x", "is wrong"), -EINVAL);
}

static void nobody_has_to_care(void **state)
{
    (void) state;
    assert_int_equal(err_set(NULL, ERR_INTERNAL, -EIO, "x"), -EIO);
    assert_int_equal(err_errno(NULL, -EIO, "x"), -EIO);
    assert_int_equal(err_invalid(NULL, "x"), -EINVAL);
    assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
}

static void text_too_long_is_cut_and_still_a_string(void **state)
{
    char longest[3 * ERR_TEXT_MAX];
    struct err err = ERR_NONE;

    (void) state;
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    err_invalid(&err, "%s", longest);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    err_wrap(&err, -EINVAL, "outer");
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    assert_int_equal(strncmp(err.text, "outer: xxx", 10), 0);
    err_wrap(&err, -EINVAL, "%s", longest);
    err_errno(&err, -EIO, "%s", longest);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
}

static void text_is_never_cut_within_a_character(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    for (int shift = 0; shift < 4; shift++) {
        char longest[ERR_TEXT_MAX + 64] = "";
        for (int i = 0; i < shift; i++)
            strcat(longest, "x");
        while (strlen(longest) < ERR_TEXT_MAX + 8)
            strcat(longest, "\xf0\x9f\x98\x80");
        err_invalid(&err, "%s", longest);
        assert_true(utf8_is_valid(err.text, strlen(err.text)));
        assert_true(strlen(err.text) > ERR_TEXT_MAX - 5);
        err_wrap(&err, -EINVAL, "outer");
        assert_true(utf8_is_valid(err.text, strlen(err.text)));
    }
}

static void what_a_user_did_is_never_called_internal(void **state)
{
    static const int users[] = { EINVAL, ENOENT, EEXIST, EACCES, EPERM, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP, ENOSPC, EDQUOT };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(users); i++)
        assert_int_not_equal(err_code_of_errno(-users[i]), ERR_INTERNAL);
    assert_int_equal(err_code_of_errno(0), ERR_OK);
    assert_int_equal(err_code_of_errno(-EIO), ERR_INTERNAL);
    assert_int_equal(err_code_of_errno(-ETIMEDOUT), ERR_DEADLINE_EXCEEDED);
    assert_int_equal(err_code_of_errno(-ESTALE), ERR_ABORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_numbered_as_grpc_numbers_them),
        cmocka_unit_test(a_code_that_does_not_exist_is_unknown),
        cmocka_unit_test(http_statuses_follow_the_code),
        cmocka_unit_test(set_returns_the_errno_and_keeps_the_text),
        cmocka_unit_test(a_failed_system_call_says_why),
        cmocka_unit_test(context_goes_before_and_the_code_stays),
        cmocka_unit_test(wrapping_an_empty_error_takes_the_errno),
        cmocka_unit_test(a_refused_text_is_shown_escaped),
        cmocka_unit_test(nobody_has_to_care),
        cmocka_unit_test(text_too_long_is_cut_and_still_a_string),
        cmocka_unit_test(text_is_never_cut_within_a_character),
        cmocka_unit_test(what_a_user_did_is_never_called_internal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
