#include "fixture.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/file.h"
#include "wire/ctl_client.h"

static char buf[FRAME_PAYLOAD_MAX], other[FRAME_PAYLOAD_MAX];

static const struct ctl_request ask_status = { .type = CTL_REQUEST_STATUS, .tag = 7 };

/* What the supervisor says, before it was asked: the socket keeps it. */
static void say(int sock, const struct ctl_reply *reply, int fd)
{
    struct frame frame;

    assert_int_equal(ctl_reply_encode(reply, other, sizeof(other), &frame), 0);
    if (fd >= 0)
        frame.fds[frame.fd_count++] = fd;
    assert_int_equal(frame_send(sock, &frame, FRAME_NOWAIT), 0);
}

static void say_hello(int sock)
{
    const struct ctl_reply hello = { .type = CTL_REPLY_HELLO,
                                     .hello = { .version = CTL_PROTO_VERSION, .state = CTL_STATE_RUNNING, .name = "x" } };

    say(sock, &hello, -1);
}

static void say_ok(int sock, uint64_t tag, const char *name)
{
    struct ctl_reply ok = { .type = CTL_REPLY_OK, .tag = tag };

    strcpy(ok.ok.name, name);
    say(sock, &ok, -1);
}

static void an_answer_is_found_among_other_replies(void **state)
{
    const struct ctl_reply changed = { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_STOPPING } };
    const struct ctl_reply started = { .type = CTL_REPLY_STARTED, .tag = 7, .started = { .name = "e" } };
    const struct ctl_reply error = { .type = CTL_REPLY_ERROR, .tag = 3, .error = { .code = ERR_NOT_FOUND } };
    const struct ctl_reply status = { .type = CTL_REPLY_STATUS, .tag = 7, .status = { .state = CTL_STATE_RUNNING, .pid = 9 } };
    struct pair *p = *state;
    struct ctl_request request;
    struct ctl_reply got;
    struct frame frame;
    struct err err = ERR_NONE;

    say_hello(p->b);
    say(p->b, &changed, -1);
    say(p->b, &started, p->a); /* its descriptor is closed */
    say(p->b, &error, -1);
    say_ok(p->b, 8, "");
    say(p->b, &status, -1);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 60000, &err), 0);
    assert_int_equal(got.type, CTL_REPLY_STATUS);
    assert_true(got.status.pid == 9 && err.code == ERR_OK);
    assert_int_equal(frame_receive(p->b, other, sizeof(other), FRAME_NOWAIT, &frame), 0);
    assert_int_equal(ctl_request_decode(&frame, &request), 0);
    assert_true(request.type == CTL_REQUEST_STATUS && request.tag == 7);
}

static void a_descriptor_goes_with_the_request(void **state)
{
    const struct ctl_request set_rules = { .type = CTL_REQUEST_SET_RULES, .tag = 1 };
    struct pair *p = *state;
    struct ctl_request request;
    struct ctl_reply got;
    struct frame frame;

    say_ok(p->b, 1, "s");
    assert_int_equal(ctl_client_call(p->a, &set_rules, p->a, &got, buf, -1, NULL), 0);
    assert_int_equal(got.type, CTL_REPLY_OK);
    assert_string_equal(got.ok.name, "s");
    assert_int_equal(frame_receive(p->b, other, sizeof(other), FRAME_NOWAIT, &frame), 0);
    assert_int_equal(ctl_request_decode(&frame, &request), 0);
    assert_int_equal(frame.fd_count, 1);
    frame_close_fds(&frame);
}

static void hear(struct pair *p, struct ctl_request *ret)
{
    struct frame frame;

    assert_int_equal(frame_receive(p->b, other, sizeof(other), FRAME_NOWAIT, &frame), 0);
    assert_int_equal(ctl_request_decode(&frame, ret), 0);
}

