#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static char buf[FRAME_PAYLOAD_MAX];

static int receive(const struct pair *p, struct frame *ret)
{
    return frame_receive(p->b, buf, sizeof(buf), FRAME_NOWAIT, ret);
}

static void a_frame_arrives_as_it_was_sent(void **state)
{
    struct pair *p = *state;
    struct frame sent = { .id = UINT64_MAX - 1, .type = 65535, .payload = "payload", .len = 7 }, got;

    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
    assert_int_equal(receive(p, &got), 0);
    assert_true(got.id == sent.id && got.type == sent.type && got.len == 7 && got.fd_count == 0);
    assert_memory_equal(got.payload, "payload", 7);
    assert_ptr_equal(got.payload, buf);
}

static void sizes_from_nothing_to_the_maximum(void **state)
{
    static char payload[FRAME_PAYLOAD_MAX + 1];
    const size_t sizes[] = { 0, 1, 4095, FRAME_PAYLOAD_MAX - 1, FRAME_PAYLOAD_MAX };
    struct pair *p = *state;
    struct frame got;

    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (char) (i * 7);
    for (size_t i = 0; i < count_of(sizes); i++) {
        struct frame sent = { .id = i, .type = 1, .payload = payload, .len = sizes[i] };

        assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
        assert_int_equal(receive(p, &got), 0);
        assert_int_equal(got.len, sizes[i]);
        assert_memory_equal(got.payload, payload, sizes[i]);
    }
    struct frame large = { .payload = payload, .len = sizeof(payload) };
    assert_int_equal(frame_send(p->a, &large, FRAME_NOWAIT), -EMSGSIZE);
    assert_int_equal(receive(p, &got), -EAGAIN);
}

static bool same_file(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void descriptors_come_along(void **state)
{
    struct pair *p = *state;
    struct frame sent = { .type = 1, .fd_count = FRAME_FDS_MAX }, got;

    for (size_t i = 0; i < FRAME_FDS_MAX; i++)
        sent.fds[i] = i % 2 ? p->a : p->b;
    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
    assert_int_equal(receive(p, &got), 0);
    assert_int_equal(got.fd_count, FRAME_FDS_MAX);
    for (size_t i = 0; i < FRAME_FDS_MAX; i++) {
        assert_true(same_file(got.fds[i], sent.fds[i]));
        assert_int_equal(fcntl(got.fds[i], F_GETFD), FD_CLOEXEC);
    }
    int taken = frame_take_fd(&got, 3);
    assert_int_equal(frame_take_fd(&got, 3), -1);
    assert_int_equal(frame_take_fd(&got, FRAME_FDS_MAX), -1);
    frame_close_fds(&got);
    assert_true(same_file(taken, p->a));
    close(taken);
    sent.fd_count = FRAME_FDS_MAX + 1;
    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), -EMSGSIZE);
}

static void a_payload_larger_than_the_buffer_is_refused(void **state)
{
    struct pair *p = *state;
    char small[8];
    struct frame sent = { .type = 1, .payload = "123456789", .len = 9, .fd_count = 2, .fds = { p->a, p->b } };
    struct frame got = { .id = 99 };
    int before = count_fds();

    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
    assert_int_equal(frame_receive(p->b, small, sizeof(small), FRAME_NOWAIT, &got), -EMSGSIZE);
    assert_int_equal(count_fds(), before);
    assert_int_equal(got.id, 99);
    /* And the next one is read as if nothing had been. */
    sent.len = 8;
    sent.fd_count = 0;
    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
    assert_int_equal(frame_receive(p->b, small, sizeof(small), FRAME_NOWAIT, &got), 0);
    assert_memory_equal(got.payload, "12345678", 8);
}

static void a_packet_larger_than_any_frame_is_refused(void **state)
{
    static char large[FRAME_PAYLOAD_MAX + 100], room[2 * FRAME_PAYLOAD_MAX];
    struct pair *p = *state;
    struct frame got;

    memcpy(large, "AFW\1", 4);
    send_raw(p->a, large, sizeof(large), 0, -1);
    assert_int_equal(frame_receive(p->b, room, sizeof(room), FRAME_NOWAIT, &got), -EMSGSIZE);
}

static void more_descriptors_than_a_frame_has_are_refused_and_closed(void **state)
{
    static const char header[20] = "AFW\1\1\0\10\0";
    struct pair *p = *state;
    struct frame got;
    int before = count_fds();

    send_raw(p->a, header, sizeof(header), 9, p->a);
    assert_int_equal(receive(p, &got), -EMSGSIZE);
    send_raw(p->a, header, sizeof(header), 64, p->a);
    assert_int_equal(receive(p, &got), -EMSGSIZE);
    assert_int_equal(count_fds(), before);
}

