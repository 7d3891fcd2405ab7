#include "container_fixture.h"

#include "container/image.h"

static void paths_to_fetch_by(void **state)
{
    static const char *const cases[][2] = {
        { "debian", "/images/create?fromImage=debian&tag=latest" },
        { "debian:12", "/images/create?fromImage=debian&tag=12" },
        { "host:5000/a/b", "/images/create?fromImage=host%3A5000%2Fa%2Fb&tag=latest" },
        { "host:5000/a:x", "/images/create?fromImage=host%3A5000%2Fa&tag=x" },
        { "a@sha256:01", "/images/create?fromImage=a%40sha256%3A01" },
        { "a:1@sha256:01", "/images/create?fromImage=a%3A1%40sha256%3A01" },
    };

    (void) state;
    for (size_t i = 0; i < count_of(cases); i++) {
        autodone(buf) struct buf path = BUF_EMPTY;

        image_pull_path(cases[i][0], &path);
        assert_string_equal(path.data, cases[i][1]);
    }
}

static void ignore(const char *text, void *cookie)
{
    (void) text;
    ++*(int *) cookie;
}

static int require(const char *reply, bool may_pull, int *told, struct err *err)
{
    autoptr(engine) engine = NULL;
    struct fake_engine fake;
    int r;

    fake_engine_start(&fake, reply, strlen(reply));
    assert_int_equal(engine_new(fake.path, -1, &engine, err), 0);
    r = image_require(engine, "x:1", may_pull, ignore, told, err);
    fake_engine_stop(&fake);
    return r;
}

static void one_that_is_here_is_not_fetched(void **state)
{
    struct err err = ERR_NONE;
    int told = 0;

    (void) state;
    assert_int_equal(require("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true, &told, &err), 0);
    assert_int_equal(told, 0);
}

static void one_that_is_not_here_is_fetched_unless_that_is_switched_off(void **state)
{
    static const char missing[] = "HTTP/1.1 404 No\r\nContent-Length: 25\r\n\r\n{\"message\":\"pull denied\"}";
    struct err err = ERR_NONE;
    int told = 0;

    (void) state;
    assert_int_equal(require(missing, false, &told, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text,
                        "there is no image 'x:1' here, and fetching images is switched off: 'docker pull x:1' on this "
                        "host, or set runtime.docker.pull");
    assert_int_equal(told, 0);
    assert_int_equal(require(missing, true, &told, &err), -ENOENT);
    assert_string_equal(
        err.text, "there is no image 'x:1' here, and it cannot be fetched: the engine says: pull denied; if it is not for "
                  "everybody, use 'docker login' and 'docker pull' on this host first");
    assert_int_equal(told, 1);
}

/* An engine that has not got the image, and answers so when it is asked to fetch it. */
static int fetch(const char *reply, struct err *err)
{
    static const char missing[] = "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}";
    autoptr(engine) engine = NULL;
    struct fake_engine fake;
    int r, told = 0;

    fake_engine_start(&fake, missing, strlen(missing));
    fake.later = reply;
    assert_int_equal(engine_new(fake.path, -1, &engine, err), 0);
    r = image_require(engine, "x:1", true, ignore, &told, err);
    fake_engine_stop(&fake);
    return r;
}

static void what_a_registry_says_is_no_fault_of_ours(void **state)
{
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(fetch("HTTP/1.1 500 No\r\nContent-Length: 30\r\n\r\n{\"message\":\"manifest unknown\"}", &err), -EIO);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_string_equal(err.text, "there is no image 'x:1' here, and it cannot be fetched: the engine says: manifest unknown");
    assert_int_equal(fetch("HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Pulling\"}\n{\"error\":\"unexpected EOF\"}\n", &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "there is no image 'x:1' here, and it cannot be fetched: unexpected EOF");
    assert_int_equal(fetch("HTTP/1.1 200 OK\r\n\r\n{\"error\":\"Unauthorized: who are you?\"}\n", &err), -ENOENT);
    assert_non_null(strstr(err.text, "'docker login'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_to_fetch_by),
        cmocka_unit_test(one_that_is_here_is_not_fetched),
        cmocka_unit_test(one_that_is_not_here_is_fetched_unless_that_is_switched_off),
        cmocka_unit_test(what_a_registry_says_is_no_fault_of_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