static void a_sync_brings_its_version(void **state)
{
    const struct ctl_reply synced = { .type = CTL_REPLY_SYNCED,
                                      .tag = 5,
                                      .synced = { .version = 12,
                                                  .change_count = 9,
                                                  .conflict_count = 1,
                                                  .changes = { .count = 2, .len = 6, .bytes = "/a\0/b" },
                                                  .conflicts = { .count = 1, .len = 4, .bytes = "-/a" } } };
    struct pair *p = *state;
    struct ctl_request request;
    struct ctl_synced got;
    struct err err = ERR_NONE;
    const char *path = NULL;

    say_hello(p->b);
    say(p->b, &synced, -1);
    assert_int_equal(ctl_client_sync(p->a, 5, "exec-1", &got, buf, 60000, &err), 0);
    assert_true(got.version == 12 && got.change_count == 9 && got.conflict_count == 1);
    path = ctl_paths_next(&got.changes, path);
    assert_string_equal(path, "/a");
    path = ctl_paths_next(&got.changes, path);
    assert_string_equal(path, "/b");
    assert_null(ctl_paths_next(&got.changes, path));
    assert_string_equal(ctl_paths_next(&got.conflicts, NULL), "-/a");
    hear(p, &request);
    assert_int_equal(request.type, CTL_REQUEST_SYNC);
    assert_string_equal(request.sync.by, "exec-1");
    /* Of a sandbox without a codebase. */
    say_ok(p->b, 6, "");
    assert_int_equal(ctl_client_sync(p->a, 6, NULL, &got, buf, 60000, &err), 0);
    assert_true(got.version == 0 && !ctl_paths_next(&got.changes, NULL));
}

/* More than a message holds is everything, never a part. */
static void word_of_too_many_changes_is_word_of_all(void **state)
{
    static char long_path[4000];
    const char *some[] = { "/a", "/b/c" }, *many[20];
    struct pair *p = *state;
    struct ctl_request request;
    struct err err = ERR_NONE;

    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[0] = '/';
    for (size_t i = 0; i < count_of(many); i++)
        many[i] = long_path;
    say_ok(p->b, 5, "");
    assert_int_equal(ctl_client_base_changed(p->a, 5, some, 2, buf, 60000, &err), 0);
    hear(p, &request);
    assert_int_equal(request.base_changed.count, 2);
    assert_string_equal(ctl_paths_next(&request.base_changed, ctl_paths_next(&request.base_changed, NULL)), "/b/c");
    say_ok(p->b, 6, "");
    assert_int_equal(ctl_client_base_changed(p->a, 6, many, count_of(many), buf, 60000, &err), 0);
    hear(p, &request);
    assert_true(request.type == CTL_REQUEST_BASE_CHANGED && request.base_changed.count == 0);
}

static void an_error_is_told_as_the_supervisor_put_it(void **state)
{
    const struct ctl_reply error = { .type = CTL_REPLY_ERROR,
                                     .tag = 7,
                                     .error = { .code = ERR_ALREADY_EXISTS, .text = "100%s taken" } };
    struct ctl_reply got = { .tag = 99 };
    struct pair *p = *state;
    struct err err = ERR_NONE;

    say(p->b, &error, -1);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 60000, &err), -EREMOTEIO);
    assert_int_equal(err.code, ERR_ALREADY_EXISTS);
    assert_string_equal(err.text, "100%s taken");
    assert_true(got.tag == 99);
}

static void a_supervisor_of_another_release_is_recognised(void **state)
{
    const struct ctl_reply hello = { .type = CTL_REPLY_HELLO,
                                     .hello = { .version = CTL_PROTO_VERSION + 1, .state = CTL_STATE_RUNNING } };
    struct pair *p = *state;
    struct ctl_reply got;
    struct err err = ERR_NONE;

    say(p->b, &hello, -1);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 60000, &err), -EPROTONOSUPPORT);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "another release"));
}

static void silence_ends_with_the_timeout(void **state)
{
    int64_t began_ns = clock_now_ns();
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;
    struct err err = ERR_NONE;

    assert_int_equal(ctl_client_receive(p->a, buf, 0, &frame, &got), -ETIMEDOUT);
    assert_int_equal(ctl_client_receive(p->a, buf, 20, &frame, &got), -ETIMEDOUT);
    say_hello(p->b);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 20, &err), -ETIMEDOUT);
    assert_int_equal(err.code, ERR_DEADLINE_EXCEEDED);
    assert_true(clock_now_ns() - began_ns >= 40 * CLOCK_NS_PER_MS);
}

