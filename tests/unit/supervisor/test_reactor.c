#include "supervisor/reactor.h"

#include <pthread.h>
#include <stdatomic.h>

#include "fixture.h"

struct peer {
    struct watch watch;
    struct timer timer;
    int read_fd, write_fd;
    int calls;
    uint32_t events;
    struct peer *other;
    struct reactor *reactor;
};

static struct peer *peer_new(struct reactor *reactor)
{
    struct peer *peer = xnew(struct peer);
    int pair[2];

    assert_int_equal(pipe(pair), 0);
    peer->read_fd = pair[0];
    peer->write_fd = pair[1];
    peer->reactor = reactor;
    return peer;
}

static void peer_free(struct peer *peer)
{
    watch_stop(&peer->watch);
    timer_stop(&peer->timer);
    close(peer->read_fd);
    if (peer->write_fd >= 0)
        close(peer->write_fd);
    free(peer);
}

static void take(uint32_t events, void *cookie)
{
    struct peer *peer = cookie;
    char c;

    peer->events = events;
    peer->calls++;
    if (events & EPOLLIN)
        assert_int_equal(read(peer->read_fd, &c, 1), 1);
}

static void a_watch_is_called_when_there_is_something(void **state)
{
    struct reactor reactor;
    struct peer *peer;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    peer = peer_new(&reactor);
    assert_int_equal(watch_start(&peer->watch, &reactor, peer->read_fd, EPOLLIN, take, peer), 0);
    turn_for(&reactor, 5);
    assert_int_equal(peer->calls, 0);
    assert_int_equal(write(peer->write_fd, "ab", 2), 2);
    turn_for(&reactor, 20);
    assert_int_equal(peer->calls, 2);
    assert_int_equal(watch_change(&peer->watch, 0), 0);
    assert_int_equal(write(peer->write_fd, "c", 1), 1);
    turn_for(&reactor, 5);
    assert_int_equal(peer->calls, 2);
    assert_int_equal(watch_change(&peer->watch, EPOLLIN), 0);
    turn_for(&reactor, 20);
    assert_int_equal(peer->calls, 3);
    watch_stop(&peer->watch);
    watch_stop(&peer->watch);
    assert_int_equal(watch_change(&peer->watch, EPOLLIN), 0);
    peer_free(peer);
    reactor_done(&reactor);
}

/* Whichever comes first frees the other: that one may not be called any more, though it was ready in the same turn. */
static void free_other(uint32_t events, void *cookie)
{
    struct peer *peer = cookie;

    take(events, cookie);
    if (peer->other) {
        peer->other->other = NULL;
        peer_free(peer->other);
        peer->other = NULL;
    }
}

static void a_callback_may_free_another_that_is_ready(void **state)
{
    struct reactor reactor;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    for (int i = 0; i < 20; i++) {
        struct peer *a = peer_new(&reactor), *b = peer_new(&reactor);
        struct peer *left;

        a->other = b;
        b->other = a;
        watch_start(&a->watch, &reactor, a->read_fd, EPOLLIN, free_other, a);
        watch_start(&b->watch, &reactor, b->read_fd, EPOLLIN, free_other, b);
        int kept_a = a->read_fd;
        assert_int_equal(write(i % 2 ? b->write_fd : a->write_fd, "x", 1), 1);
        assert_int_equal(write(i % 2 ? a->write_fd : b->write_fd, "x", 1), 1);
        turn_for(&reactor, 5);
        left = fcntl(kept_a, F_GETFD) >= 0 ? a : b;
        assert_int_equal(left->calls, 1);
        peer_free(left);
    }
    reactor_done(&reactor);
}

static void free_itself(uint32_t events, void *cookie)
{
    (void) events;
    peer_free(cookie);
}

static void a_callback_may_free_its_own(void **state)
{
    struct reactor reactor;
    struct peer *peer;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    peer = peer_new(&reactor);
    watch_start(&peer->watch, &reactor, peer->read_fd, EPOLLIN, free_itself, peer);
    assert_int_equal(write(peer->write_fd, "x", 1), 1);
    turn_for(&reactor, 10);
    reactor_done(&reactor);
}

static void hang_ups_come_to_who_waits_for_nothing_else(void **state)
{
    struct reactor reactor;
    struct peer *peer;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    peer = peer_new(&reactor);
    watch_start(&peer->watch, &reactor, peer->read_fd, 0, take, peer);
    close(peer->write_fd);
    peer->write_fd = -1;
    turn_for(&reactor, 5);
    assert_true(peer->calls > 0 && peer->events & EPOLLHUP);
    peer_free(peer);
    reactor_done(&reactor);
}

static void a_descriptor_that_cannot_be_watched(void **state)
{
    struct reactor reactor;
    struct watch watch;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    assert_int_equal(watch_start(&watch, &reactor, -1, EPOLLIN, take, NULL), -EBADF);
    assert_null(watch.reactor);
    watch_stop(&watch);
    reactor_done(&reactor);
}

