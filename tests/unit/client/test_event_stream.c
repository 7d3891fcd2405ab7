/* Server-sent events, however they are cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/event_stream.h"

static int note(const char *name, const char *data, size_t len, void *cookie, struct err *err)
{
    struct buf *out = cookie;

    (void) err;
    buf_addf(out, "%s=%.*s;", name, (int) len, data);
    return strcmp(name, "stop") == 0 ? -ECANCELED : 0;
}

static int feed(const char *text, size_t piece, struct buf *out)
{
    struct event_stream stream;
    struct err err = ERR_NONE;
    size_t len = strlen(text);
    int r = 0;

    event_stream_init(&stream, note, out);
    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = event_stream_feed(&stream, text + at, len - at < piece ? len - at : piece, &err);
    event_stream_done(&stream);
    return r;
}

static void it_does_not_matter_how_the_bytes_are_cut(void **state)
{
    static const char text[] =
        ": a beat\n\nevent: message\ndata: {\"a\": 1}\n\ndata:two\ndata: lines\r\n\r\nevent: end\ndata\nid: 7\n\n";

    (void) state;
    for (size_t piece = 1; piece <= sizeof(text); piece++) {
        autodone(buf) struct buf out = BUF_EMPTY;

        assert_int_equal(feed(text, piece, &out), 0);
        assert_string_equal(out.data, "message={\"a\": 1};message=two\nlines;end=;");
    }
}

static void an_event_that_is_not_complete_is_none(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    (void) state;
    assert_int_equal(feed("event: end\ndata: x\n", 100, &out), 0);
    assert_int_equal(out.len, 0);
    assert_int_equal(feed("event: end\n\n", 100, &out), 0);
    assert_int_equal(out.len, 0);
}

static void who_is_told_may_end_it(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    (void) state;
    assert_int_equal(feed("event: stop\ndata: 1\n\ndata: 2\n\n", 1000, &out), -ECANCELED);
    assert_string_equal(out.data, "stop=1;");
}

static void what_is_too_large_is_refused_before_it_is_kept(void **state)
{
    struct event_stream stream;
    autodone(buf) struct buf out = BUF_EMPTY;
    autofree char *bytes = malloc(65536);
    struct err err = ERR_NONE;
    size_t fed = 0;
    int r = 0;

    (void) state;
    memset(bytes, 'x', 65536);
    event_stream_init(&stream, note, &out);
    while (r == 0 && fed < 4 * EVENT_STREAM_BYTES_MAX) {
        r = event_stream_feed(&stream, bytes, 65536, &err);
        fed += 65536;
    }
    assert_int_equal(r, -EMSGSIZE);
    assert_true(fed <= EVENT_STREAM_BYTES_MAX + 65536);
    event_stream_done(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_not_matter_how_the_bytes_are_cut),
        cmocka_unit_test(an_event_that_is_not_complete_is_none),
        cmocka_unit_test(who_is_told_may_end_it),
        cmocka_unit_test(what_is_too_large_is_refused_before_it_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
