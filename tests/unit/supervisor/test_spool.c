#include "supervisor/spool.h"

#include "fixture.h"

static void it_gives_what_it_was_given(void **state)
{
    struct spool spool = { 0 };
    size_t len;

    (void) state;
    spool_add(&spool, "abc", 3);
    spool_add(&spool, "", 0);
    spool_add(&spool, "def", 3);
    assert_memory_equal(spool_peek(&spool, &len), "abcdef", 6);
    assert_int_equal(len, 6);
    spool_take(&spool, 4);
    assert_memory_equal(spool_peek(&spool, &len), "ef", 2);
    assert_int_equal(len, 2);
    spool_take(&spool, 2);
    spool_peek(&spool, &len);
    assert_int_equal(len, 0);
    assert_null(spool.bytes);
    assert_int_equal(spool.lost, 0);
}

static void the_oldest_go_and_are_counted(void **state)
{
    struct spool spool = { 0 };
    static char chunk[1000];
    uint64_t total = 0;
    size_t len;

    (void) state;
    for (int i = 0; i < 5000; i++) {
        memset(chunk, i % 251, sizeof(chunk));
        spool_add(&spool, chunk, sizeof(chunk));
        total += sizeof(chunk);
        assert_true(spool.len <= SPOOL_BYTES_MAX);
        assert_true(spool.cap <= 4 * (size_t) SPOOL_BYTES_MAX);
    }
    const char *bytes = spool_peek(&spool, &len);
    assert_int_equal(len, SPOOL_BYTES_MAX);
    assert_true(spool.lost == total - SPOOL_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        size_t from_end = (len - 1 - i) / sizeof(chunk);
        assert_int_equal((unsigned char) bytes[i], (4999 - from_end) % 251);
    }
    spool_done(&spool);
}

static void one_piece_larger_than_all(void **state)
{
    size_t size = SPOOL_BYTES_MAX + 77, len;
    char *large = xalloc(size);
    struct spool spool = { 0 };

    (void) state;
    large[size - 1] = 'z';
    large[77] = 'a';
    spool_add(&spool, "before", 6);
    spool_add(&spool, large, size);
    const char *bytes = spool_peek(&spool, &len);
    assert_int_equal(len, SPOOL_BYTES_MAX);
    assert_int_equal(bytes[0], 'a');
    assert_int_equal(bytes[len - 1], 'z');
    assert_int_equal(spool.lost, 77 + 6);
    free(large);
    spool_done(&spool);
}

static void what_was_lost_is_remembered_when_it_is_empty(void **state)
{
    struct spool spool = { 0 };
    char *large = xalloc(SPOOL_BYTES_MAX + 1);

    (void) state;
    spool_add(&spool, large, SPOOL_BYTES_MAX + 1);
    spool_take(&spool, SPOOL_BYTES_MAX);
    assert_int_equal(spool.lost, 1);
    assert_null(spool.bytes);
    free(large);
    spool_done(&spool);
}

/* Against a plain array, with sizes by chance. */
static void it_behaves_as_a_queue(void **state)
{
    size_t front = 0, back = 0, len;
    char *all = xalloc(8u << 20);
    struct spool spool = { 0 };

    (void) state;
    srand(7);
    for (size_t i = 0; i < 8u << 20; i++)
        all[i] = (char) rand();
    while (back < (7u << 20)) {
        size_t more = (size_t) rand() % 90000, less = (size_t) rand() % 90000;

        spool_add(&spool, all + back, more);
        back += more;
        front += spool.lost;
        spool.lost = 0;
        const char *bytes = spool_peek(&spool, &len);
        assert_int_equal(len, back - front);
        assert_memory_equal(bytes, all + front, len);
        less = less < len ? less : len;
        spool_take(&spool, less);
        front += less;
    }
    free(all);
    spool_done(&spool);
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