static char names[] = "abcdx";
static char order[16];
static size_t order_len;

static void note(void *cookie)
{
    order[order_len++] = *(const char *) cookie;
}

static void timers_come_in_their_order(void **state)
{
    struct timer timers[5] = { 0 };
    struct reactor reactor;

    (void) state;
    order_len = 0;
    assert_int_equal(reactor_init(&reactor), 0);
    timer_start(&timers[0], &reactor, 30, note, &names[2]);
    timer_start(&timers[1], &reactor, 0, note, &names[0]);
    timer_start(&timers[2], &reactor, 60, note, &names[3]);
    timer_start(&timers[3], &reactor, 0, note, &names[1]);
    timer_start(&timers[4], &reactor, 1, note, &names[4]);
    timer_stop(&timers[4]);
    timer_stop(&timers[4]);
    timer_start(&timers[1], &reactor, 0, note, &names[0]); /* anew, and so behind b */
    turn_for(&reactor, 150);
    assert_int_equal(order_len, 4);
    assert_memory_equal(order, "bacd", 4);
    assert_null(reactor.timers);
    reactor_done(&reactor);
}

static void again(void *cookie)
{
    struct peer *peer = cookie;

    if (++peer->calls < 5)
        timer_start(&peer->timer, peer->reactor, 0, again, peer);
}

static void stop_other(void *cookie)
{
    struct peer *peer = cookie;

    peer->calls++;
    timer_stop(&peer->other->timer);
}

static void a_timer_may_set_itself_and_stop_others(void **state)
{
    struct reactor reactor;
    struct peer *a, *b;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    a = peer_new(&reactor);
    b = peer_new(&reactor);
    timer_start(&a->timer, &reactor, 0, again, a);
    turn_for(&reactor, 30);
    assert_int_equal(a->calls, 5);
    a->other = b;
    b->other = a;
    a->calls = b->calls = 0;
    timer_start(&a->timer, &reactor, 0, stop_other, a);
    timer_start(&b->timer, &reactor, 0, stop_other, b);
    turn_for(&reactor, 10);
    assert_int_equal(a->calls, 1);
    assert_int_equal(b->calls, 0);
    peer_free(a);
    peer_free(b);
    reactor_done(&reactor);
}

/* A timer that sets itself for now must not keep the descriptors from their turn. */
static void for_ever(void *cookie)
{
    struct peer *peer = cookie;

    timer_start(&peer->timer, peer->reactor, 0, for_ever, peer);
}

static void a_busy_timer_does_not_starve_descriptors(void **state)
{
    struct reactor reactor;
    struct peer *peer;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    peer = peer_new(&reactor);
    watch_start(&peer->watch, &reactor, peer->read_fd, EPOLLIN, take, peer);
    timer_start(&peer->timer, &reactor, 0, for_ever, peer);
    assert_int_equal(write(peer->write_fd, "x", 1), 1);
    turn_for(&reactor, 20);
    assert_int_equal(peer->calls, 1);
    peer_free(peer);
    reactor_done(&reactor);
}

struct woken {
    struct reactor *reactor;
    struct waker waker;
    _Atomic int asked;
    int calls;
};

static void *wake_often(void *cookie)
{
    struct woken *woken = cookie;

    for (int i = 0; i < 1000; i++) {
        woken->asked++;
        waker_wake(&woken->waker);
    }
    return NULL;
}

static void on_woken(void *cookie)
{
    struct woken *woken = cookie;

    woken->calls++;
    if (woken->asked == 1000)
        reactor_end(woken->reactor);
}

static void a_thread_wakes_the_reactor(void **state)
{
    struct reactor reactor;
    struct woken woken = { .reactor = &reactor };
    pthread_t thread;

    (void) state;
    assert_int_equal(reactor_init(&reactor), 0);
    assert_false(waker_is_open(&woken.waker));
    waker_close(&woken.waker);
    assert_int_equal(waker_open(&woken.waker, &reactor, on_woken, &woken), 0);
    assert_true(waker_is_open(&woken.waker));
    assert_int_equal(pthread_create(&thread, NULL, wake_often, &woken), 0);
    assert_int_equal(reactor_run(&reactor), 0);
    pthread_join(thread, NULL);
    assert_true(woken.calls >= 1 && woken.calls <= 1000);
    waker_close(&woken.waker);
    assert_false(waker_is_open(&woken.waker));
    reactor_done(&reactor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_is_called_when_there_is_something),
        cmocka_unit_test(a_callback_may_free_another_that_is_ready),
        cmocka_unit_test(a_callback_may_free_its_own),
        cmocka_unit_test(hang_ups_come_to_who_waits_for_nothing_else),
        cmocka_unit_test(a_descriptor_that_cannot_be_watched),
        cmocka_unit_test(timers_come_in_their_order),
        cmocka_unit_test(a_timer_may_set_itself_and_stop_others),
        cmocka_unit_test(a_busy_timer_does_not_starve_descriptors),
        cmocka_unit_test(a_thread_wakes_the_reactor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
