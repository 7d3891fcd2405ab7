#include "supervisor/ring_buffer.h"

#include "fixture.h"

static void it_gives_what_it_was_given(void **state)
{
    struct ring_buffer ring = { 0 };
    size_t len;

    (void) state;
    ring_buffer_add(&ring, "abc", 3);
    ring_buffer_add(&ring, "", 0);
    ring_buffer_add(&ring, "def", 3);
    assert_memory_equal(ring_buffer_peek(&ring, &len), "abcdef", 6);
    assert_int_equal(len, 6);
    ring_buffer_consume(&ring, 4);
    assert_memory_equal(ring_buffer_peek(&ring, &len), "ef", 2);
    assert_int_equal(len, 2);
    ring_buffer_consume(&ring, 2);
    ring_buffer_peek(&ring, &len);
    assert_int_equal(len, 0);
    assert_null(ring.bytes);
    assert_int_equal(ring.lost, 0);
}

static void the_oldest_go_and_are_counted(void **state)
{
    struct ring_buffer ring = { 0 };
    static char chunk[1000];
    uint64_t total = 0;
    size_t len;

    (void) state;
    for (int i = 0; i < 5000; i++) {
        memset(chunk, i % 251, sizeof(chunk));
        ring_buffer_add(&ring, chunk, sizeof(chunk));
        total += sizeof(chunk);
        assert_true(ring.len <= RING_BUFFER_BYTES_MAX);
        assert_true(ring.cap <= 4 * (size_t) RING_BUFFER_BYTES_MAX);
    }
    const char *bytes = ring_buffer_peek(&ring, &len);
    assert_int_equal(len, RING_BUFFER_BYTES_MAX);
    assert_true(ring.lost == total - RING_BUFFER_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        size_t from_end = (len - 1 - i) / sizeof(chunk);
        assert_int_equal((unsigned char) bytes[i], (4999 - from_end) % 251);
    }
    ring_buffer_done(&ring);
}

static void one_piece_larger_than_all(void **state)
{
    size_t size = RING_BUFFER_BYTES_MAX + 77, len;
    char *large = xalloc(size);
    struct ring_buffer ring = { 0 };

    (void) state;
    large[size - 1] = 'z';
    large[77] = 'a';
    ring_buffer_add(&ring, "before", 6);
    ring_buffer_add(&ring, large, size);
    const char *bytes = ring_buffer_peek(&ring, &len);
    assert_int_equal(len, RING_BUFFER_BYTES_MAX);
    assert_int_equal(bytes[0], 'a');
    assert_int_equal(bytes[len - 1], 'z');
    assert_int_equal(ring.lost, 77 + 6);
    free(large);
    ring_buffer_done(&ring);
}

static void what_was_lost_is_remembered_when_it_is_empty(void **state)
{
    struct ring_buffer ring = { 0 };
    char *large = xalloc(RING_BUFFER_BYTES_MAX + 1);

    (void) state;
    ring_buffer_add(&ring, large, RING_BUFFER_BYTES_MAX + 1);
    ring_buffer_consume(&ring, RING_BUFFER_BYTES_MAX);
    assert_int_equal(ring.lost, 1);
    assert_null(ring.bytes);
    free(large);
    ring_buffer_done(&ring);
}

/* Against a plain array, with sizes by chance. */
static void it_behaves_as_a_queue(void **state)
{
    size_t front = 0, back = 0, len;
    char *all = xalloc(8u << 20);
    struct ring_buffer ring = { 0 };

    (void) state;
    srand(7);
    for (size_t i = 0; i < 8u << 20; i++)
        all[i] = (char) rand();
    while (back < (7u << 20)) {
        size_t more = (size_t) rand() % 90000, less = (size_t) rand() % 90000;

        ring_buffer_add(&ring, all + back, more);
        back += more;
        front += ring.lost;
        ring.lost = 0;
        const char *bytes = ring_buffer_peek(&ring, &len);
        assert_int_equal(len, back - front);
        assert_memory_equal(bytes, all + front, len);
        less = less < len ? less : len;
        ring_buffer_consume(&ring, less);
        front += less;
    }
    free(all);
    ring_buffer_done(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_what_it_was_given), cmocka_unit_test(the_oldest_go_and_are_counted),
        cmocka_unit_test(one_piece_larger_than_all),  cmocka_unit_test(what_was_lost_is_remembered_when_it_is_empty),
        cmocka_unit_test(it_behaves_as_a_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
