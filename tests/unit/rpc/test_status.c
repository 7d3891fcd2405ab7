#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <google/rpc/status.pb-c.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "rpc/status.h"

/* Whatever a handler says, the trailers are such that a client takes them. */
static void the_longest_status_fits_a_client(void **state)
{
    struct call call = { 0 };
    struct status status = { 0 };
    struct err err = ERR_NONE;
    char text[5000];
    (void) state;

    memset(text, 0xc3, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    call_set_reason(&call, "SOME_REASON");
    for (int i = 0; i < CALL_DETAILS_MAX + 1; i++)
        call_add_detail(&call, "some_key", text);
    err_set(&err, ERR_ABORTED, 0, "%s", text);
    for (int i = 0; i < 20; i++)
        status_add_trailer(&status, "x-some",
                           "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567");
    status_add_trailer(&status, "x-long", text);
    status_set(&status, &err, &call);
    assert_true(status.details.len > 0);
    assert_true(status.message.len + status.details.len + status.trailers.len + 500 < 8192);
    status_done(&status);
    call_done(&call);
}

static size_t details_of(size_t failure_bytes)
{
    struct call call = { 0 };
    struct status status = { 0 };
    struct err err = ERR_NONE;
    Google__Rpc__ErrorInfo *failure = NULL;

    call_set_reason(&call, "REASON");
    if (failure_bytes > 0) {
        failure = xnew(Google__Rpc__ErrorInfo);
        google__rpc__error_info__init(failure);
        failure->reason = xalloc(failure_bytes + 1);
        memset(failure->reason, 'x', failure_bytes);
        call_take_failure(&call, &failure->base);
    }
    err_set(&err, ERR_ABORTED, 0, "no");
    status_set(&status, &err, &call);
    size_t len = status.details.len;
    status_done(&status);
    call_done(&call);
    return len;
}

static void a_failure_goes_with_the_reason_if_it_fits(void **state)
{
    size_t reason = details_of(0);
    (void) state;

    assert_true(reason > 0 && details_of(1000) > reason + 1000);
    assert_int_equal(details_of(4000), reason);
}

static void trailers_are_what_http_allows(void **state)
{
    struct status status = { 0 };
    (void) state;

    status_add_trailer(&status, "X-Name", "a\r\nb: c\x7f");
    status_add_trailer(&status, "raw-bin", "\x01\x02");
    assert_memory_equal(status.trailers.data, "x-name\0a??b: c?\0raw-bin\0AQI", 28);
    assert_int_equal(status.trailer_count, 2);
    status_done(&status);
}

static void an_unknown_code_is_unknown(void **state)
{
    struct status status = { 0 };
    struct err err = { .code = (enum err_code) 77 };
    (void) state;

    status_set(&status, &err, NULL);
    assert_int_equal(status.code, ERR_UNKNOWN);
    status_done(&status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_status_fits_a_client),
        cmocka_unit_test(a_failure_goes_with_the_reason_if_it_fits),
        cmocka_unit_test(trailers_are_what_http_allows),
        cmocka_unit_test(an_unknown_code_is_unknown),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
