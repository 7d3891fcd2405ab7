#include "fixture.h"

#include "supervisor/limit_default.h"

static void files_go_with_disk_and_memory(void **state)
{
    const uint64_t mib = 1 << 20, gib = 1 << 30;

    (void) state;
    assert_int_equal(limit_default_files(0, 0), 1000000);
    assert_int_equal(limit_default_files(1000 * gib, 1000 * gib), 1000000);
    assert_int_equal(limit_default_files(gib, 0), 131072);
    assert_int_equal(limit_default_files(gib, 32 * mib), 65536);
    assert_int_equal(limit_default_files(0, 32 * mib), 65536);
    assert_int_equal(limit_default_files(100 * mib, 64 * mib), 16384); /* 100 MiB of 8 KiB are fewer */
    assert_int_equal(limit_default_files(1, 1), 16384);
}

static void disk_and_memory_are_of_this_machine(void **state)
{
    (void) state;
    assert_in_range(limit_default_disk("/"), 1 << 20, 64ULL << 30);
    assert_int_equal(limit_default_disk("/no such directory"), 64ULL << 30);
    assert_in_range(limit_default_memory(), 64 << 20, UINT64_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_go_with_disk_and_memory),
        cmocka_unit_test(disk_and_memory_are_of_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
