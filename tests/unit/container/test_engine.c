#include "container_fixture.h"

static int ask_at(const char *path, int stop_fd, const struct engine_request *question, struct engine_response *response,
                  struct err *err)
{
    autoptr(engine) engine = NULL;

    assert_int_equal(engine_new(path, stop_fd, &engine, err), 0);
    return engine_send(engine, question, response, err);
}

static const struct engine_request get = { .method = "GET", .path = "/info", .timeout_ms = 60000 };

static void an_answer_is_kept_with_its_status(void **state)
{
    static const char reply[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\n\r\n{\"message\":\"x\"}";
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct fake_engine fake;
    struct err err = ERR_NONE;

    (void) state;
    fake_engine_start(&fake, reply, sizeof(reply) - 1);
    buf_add_str(&response.body, "what was there before");
    assert_int_equal(ask_at(fake.path, -1, &get, &response, &err), 0);
    assert_int_equal(response.status, 404);
    assert_string_equal(response.body.data, "{\"message\":\"x\"}");
    assert_non_null(strstr(fake.request, "GET /info HTTP/1.1\r\n"));
    fake_engine_stop(&fake);
}

static void a_body_is_sent_as_json(void **state)
{
    static const char reply[] = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
    const struct engine_request post = { .method = "POST", .path = "/x?y=1", .body = "{\"a\":1}", .timeout_ms = 60000 };
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct fake_engine fake;

    (void) state;
    fake_engine_start(&fake, reply, sizeof(reply) - 1);
    assert_int_equal(ask_at(fake.path, -1, &post, &response, NULL), 0);
    assert_int_equal(response.status, 201);
    assert_non_null(strstr(fake.request, "POST /x?y=1 HTTP/1.1\r\n"));
    assert_non_null(strstr(fake.request, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(fake.request, "\r\n\r\n{\"a\":1}"));
    fake_engine_stop(&fake);
}

static void no_engine_is_said_with_its_socket(void **state)
{
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(ask_at("/nowhere/docker.sock", -1, &get, &response, &err), -ENOTCONN);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_string_equal(err.text,
                        "no Docker engine answers at '/nowhere/docker.sock' (No such file or directory); start it, or "
                        "name another");
}

static void what_is_no_http_is_an_error(void **state)
{
    static const char *const replies[] = { "", "hello\n", "HTTP/1.1 ", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
                                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" };

    (void) state;
    for (size_t i = 0; i < count_of(replies); i++) {
        autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
        struct fake_engine fake;
        struct err err = ERR_NONE;

        fake_engine_start(&fake, replies[i], strlen(replies[i]));
        assert_true(ask_at(fake.path, -1, &get, &response, &err) < 0);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_printable(err.text);
        fake_engine_stop(&fake);
    }
}

/* Without a length, and without an end. */
static void an_answer_without_end_is_not_kept(void **state)
{
    autofree char *reply = xalloc(1 << 20);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct fake_engine fake;
    struct err err = ERR_NONE;

    (void) state;
    memset(reply, ' ', 1 << 20);
    memcpy(reply, "HTTP/1.0 200 OK\r\n\r\n", 19);
    fake_engine_start(&fake, reply, 1 << 20);
    fake.repeats = 100;
    assert_int_equal(ask_at(fake.path, -1, &get, &response, &err), -EMSGSIZE);
    assert_true(response.body.len <= ENGINE_RESPONSE_MAX);
    fake_engine_stop(&fake);
}

static int count_pieces(const void *bytes, size_t len, void *cookie)
{
    (void) bytes;
    *(size_t *) cookie += len;
    return *(size_t *) cookie > 8 ? -EFBIG : 0;
}

static void pieces_are_handed_on_and_may_be_refused(void **state)
{
    static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
    static const char more[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nabcdefghijkl";
    static const char bad[] = "HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nabcd";
    size_t seen = 0;
    const struct engine_request question = {
        .method = "POST", .path = "/", .silence_ms = 60000, .piece = count_pieces, .cookie = &seen
    };
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct fake_engine fake;

    (void) state;
    fake_engine_start(&fake, good, sizeof(good) - 1);
    assert_int_equal(ask_at(fake.path, -1, &question, &response, NULL), 0);
    assert_true(seen == 4 && response.body.len == 0);
    fake_engine_stop(&fake);
    fake_engine_start(&fake, bad, sizeof(bad) - 1);
    assert_int_equal(ask_at(fake.path, -1, &question, &response, NULL), 0);
    assert_true(seen == 4 && response.status == 500 && response.body.len == 4);
    fake_engine_stop(&fake);
    fake_engine_start(&fake, more, sizeof(more) - 1);
    assert_int_equal(ask_at(fake.path, -1, &question, &response, NULL), -EFBIG);
    fake_engine_stop(&fake);
}

/* Readable as soon as the engine has been asked. */
static int stop_when_asked(struct fake_engine *fake)
{
    fake->asked_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(fake->asked_fd >= 0);
    return fake->asked_fd;
}

static void being_told_to_stop_ends_it(void **state)
{
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    struct fake_engine fake;
    struct err err = ERR_NONE;

    (void) state;
    fake_engine_start(&fake, "", 0);
    fake.hangs = true;
    autofd int stop_fd = stop_when_asked(&fake);
    assert_int_equal(ask_at(fake.path, stop_fd, &get, &response, &err), -ECANCELED);
    fake_engine_stop(&fake);
}

static void told_to_stop_before_it_asks_nothing(void **state)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    struct engine_request question = get;
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autofd int stop_fd = eventfd(1, EFD_CLOEXEC);
    struct fake_engine fake;

    (void) state;
    question.finish_ms = 60000;
    fake_engine_start(&fake, reply, sizeof(reply) - 1);
    assert_int_equal(ask_at(fake.path, stop_fd, &question, &response, NULL), -ECANCELED);
    fake_engine_stop(&fake);
    assert_string_equal(fake.request, "");
}

static void what_makes_something_is_waited_for(void **state)
{
    static const char reply[] = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
    struct engine_request question = get;
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autofd int first_fd = -1, second_fd = -1;
    struct fake_engine fake;

    (void) state;
    question.finish_ms = 60000;
    fake_engine_start(&fake, reply, sizeof(reply) - 1);
    fake.delay_ms = 300;
    first_fd = stop_when_asked(&fake);
    assert_int_equal(ask_at(fake.path, first_fd, &question, &response, NULL), 0);
    assert_int_equal(response.status, 201);
    fake_engine_stop(&fake);
    question.finish_ms = 100;
    fake_engine_start(&fake, "", 0);
    fake.hangs = true;
    second_fd = stop_when_asked(&fake);
    assert_int_equal(ask_at(fake.path, second_fd, &question, &response, NULL), -ECANCELED);
    fake_engine_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_kept_with_its_status),  cmocka_unit_test(a_body_is_sent_as_json),
        cmocka_unit_test(no_engine_is_said_with_its_socket),  cmocka_unit_test(what_is_no_http_is_an_error),
        cmocka_unit_test(an_answer_without_end_is_not_kept),  cmocka_unit_test(pieces_are_handed_on_and_may_be_refused),
        cmocka_unit_test(being_told_to_stop_ends_it),         cmocka_unit_test(told_to_stop_before_it_asks_nothing),
        cmocka_unit_test(what_makes_something_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
