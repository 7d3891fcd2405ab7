#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rest/multipart.h"

static int on_begin(void *cookie, const char *name, const char *filename, struct err *err)
{
    (void) err;
    buf_addf(cookie, "<%s|%s>", name, filename ? filename : "-");
    return 0;
}

static int on_data(void *cookie, const char *bytes, size_t len, struct err *err)
{
    (void) err;
    assert_true(len > 0);
    buf_add(cookie, bytes, len);
    return 0;
}

static int on_end(void *cookie, struct err *err)
{
    (void) err;
    buf_add_str(cookie, "</>");
    return 0;
}

static const struct multipart_ops ops = { on_begin, on_data, on_end };

/* Fed in pieces of that size. */
static int read_form(const char *type, const char *form, size_t len, size_t piece, struct buf *out, struct err *err)
{
    autoptr(multipart) multipart = NULL;
    int r = multipart_new(type, &ops, out, &multipart, err);

    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = multipart_feed(multipart, form + at, len - at < piece ? len - at : piece, err);
    return r < 0 ? r : multipart_finish(multipart, err);
}

#define TYPE "multipart/form-data; boundary=XyZ"
#define PART(name) "--XyZ\r\nContent-Disposition: form-data; name=\"" name "\"\r\n"

static void is_read_as(const char *type, const char *form, const char *wanted)
{
    for (size_t piece = 1; piece <= strlen(form); piece++) {
        autodone(buf) struct buf out = BUF_EMPTY;
        struct err err = ERR_NONE;

        if (read_form(type, form, strlen(form), piece, &out, &err) < 0)
            fail_msg("pieces of %zu: %s", piece, err.text);
        assert_string_equal(out.data ? out.data : "", wanted);
    }
}

static void is_refused(const char *type, const char *form, size_t len)
{
    for (size_t piece = 1; piece <= len; piece += piece < 8 ? 1 : 100) {
        autodone(buf) struct buf out = BUF_EMPTY;
        struct err err = ERR_NONE;

        assert_int_equal(read_form(type, form, len, piece, &out, &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    }
}

static void test_parts_come_as_they_are_however_they_arrive(void **state)
{
    (void) state;
    is_read_as(TYPE, PART("a") "\r\none\r\n" PART("b") "Content-Type: x/y\r\n\r\ntwo\r\n--XyZ--\r\n", "<a|->one</><b|->two</>");
    is_read_as(TYPE, PART("a") "\r\n\r\n--XyZ--", "<a|-></>");
    is_read_as(TYPE, "before\r\n" PART("a") "\r\nx\r\n--XyZ--after --XyZ\r\n\r\n", "<a|->x</>");
    is_read_as(TYPE, PART("a") "\r\n\r\n--Xy\r\n--XyZ \t\r\nContent-Disposition: form-data; name=b\r\n\r\n-\r\n--XyZ--",
               "<a|->\r\n--Xy</><b|->-</>");
    is_read_as("Multipart/Form-Data;charset=x; boundary=\"a b\"",
               "--a b\r\ncontent-disposition:form-data; filename=\"q\\\"\\\\r.txt\"; name=\"f;g=h\"\r\n\r\n\r\n\r\n\r\n--a b--",
               "<f;g=h|q\"\\r.txt>\r\n\r\n</>");
    is_read_as(TYPE, "--XyZ--", "");
}

static void test_what_is_no_form_is_refused(void **state)
{
    static const char *const types[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/mixed; boundary=a",
        "multipart/form-data; boundary=\"a\tb\"",
        "multipart/form-data; boundary=\"a",
        "multipart/form-databoundary=a",
        "multipart/form-data; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    };
    static const char *const forms[] = { "x",
                                         PART("a"),
                                         PART("a") "\r\nx",
                                         PART("a") "\r\nx\r\n--XyZ",
                                         PART("a") "\r\nx\r\n--XyZx\r\n--XyZ--",
                                         PART("a") "\r\nx\r\n--XyZ-\r\n",
                                         "--XyZ\r\n\r\nx\r\n--XyZ--",
                                         "--XyZ\r\nContent-Type: a\r\n\r\nx\r\n--XyZ--",
                                         "--XyZ\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XyZ--",
                                         "--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XyZ--",
                                         "--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--XyZ--",
                                         PART("a\xff") "\r\nx\r\n--XyZ--",
                                         PART("a") "Content-Disposition: form-data; name=b\r\n\r\nx\r\n--XyZ--" };
    static char headers[MULTIPART_HEADERS_MAX + 200];
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        is_refused(types[i], "--a--", 5);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        is_refused(TYPE, forms[i], strlen(forms[i]));
    is_refused(TYPE, PART("a") "X: \0\r\n\r\nx\r\n--XyZ--", sizeof(PART("a") "X: \0\r\n\r\nx\r\n--XyZ--") - 1);
    memset(headers, 'x', sizeof(headers));
    memcpy(headers, PART("a"), strlen(PART("a")));
    is_refused(TYPE, headers, sizeof(headers));
}

static void test_memory_does_not_grow_with_the_data(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    autoptr(multipart) multipart = NULL;
    static char block[10000];
    (void) state;

    assert_int_equal(multipart_new(TYPE, &ops, &out, &multipart, NULL), 0);
    assert_int_equal(multipart_feed(multipart, PART("a") "\r\n", strlen(PART("a") "\r\n"), NULL), 0);
    memset(block, '\r', sizeof(block));
    for (int i = 0; i < 10; i++)
        assert_int_equal(multipart_feed(multipart, block, sizeof(block), NULL), 0);
    /* All but what may be the beginning of a boundary has come. */
    assert_true(out.len > 10 * sizeof(block) - 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_come_as_they_are_however_they_arrive),
        cmocka_unit_test(test_what_is_no_form_is_refused),
        cmocka_unit_test(test_memory_does_not_grow_with_the_data),
    };
    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