static void malformed_packets_are_refused_and_their_descriptors_closed(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        size_t fds;
    } bad[] = {
        { "A", 1, 0 },
        { "AFW\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 19, 0 },                  /* short of one byte */
        { "AFV\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0 },                /* magic */
        { "AFW\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0 },                /* version */
        { "AFW\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 1 },                /* version */
        { "AFW\1\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 20, 0 },                /* payload missing */
        { "AFW\1\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0ab", 22, 0 },              /* payload too long */
        { "AFW\1\1\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 20, 0 },        /* length wraps */
        { "AFW\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 1 },                /* a descriptor too many */
        { "AFW\1\1\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 1 },                /* one missing */
        { "AFW\1\1\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0", 20, 8 },            /* absurdly many announced */
        { "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 37, 3 },          /* another protocol */
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 26, 2 }, /* zeros */
    };
    struct pair *p = *state;
    int before = count_fds();

    for (size_t i = 0; i < count_of(bad); i++) {
        struct frame got = { .id = 99 };

        send_raw(p->a, bad[i].bytes, bad[i].len, bad[i].fds, p->a);
        assert_int_equal(receive(p, &got), -EPROTO);
        assert_int_equal(count_fds(), before);
        assert_int_equal(got.id, 99);
    }
    send_raw(p->a, "AFW\1\7\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 20, 0, -1);
    struct frame good;
    assert_int_equal(receive(p, &good), 0);
    assert_true(good.type == 7 && good.id == 1);
}

static void an_empty_packet_is_a_peer_that_is_gone(void **state)
{
    struct pair *p = *state;
    int before = count_fds();
    struct frame got;

    send_raw(p->a, "", 0, 0, -1);
    assert_int_equal(receive(p, &got), -ECONNRESET);
    send_raw(p->a, "", 0, 2, p->a);
    assert_int_equal(receive(p, &got), -ECONNRESET);
    assert_int_equal(count_fds(), before);
}

static void a_peer_that_hung_up_is_gone(void **state)
{
    struct pair *p = *state;
    struct frame frame = { .type = 1 }, got;

    assert_int_equal(frame_send(p->a, &frame, FRAME_NOWAIT), 0);
    close(steal_fd(&p->a));
    /* What it said before still arrives. */
    assert_int_equal(receive(p, &got), 0);
    assert_int_equal(receive(p, &got), -ECONNRESET);
    /* No SIGPIPE, whose default would end this program. */
    assert_int_equal(frame_send(p->b, &frame, FRAME_NOWAIT), -ECONNRESET);
}

static void a_peer_that_left_without_reading_is_gone_too(void **state)
{
    struct pair *p = *state;
    struct frame frame = { .type = 1 }, got;

    assert_int_equal(frame_send(p->b, &frame, FRAME_NOWAIT), 0);
    close(steal_fd(&p->a));
    assert_int_equal(receive(p, &got), -ECONNRESET);
}

static void nothing_there_and_no_room_are_told(void **state)
{
    static char payload[FRAME_PAYLOAD_MAX];
    struct pair *p = *state;
    struct frame frame = { .type = 1, .payload = payload, .len = sizeof(payload) }, got;
    int sent = 0, r;

    assert_int_equal(receive(p, &got), -EAGAIN);
    while ((r = frame_send(p->a, &frame, FRAME_NOWAIT)) == 0)
        sent++;
    assert_int_equal(r, -EAGAIN);
    assert_true(sent > 0);
    for (; sent > 0; sent--)
        assert_int_equal(receive(p, &got), 0);
    assert_int_equal(receive(p, &got), -EAGAIN);
}

static void on_alarm(int number)
{
    (void) number;
}

static void interrupt_often(bool on)
{
    const struct itimerval timer = { { 0, on ? 300 : 0 }, { 0, on ? 300 : 0 } };
    const struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void *send_slowly(void *arg)
{
    for (uint64_t i = 0; i < 50; i++) {
        struct frame frame = { .type = 1, .id = i, .payload = buf, .len = 0 };

        usleep(1000);
        frame_send(*(int *) arg, &frame, FRAME_WAIT);
    }
    return NULL;
}

static void waiting_goes_on_after_signals(void **state)
{
    struct pair *p = *state;
    struct frame got;
    pthread_t sender;

    interrupt_often(true);
    pthread_create(&sender, NULL, send_slowly, &p->a);
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(frame_receive(p->b, buf, sizeof(buf), FRAME_WAIT, &got), 0);
        assert_true(got.id == i);
    }
    interrupt_often(false);
    pthread_join(sender, NULL);
}

/* A descriptor that cannot be installed is lost on the way: the frame is refused, not delivered without it. */
static void no_number_free_for_a_descriptor(void **state)
{
    struct pair *p = *state;
    struct frame sent = { .type = 1, .fd_count = 3, .fds = { p->a, p->a, p->a } }, got;
    struct rlimit old, none;
    int next = dup(p->a), before;

    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), 0);
    close(next);
    before = count_fds();
    getrlimit(RLIMIT_NOFILE, &old);
    none = (struct rlimit){ .rlim_cur = (rlim_t) next + 1, .rlim_max = old.rlim_max };
    setrlimit(RLIMIT_NOFILE, &none);
    int r = receive(p, &got);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(r, -EMSGSIZE);
    assert_int_equal(count_fds(), before);
}

static void a_bad_descriptor_is_not_sent(void **state)
{
    struct pair *p = *state;
    struct frame sent = { .type = 1, .fd_count = 1, .fds = { -1 } }, got;

    assert_int_equal(frame_send(p->a, &sent, FRAME_NOWAIT), -EBADF);
    assert_int_equal(frame_send(-1, &sent, FRAME_NOWAIT), -EBADF);
    assert_int_equal(receive(p, &got), -EAGAIN);
    assert_int_equal(frame_receive(-1, buf, sizeof(buf), FRAME_NOWAIT, &got), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        pair_test(a_frame_arrives_as_it_was_sent),
        pair_test(sizes_from_nothing_to_the_maximum),
        pair_test(descriptors_come_along),
        pair_test(a_payload_larger_than_the_buffer_is_refused),
        pair_test(a_packet_larger_than_any_frame_is_refused),
        pair_test(more_descriptors_than_a_frame_has_are_refused_and_closed),
        pair_test(malformed_packets_are_refused_and_their_descriptors_closed),
        pair_test(an_empty_packet_is_a_peer_that_is_gone),
        pair_test(a_peer_that_hung_up_is_gone),
        pair_test(a_peer_that_left_without_reading_is_gone_too),
        pair_test(nothing_there_and_no_room_are_told),
        pair_test(waiting_goes_on_after_signals),
        pair_test(no_number_free_for_a_descriptor),
        pair_test(a_bad_descriptor_is_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