static void on_alarm(int number)
{
    (void) number;
}

static void signals_do_not_end_the_waiting(void **state)
{
    const struct sigaction action = { .sa_handler = on_alarm };
    const struct itimerval often = { .it_interval = { .tv_usec = 1000 }, .it_value = { .tv_usec = 1000 } }, never = { 0 };
    int64_t began_ns = clock_now_ns();
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(ctl_client_receive(p->a, buf, 30, &frame, &got), -ETIMEDOUT);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_true(clock_now_ns() - began_ns >= 30 * CLOCK_NS_PER_MS);
}

static void the_end_of_the_connection_is_told(void **state)
{
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;
    struct err err = ERR_NONE;

    say_hello(p->b);
    close(p->b);
    p->b = -1;
    assert_int_equal(ctl_client_receive(p->a, buf, 60000, &frame, &got), 0);
    assert_int_equal(got.type, CTL_REPLY_HELLO);
    assert_int_equal(ctl_client_receive(p->a, buf, 60000, &frame, &got), -ECONNRESET);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 60000, &err), -ECONNRESET);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.text, "the sandbox's supervisor has hung up");
}

static void what_is_no_reply_is_refused(void **state)
{
    const struct frame request = { .type = CTL_REQUEST_STATUS, .id = 7, .fd_count = 1, .fds = { 0 } };
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;
    struct err err = ERR_NONE;

    frame_send(p->b, &request, FRAME_NOWAIT);
    assert_int_equal(ctl_client_receive(p->a, buf, 60000, &frame, &got), -EPROTO);
    send_raw(p->b, "x", 1, 0, -1);
    assert_int_equal(ctl_client_call(p->a, &ask_status, -1, &got, buf, 60000, &err), -EPROTO);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_true(err.text[0] != '\0');
}

