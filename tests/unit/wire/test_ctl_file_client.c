#include "fixture.h"

#include "base/clock.h"
#include "wire/ctl_file_client.h"

static char buf[FRAME_PAYLOAD_MAX], other[FRAME_PAYLOAD_MAX];

/* What the supervisor says, before it was asked: the socket keeps it. */
static void say(int sock, const struct ctl_reply *reply, int fd)
{
    struct frame frame;

    assert_int_equal(ctl_reply_encode(reply, other, sizeof(other), &frame), 0);
    if (fd >= 0)
        frame.fds[frame.fd_count++] = fd;
    assert_int_equal(frame_send(sock, &frame, FRAME_NOWAIT), 0);
}

static void say_ok(int sock, uint64_t tag)
{
    say(sock, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = tag }, -1);
}

static void hear(int sock, struct ctl_request *ret, struct frame *frame)
{
    assert_int_equal(frame_receive(sock, other, sizeof(other), FRAME_NOWAIT, frame), 0);
    assert_int_equal(ctl_request_decode(frame, ret), 0);
}

static void a_hold_is_asked_for_filled_and_released(void **state)
{
    struct pair *p = *state;
    struct ctl_request request;
    struct frame frame;
    struct err err = ERR_NONE;
    const char *const paths[] = { "/a", "/b/c" };

    for (uint64_t tag = 1; tag <= 4; tag++)
        say_ok(p->b, tag);
    assert_int_equal(ctl_client_quiesce(p->a, 1, 100, 2000, buf, 60000, &err), 0);
    assert_int_equal(ctl_client_revert(p->a, 2, paths, 2, buf, 60000, &err), 0);
    assert_int_equal(ctl_client_replace(p->a, 3, "/r", p->a, buf, 60000, &err), 0);
    assert_int_equal(ctl_client_release(p->a, 4, buf, 60000, &err), 0);
    hear(p->b, &request, &frame);
    assert_int_equal(request.quiesce.limit_ms, 2000);
    hear(p->b, &request, &frame);
    assert_int_equal(request.revert.paths.count, 2);
    assert_string_equal(ctl_paths_next(&request.revert.paths, request.revert.paths.bytes), "/b/c");
    hear(p->b, &request, &frame);
    assert_int_equal(request.revert.replaces, 1);
    assert_int_equal(frame.fd_count, 1);
    frame_close_fds(&frame);
    hear(p->b, &request, &frame);
    assert_int_equal(request.type, CTL_REQUEST_RELEASE);
}

static void more_paths_than_a_message_holds_are_several(void **state)
{
    enum { COUNT = 20 };
    static char long_path[4000];
    struct pair *p = *state;
    const char *paths[COUNT];
    struct ctl_request request;
    struct frame frame;
    struct err err = ERR_NONE;
    size_t heard = 0;

    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[0] = '/';
    for (size_t i = 0; i < COUNT; i++)
        paths[i] = long_path;
    for (int i = 0; i < 4; i++)
        say_ok(p->b, 1);
    assert_int_equal(ctl_client_revert(p->a, 1, paths, COUNT, buf, 60000, &err), 0);
    while (heard < COUNT) {
        hear(p->b, &request, &frame);
        heard += request.revert.paths.count;
    }
    assert_int_equal(heard, COUNT);
    paths[1] = "";
    assert_int_equal(ctl_client_revert(p->a, 1, paths, 2, buf, 60000, &err), -EINVAL);
}

