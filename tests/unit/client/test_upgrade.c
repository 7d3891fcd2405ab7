/* How a WebSocket begins: the request, and answers that are none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/upgrade.h"

/* Of the RFC. */
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define SWITCH                                                                                                                 \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n"                            \
    "Sec-WebSocket-Accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n"

static int read_text(const char *text, struct upgrade_answer *ret)
{
    struct err err = ERR_NONE;

    return upgrade_read(text, strlen(text), KEY, ret, &err);
}

static void a_request_names_all(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;
    char key[UPGRADE_KEY_MAX], other[UPGRADE_KEY_MAX], line[100];

    (void) state;
    assert_int_equal(upgrade_add_request(&out, "host:80", "/a?b=c", "secret", key, &err), 0);
    assert_int_equal(strlen(key), 24);
    snprintf(line, sizeof(line), "\r\nSec-WebSocket-Key: %s\r\n", key);
    assert_true(strncmp(out.data, "GET /a?b=c HTTP/1.1\r\nHost: host:80\r\n", 36) == 0);
    assert_non_null(strstr(out.data, line));
    assert_non_null(strstr(out.data, "\r\nAuthorization: Bearer secret\r\n"));
    assert_string_equal(out.data + out.len - 4, "\r\n\r\n");
    buf_clear(&out);
    assert_int_equal(upgrade_add_request(&out, "host", "/", NULL, other, &err), 0);
    assert_null(strstr(out.data, "Authorization"));
    assert_string_not_equal(key, other);
}

static void an_answer_is_read_when_it_is_whole(void **state)
{
    static const char text[] = SWITCH "\r\n\x81\x02{}";
    struct upgrade_answer answer = { 0 };
    struct err err = ERR_NONE;

    (void) state;
    for (size_t len = 0; len < strlen(SWITCH) + 2; len++)
        assert_int_equal(upgrade_read(text, len, KEY, &answer, &err), 0);
    assert_int_equal(upgrade_read(text, strlen(text), KEY, &answer, &err), 1);
    assert_int_equal(answer.status, 101);
    assert_string_equal(text + answer.head_len, "\x81\x02{}");
}

static void a_refusal_tells_how_long_it_is(void **state)
{
    struct upgrade_answer answer = { 0 };

    (void) state;
    assert_int_equal(read_text("HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n{}", &answer), 1);
    assert_int_equal(answer.status, 404);
    assert_int_equal(answer.content_bytes, 12);
    assert_int_equal(read_text("HTTP/1.0 500 x\r\nContent-Length: 12x\r\n\r\n", &answer), 1);
    assert_int_equal(answer.content_bytes, -1);
    assert_int_equal(read_text("HTTP/1.1 500\r\nContent-Length: 99999999999999999999\r\n\r\n", &answer), 1);
    assert_int_equal(answer.content_bytes, -1);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const char *const bad[] = {
        "SSH-2.0-x\r\n",
        "HTTP/2.0 101 x\r\n\r\n",
        "HTTP/1.1 abc x\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 101 x\r\n\r\n",
        "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n",
        SWITCH "Sec-WebSocket-Accept: again\r\n\r\n",
        SWITCH "Sec-WebSocket-Protocol: chat\r\n\r\n",
        SWITCH "Sec-WebSocket-Extensions: deflate\r\n\r\n",
        SWITCH "Upgrade: h2c\r\n\r\n",
    };
    struct upgrade_answer answer = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(read_text(bad[i], &answer), -EPROTO);
}

static void headers_without_an_end_are_refused(void **state)
{
    static char text[UPGRADE_HEAD_MAX + 1] = "HTTP/1.1 200 OK\r\n";
    struct upgrade_answer answer = { 0 };

    (void) state;
    memset(text + strlen(text), 'x', UPGRADE_HEAD_MAX - strlen(text));
    assert_int_equal(read_text(text, &answer), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_names_all),
        cmocka_unit_test(an_answer_is_read_when_it_is_whole),
        cmocka_unit_test(a_refusal_tells_how_long_it_is),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(headers_without_an_end_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