static void a_request_that_cannot_be_made_is_not_sent(void **state)
{
    const struct ctl_request bad[] = { { .type = CTL_REQUEST_STATUS },
                                       { .type = CTL_REQUEST_EXEC, .tag = 1 },
                                       { .type = CTL_REQUEST_SESSION_CLOSE, .tag = 1 } };
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;

    for (size_t i = 0; i < count_of(bad); i++) {
        struct err err = ERR_NONE;

        assert_int_equal(ctl_client_call(p->a, &bad[i], -1, &got, buf, 60000, &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(frame_receive(p->b, other, sizeof(other), FRAME_NOWAIT, &frame), -EAGAIN);
}

static void a_supervisor_that_does_not_read_is_not_waited_for(void **state)
{
    const struct frame large = { .type = 1, .id = 1, .payload = other, .len = sizeof(other) };
    struct pair *p = *state;
    struct err err = ERR_NONE;
    int r = 0;

    for (int i = 0; i < 1000 && r == 0; i++)
        r = ctl_client_send(p->a, &large, 20, &err);
    assert_int_equal(r, -ETIMEDOUT);
    assert_int_equal(err.code, ERR_DEADLINE_EXCEEDED);
}

static void the_terminal_comes_with_its_frame(void **state)
{
    const struct ctl_reply started = { .type = CTL_REPLY_STARTED, .tag = 1, .started = { .name = "e", .pid = 2 } };
    struct pair *p = *state;
    struct ctl_reply got;
    struct frame frame;

    say(p->b, &started, 0);
    assert_int_equal(ctl_client_receive(p->a, buf, 60000, &frame, &got), 0);
    assert_true(frame.fd_count == 1 && frame.fds[0] > 2);
    frame_close_fds(&frame);
}

/* A directory whose path is longer than an address has room for. */
struct place {
    char root[32];
    int root_fd, fd;
    int fds_before;
};

static int place_setup(void **state)
{
    static const char deep[] = "a-name-of-sixty-bytes-or-so-that-nobody-would-like-to-type/"
                               "another-name-of-sixty-bytes-that-nobody-would-like-to-type-";
    struct place *place = calloc(1, sizeof(*place));

    place->fds_before = count_fds();
    strcpy(place->root, "/tmp/agentfense-XXXXXX");
    if (!mkdtemp(place->root))
        return -1;
    place->root_fd = open(place->root, O_DIRECTORY | O_CLOEXEC);
    mkdirat(place->root_fd, "a-name-of-sixty-bytes-or-so-that-nobody-would-like-to-type", 0700);
    mkdirat(place->root_fd, deep, 0700);
    place->fd = openat(place->root_fd, deep, O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->fd < 0 ? -1 : 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;
    int before = place->fds_before, tmp = open("/tmp", O_DIRECTORY | O_CLOEXEC), r;

    close(place->fd);
    close(place->root_fd);
    r = file_remove_tree(tmp, place->root + strlen("/tmp/"));
    close(tmp);
    free(place);
    return r == 0 && count_fds() == before ? 0 : -1;
}

static int listen_at(int dir_fd, const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
    assert_int_equal(bind(fd, (const struct sockaddr *) &address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void the_socket_is_found_at_the_end_of_a_long_path(void **state)
{
    struct place *place = *state;
    autofd int listener = listen_at(place->fd, "ctl"), served = -1, fd = -1;
    struct ctl_reply got;
    struct err err = ERR_NONE;

    assert_int_equal(ctl_client_connect(place->fd, &fd, &err), 0);
    served = accept(listener, NULL, NULL);
    assert_true(fd >= 0 && served >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    say_hello(served);
    say_ok(served, 7, "");
    assert_int_equal(ctl_client_call(fd, &ask_status, -1, &got, buf, 60000, &err), 0);
}

static void refused(const struct place *place, int expected, enum err_code code, const char *text)
{
    struct err err = ERR_NONE;
    int fd = -7;

    assert_int_equal(ctl_client_connect(place->fd, &fd, &err), expected);
    assert_int_equal(fd, -7);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, text));
}

static void a_sandbox_that_is_not_running_is_told_so(void **state)
{
    struct place *place = *state;

    refused(place, -ENOENT, ERR_FAILED_PRECONDITION, "sandbox is not running");
    close(listen_at(place->fd, "ctl")); /* its supervisor died: the name is left */
    refused(place, -ECONNREFUSED, ERR_FAILED_PRECONDITION, "sandbox is not running");
}

static void a_symlink_is_not_followed(void **state)
{
    struct place *place = *state;
    autofd int listener = listen_at(place->fd, "elsewhere");

    assert_true(listener >= 0);
    assert_int_equal(symlinkat("elsewhere", place->fd, "ctl"), 0);
    refused(place, -ENOTSOCK, ERR_INTERNAL, "not a socket");
}

static void a_file_is_not_connected_to(void **state)
{
    struct place *place = *state;

    close(openat(place->fd, "ctl", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    refused(place, -ENOTSOCK, ERR_INTERNAL, "not a socket");
}

#define place_test(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pair_test(an_answer_is_found_among_other_replies),
        pair_test(a_descriptor_goes_with_the_request),
        pair_test(a_sync_brings_its_version),
        pair_test(word_of_too_many_changes_is_word_of_all),
        pair_test(an_error_is_told_as_the_supervisor_put_it),
        pair_test(a_supervisor_of_another_release_is_recognised),
        pair_test(silence_ends_with_the_timeout),
        pair_test(signals_do_not_end_the_waiting),
        pair_test(the_end_of_the_connection_is_told),
        pair_test(what_is_no_reply_is_refused),
        pair_test(a_request_that_cannot_be_made_is_not_sent),
        pair_test(a_supervisor_that_does_not_read_is_not_waited_for),
        pair_test(the_terminal_comes_with_its_frame),
        place_test(the_socket_is_found_at_the_end_of_a_long_path),
        place_test(a_sandbox_that_is_not_running_is_told_so),
        place_test(a_symlink_is_not_followed),
        place_test(a_file_is_not_connected_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