static void a_file_and_its_pipe_come_together(void **state)
{
    const struct ctl_reply file = { .type = CTL_REPLY_FILE,
                                    .tag = 5,
                                    .file = { .kind = CTL_FILE_REGULAR, .size = 3, .text = "" } };
    struct pair *p = *state;
    struct ctl_reply reply;
    struct ctl_file got;
    struct err err = ERR_NONE;
    char text[4] = "";
    int ends[2], from;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    say(p->b, &file, ends[0]);
    say_ok(p->b, 5);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(ctl_client_file_read(p->a, 5, "x", 0, 0, &got, &from, buf, 60000, &err), 0);
    assert_int_equal(got.size, 3);
    assert_int_equal(read(from, text, 4), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(ctl_client_await(p->a, 5, &reply, buf, 60000, &err), 0);
    assert_int_equal(reply.type, CTL_REPLY_OK);
    close(from);
}

static void answers_of_another_kind_are_refused_and_their_descriptors_closed(void **state)
{
    const struct ctl_reply file = { .type = CTL_REPLY_FILE, .tag = 1, .file = { .kind = CTL_FILE_REGULAR, .text = "" } };
    const struct ctl_reply listing = { .type = CTL_REPLY_LISTING, .tag = 1 };
    struct pair *p = *state;
    struct ctl_listing names;
    struct ctl_file got;
    struct err err = ERR_NONE;
    int fd = -1, before = dup(0);

    close(before);
    say(p->b, &file, -1); /* without its pipe */
    assert_int_equal(ctl_client_file_read(p->a, 1, "x", 0, 0, &got, &fd, buf, 60000, &err), -EPROTO);
    say(p->b, &file, p->a); /* with one that nobody wants */
    assert_int_equal(ctl_client_file_stat(p->a, 1, "x", &got, buf, 60000, &err), -EPROTO);
    say(p->b, &file, -1);
    assert_int_equal(ctl_client_file_list(p->a, 1, ".", NULL, &names, buf, 60000, &err), -EPROTO);
    say(p->b, &listing, -1);
    assert_int_equal(ctl_client_file_mkdir(p->a, 1, "x", 0, 0755, buf, 60000, &err), -EPROTO);
    say_ok(p->b, 1);
    assert_int_equal(ctl_client_file_stat(p->a, 1, "x", &got, buf, 60000, &err), -EPROTO);
    assert_int_equal(fd, -1);
    int after = dup(0);
    assert_int_equal(before, after);
    close(after);
    /* What was never sent. */
    assert_int_equal(ctl_client_file_stat(p->a, 1, "", &got, buf, 60000, &err), -EINVAL);
    assert_int_equal(ctl_client_file_remove(p->a, 1, "x", CTL_FILE_PARENTS, buf, 60000, &err), -EINVAL);
    assert_int_equal(ctl_client_file_write(p->a, 1, "x", 0, 04755, 1, p->a, buf, 60000, &err), -EINVAL);
    assert_int_equal(ctl_client_quiesce(p->a, 1, 1, 0, buf, 60000, &err), -EINVAL);
}

static void a_listing_is_in_order_and_each_name_comes_once(void **state)
{
    static uint8_t bytes[CTL_LISTING_BYTES_MAX];
    struct ctl_listing names = { 0 };
    struct ctl_file file = { .kind = CTL_FILE_REGULAR, .text = "b" }, got;
    struct ctl_reply reply = { .type = CTL_REPLY_LISTING, .tag = 1 };
    struct frame frame;
    size_t at = 0;

    (void) state;
    assert_true(ctl_listing_add(&names, bytes, &file));
    file.text = "a";
    assert_true(ctl_listing_add(&names, bytes, &file));
    reply.listing = names;
    assert_int_equal(ctl_reply_encode(&reply, buf, sizeof(buf), &frame), -EINVAL);
    assert_true(ctl_listing_next(&names, &at, &got));
    assert_string_equal(got.text, "b");
    assert_true(ctl_listing_next(&names, &at, &got));
    assert_false(ctl_listing_next(&names, &at, &got));
    file.text = "x/y";
    assert_false(ctl_listing_next(&(struct ctl_listing){ 0, 1, 3, (const uint8_t *) "\1\1\1" }, &(size_t){ 0 }, &got));
    names = (struct ctl_listing){ 0 };
    file.text = "name";
    while (ctl_listing_add(&names, bytes, &file))
        continue;
    assert_true(names.len <= CTL_LISTING_BYTES_MAX && names.len > CTL_LISTING_BYTES_MAX - 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        pair_test(a_hold_is_asked_for_filled_and_released),
        pair_test(more_paths_than_a_message_holds_are_several),
        pair_test(a_file_and_its_pipe_come_together),
        pair_test(answers_of_another_kind_are_refused_and_their_descriptors_closed),
        cmocka_unit_test(a_listing_is_in_order_and_each_name_comes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
