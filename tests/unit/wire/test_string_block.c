#include "fixture.h"

#include <sys/mman.h>

#include "wire/string_block.h"

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char *const heads[] = { "/work", "" };
static const char *const argv[] = { "sh", "", NULL };
static const char *const envp[] = { "A=1", NULL };
static const char *const none[] = { NULL };

static const char packed[] = "/work\0\0sh\0\0A=1";

static struct string_block small_block(void)
{
    return (struct string_block){ .heads = heads, .head_count = 2, .argv = argv, .envp = envp };
}

static void a_block_is_its_strings_in_order(void **state)
{
    struct string_block block = small_block();
    char bytes[64];
    struct writer w;

    (void) state;
    assert_int_equal(string_block_measure(&block), 0);
    assert_true(block.argc == 2 && block.envc == 1 && block.len == sizeof(packed));
    writer_init(&w, bytes, sizeof(bytes));
    string_block_write(&block, &w);
    assert_int_equal(w.len, sizeof(packed));
    assert_memory_equal(bytes, packed, sizeof(packed));
}

static void a_sealed_block_is_mapped_and_pointed_into(void **state)
{
    struct string_block block = small_block();
    int before = count_fds();
    const char *bytes = NULL, *at, *room[3];

    (void) state;
    assert_int_equal(string_block_measure(&block), 0);
    int fd = string_block_seal(&block);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, 0), -1);
    assert_int_equal(string_block_map(fd, block.len, 5, &bytes), 0);
    close(fd); /* the mapping stays */
    at = string_block_point(bytes + 7, 2, room);
    assert_string_equal(room[0], "sh");
    assert_string_equal(room[1], "");
    assert_null(room[2]);
    assert_string_equal(at, "A=1");
    string_block_unmap(bytes, block.len);
    string_block_unmap(NULL, block.len);
    assert_int_equal(count_fds(), before);
}

static void exactly_as_many_strings_as_announced(void **state)
{
    (void) state;
    for (size_t count = 0; count < 10; count++)
        assert_int_equal(string_block_is_valid(packed, sizeof(packed), count), count == 5);
    for (size_t len = 0; len < sizeof(packed); len++)
        assert_false(string_block_is_valid(packed, len, 5));
    assert_false(string_block_is_valid(packed, 0, 0));
    assert_true(string_block_is_valid("\0\0\0", 3, 3));
    assert_false(string_block_is_valid("\0\0x", 3, 3));
}

static void the_announced_numbers_are_bounded(void **state)
{
    (void) state;
    assert_true(string_block_is_bounded(0, 0, 0));
    assert_true(string_block_is_bounded(STRING_BLOCK_COUNT_MAX, 0, STRING_BLOCK_BYTES_MAX));
    assert_true(string_block_is_bounded(0, STRING_BLOCK_COUNT_MAX, 1));
    assert_false(string_block_is_bounded(STRING_BLOCK_COUNT_MAX, 1, 1));
    assert_false(string_block_is_bounded(STRING_BLOCK_COUNT_MAX + 1, 0, 1));
    assert_false(string_block_is_bounded(0, 0, STRING_BLOCK_BYTES_MAX + 1));
    assert_false(string_block_is_bounded(0x80000000u, 0x80000000u, 1)); /* their sum is 0 */
    assert_false(string_block_is_bounded(UINT32_MAX, 1, 1));
}

/* `count` times the same string of `len` bytes, its NUL included. */
static int measure_many(size_t count, size_t len, bool twice)
{
    const char **strings = calloc(count + 1, sizeof(*strings));
    char *text = malloc(len);
    struct string_block block = { .argv = strings, .envp = twice ? strings : none };
    int r;

    memset(text, 'x', len - 1);
    text[len - 1] = '\0';
    for (size_t i = 0; i < count; i++)
        strings[i] = text;
    r = string_block_measure(&block);
    free(text);
    free(strings);
    return r;
}

static void what_is_sent_is_bounded(void **state)
{
    static char huge[STRING_BLOCK_BYTES_MAX + 1];
    const char *head = huge;
    struct string_block block = { .heads = &head, .head_count = 1, .argv = none, .envp = none };

    (void) state;
    assert_int_equal(measure_many(1, STRING_BLOCK_BYTES_MAX, false), 0);
    assert_int_equal(measure_many(1, STRING_BLOCK_BYTES_MAX + 1, false), -E2BIG);
    assert_int_equal(measure_many(1, STRING_BLOCK_BYTES_MAX, true), -E2BIG);
    assert_int_equal(measure_many(STRING_BLOCK_COUNT_MAX, 1, false), 0);
    assert_int_equal(measure_many(STRING_BLOCK_COUNT_MAX + 1, 1, false), -E2BIG);
    assert_int_equal(measure_many(STRING_BLOCK_COUNT_MAX / 2 + 1, 1, true), -E2BIG);
    memset(huge, 'x', STRING_BLOCK_BYTES_MAX);
    assert_int_equal(string_block_measure(&block), -E2BIG);
    huge[STRING_BLOCK_BYTES_MAX - 1] = '\0';
    assert_int_equal(string_block_measure(&block), 0);
}

static int map(const char *strings, size_t sent, size_t announced, int seals)
{
    autofd int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *bytes = NULL;
    int r;

    assert_int_equal(write(fd, strings, sent), (ssize_t) sent);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    r = string_block_map(fd, announced, 2, &bytes);
    assert_int_equal(bytes != NULL, r == 0);
    string_block_unmap(bytes, announced);
    return r;
}

static void only_a_sealed_memfd_of_the_right_size_is_mapped(void **state)
{
    (void) state;
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS), 0);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_WRITE), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_SHRINK), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_GROW), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_SEAL), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, 0), -EINVAL);
    assert_int_equal(map("/\0true", 7, 8, ALL_SEALS), -EINVAL);
    assert_int_equal(map("/\0true", 7, 6, ALL_SEALS), -EINVAL);
    assert_int_equal(map("", 0, 0, ALL_SEALS), -EINVAL);
    assert_int_equal(map("/\0true", 6, 6, ALL_SEALS), -EPROTO);
    assert_int_equal(map("/\0true\0", 8, 8, ALL_SEALS), -EPROTO);
    assert_int_equal(map("/true", 6, 6, ALL_SEALS), -EPROTO);
}

static void other_files_are_not_mapped(void **state)
{
    autofd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const char *bytes = NULL;
    struct stat st;

    (void) state;
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(string_block_map(null_fd, 7, 2, &bytes), -EINVAL);
    assert_int_equal(string_block_map(file, (size_t) st.st_size, 2, &bytes), -EINVAL);
    assert_int_equal(string_block_map(-1, 7, 2, &bytes), -EINVAL);
    assert_null(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_its_strings_in_order),
        cmocka_unit_test(a_sealed_block_is_mapped_and_pointed_into),
        cmocka_unit_test(exactly_as_many_strings_as_announced),
        cmocka_unit_test(the_announced_numbers_are_bounded),
        cmocka_unit_test(what_is_sent_is_bounded),
        cmocka_unit_test(only_a_sealed_memfd_of_the_right_size_is_mapped),
        cmocka_unit_test(other_files_are_not_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
