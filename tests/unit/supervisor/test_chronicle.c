#include "supervisor/chronicle.h"

#include "fixture.h"

static void add(struct chronicle *chronicle, enum ctl_event_kind kind, const char *subject)
{
    chronicle_add(chronicle, &(struct ctl_event){ .kind = kind, .subject = subject });
}

static void events_are_numbered_and_kept(void **state)
{
    struct chronicle chronicle = { 0 };
    struct ctl_event event;

    (void) state;
    assert_int_equal(chronicle_next(&chronicle, 0, &event), 0);
    chronicle_add(&chronicle,
                  &(struct ctl_event){ .kind = CTL_EVENT_EXEC_FINISHED, .exec = "e", .detail = "d", .numbers = { 1, -2, 3 } });
    add(&chronicle, CTL_EVENT_SESSION_OPENED, "second");
    assert_int_equal(chronicle_next(&chronicle, 0, &event), 1);
    assert_string_equal(event.exec, "e");
    assert_string_equal(event.subject, "");
    assert_string_equal(event.detail, "d");
    assert_true(event.number == 1 && event.wall_ns > 0 && event.numbers[1] == -2);
    assert_int_equal(chronicle_next(&chronicle, 1, &event), 2);
    assert_string_equal(event.subject, "second");
    assert_int_equal(chronicle_next(&chronicle, 2, &event), 0);
    assert_int_equal(chronicle_next(&chronicle, UINT64_MAX, &event), 0);
    chronicle_done(&chronicle);
}

static void the_oldest_are_forgotten(void **state)
{
    struct chronicle chronicle = { 0 };
    struct ctl_event event;
    char name[16];

    (void) state;
    for (int i = 1; i <= 3 * CHRONICLE_MAX; i++) {
        snprintf(name, sizeof(name), "%d", i);
        add(&chronicle, CTL_EVENT_EXEC_STARTED, name);
        memset(name, 'x', sizeof(name) - 1); /* they are copies */
        uint64_t oldest = i <= CHRONICLE_MAX ? 1 : (uint64_t) i - CHRONICLE_MAX + 1;
        assert_true(chronicle_next(&chronicle, 0, &event) == oldest);
        assert_true(strtoull(event.subject, NULL, 10) == oldest);
        assert_true(chronicle_next(&chronicle, (uint64_t) i - 1, &event) == (uint64_t) i);
    }
    chronicle_done(&chronicle);
}

static void long_texts_are_cut(void **state)
{
    struct chronicle chronicle = { 0 };
    struct ctl_event event;
    char text[5000];

    (void) state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    chronicle_add(&chronicle,
                  &(struct ctl_event){ .kind = CTL_EVENT_EXEC_STARTED, .exec = text, .subject = text, .detail = text });
    chronicle_next(&chronicle, 0, &event);
    assert_int_equal(strlen(event.detail), CHRONICLE_TEXT_MAX);
    assert_int_equal(strlen(event.exec), CHRONICLE_TEXT_MAX);
    chronicle_done(&chronicle);
}

static void refusals_are_limited_and_counted_others_are_not(void **state)
{
    struct chronicle chronicle = { 0 };

    (void) state;
    for (int i = 0; i < CHRONICLE_DENIALS_PER_MINUTE + 50; i++)
        add(&chronicle, CTL_EVENT_DENIED, "/x");
    add(&chronicle, CTL_EVENT_EXEC_STARTED, "e");
    assert_int_equal(chronicle.last, CHRONICLE_DENIALS_PER_MINUTE + 1);
    assert_int_equal(chronicle.denial_count, CHRONICLE_DENIALS_PER_MINUTE + 50);
    assert_int_equal(chronicle.dropped_count, 50);
    /* A minute later. */
    chronicle.minute_began_ns -= INT64_C(61000000000);
    add(&chronicle, CTL_EVENT_DENIED, "/x");
    assert_int_equal(chronicle.last, CHRONICLE_DENIALS_PER_MINUTE + 2);
    chronicle_done(&chronicle);
}

static void count_call(void *cookie)
{
    ++*(int *) cookie;
}

static void who_waits_is_called_for_each_that_is_kept(void **state)
{
    int calls = 0;
    struct chronicle chronicle = { .fn = count_call, .cookie = &calls };

    (void) state;
    for (int i = 0; i < CHRONICLE_DENIALS_PER_MINUTE + 5; i++)
        add(&chronicle, CTL_EVENT_DENIED, "/x");
    assert_int_equal(calls, CHRONICLE_DENIALS_PER_MINUTE);
    chronicle_done(&chronicle);
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
