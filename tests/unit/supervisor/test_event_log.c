#include "supervisor/event_log.h"

#include "fixture.h"

static void add(struct event_log *event_log, enum ctl_event_kind kind, const char *subject)
{
    event_log_add(event_log, &(struct ctl_event){ .kind = kind, .subject = subject });
}

static void events_are_numbered_and_kept(void **state)
{
    struct event_log event_log = { 0 };
    struct ctl_event event;

    (void) state;
    assert_int_equal(event_log_next(&event_log, 0, &event), 0);
    event_log_add(&event_log,
                  &(struct ctl_event){ .kind = CTL_EVENT_EXEC_FINISHED, .exec = "e", .detail = "d", .numbers = { 1, -2, 3 } });
    add(&event_log, CTL_EVENT_SESSION_OPENED, "second");
    assert_int_equal(event_log_next(&event_log, 0, &event), 1);
    assert_string_equal(event.exec, "e");
    assert_string_equal(event.subject, "");
    assert_string_equal(event.detail, "d");
    assert_true(event.number == 1 && event.wall_ns > 0 && event.numbers[1] == -2);
    assert_int_equal(event_log_next(&event_log, 1, &event), 2);
    assert_string_equal(event.subject, "second");
    assert_int_equal(event_log_next(&event_log, 2, &event), 0);
    assert_int_equal(event_log_next(&event_log, UINT64_MAX, &event), 0);
    event_log_done(&event_log);
}

static void the_oldest_are_forgotten(void **state)
{
    struct event_log event_log = { 0 };
    struct ctl_event event;
    char name[16];

    (void) state;
    for (int i = 1; i <= 3 * EVENT_LOG_MAX; i++) {
        snprintf(name, sizeof(name), "%d", i);
        add(&event_log, CTL_EVENT_EXEC_STARTED, name);
        memset(name, 'x', sizeof(name) - 1); /* they are copies */
        uint64_t oldest = i <= EVENT_LOG_MAX ? 1 : (uint64_t) i - EVENT_LOG_MAX + 1;
        assert_true(event_log_next(&event_log, 0, &event) == oldest);
        assert_true(strtoull(event.subject, NULL, 10) == oldest);
        assert_true(event_log_next(&event_log, (uint64_t) i - 1, &event) == (uint64_t) i);
    }
    event_log_done(&event_log);
}

static void long_texts_are_cut(void **state)
{
    struct event_log event_log = { 0 };
    struct ctl_event event;
    char text[5000];

    (void) state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    event_log_add(&event_log,
                  &(struct ctl_event){ .kind = CTL_EVENT_EXEC_STARTED, .exec = text, .subject = text, .detail = text });
    event_log_next(&event_log, 0, &event);
    assert_int_equal(strlen(event.detail), EVENT_LOG_TEXT_MAX);
    assert_int_equal(strlen(event.exec), EVENT_LOG_TEXT_MAX);
    event_log_done(&event_log);
}

static void refusals_are_limited_and_counted_others_are_not(void **state)
{
    struct event_log event_log = { 0 };

    (void) state;
    for (int i = 0; i < EVENT_LOG_DENIALS_PER_MINUTE + 50; i++)
        add(&event_log, CTL_EVENT_DENIED, "/x");
    add(&event_log, CTL_EVENT_EXEC_STARTED, "e");
    assert_int_equal(event_log.last, EVENT_LOG_DENIALS_PER_MINUTE + 1);
    assert_int_equal(event_log.denial_count, EVENT_LOG_DENIALS_PER_MINUTE + 50);
    assert_int_equal(event_log.dropped_count, 50);
    /* A minute later. */
    event_log.minute_began_ns -= INT64_C(61000000000);
    add(&event_log, CTL_EVENT_DENIED, "/x");
    assert_int_equal(event_log.last, EVENT_LOG_DENIALS_PER_MINUTE + 2);
    event_log_done(&event_log);
}

static void count_call(void *cookie)
{
    ++*(int *) cookie;
}

static void who_waits_is_called_for_each_that_is_kept(void **state)
{
    int calls = 0;
    struct event_log event_log = { .fn = count_call, .cookie = &calls };

    (void) state;
    for (int i = 0; i < EVENT_LOG_DENIALS_PER_MINUTE + 5; i++)
        add(&event_log, CTL_EVENT_DENIED, "/x");
    assert_int_equal(calls, EVENT_LOG_DENIALS_PER_MINUTE);
    event_log_done(&event_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_numbered_and_kept),
        cmocka_unit_test(the_oldest_are_forgotten),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(refusals_are_limited_and_counted_others_are_not),
        cmocka_unit_test(who_waits_is_called_for_each_that_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
