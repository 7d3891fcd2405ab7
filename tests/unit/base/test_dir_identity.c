#include "fixture.h"

#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/dir_identity.h"

static struct dir_identity read_at(struct scratch *s, const char *name, int flags)
{
    autofd int fd = openat(s->fd, name, flags | O_DIRECTORY | O_CLOEXEC);
    struct dir_identity id = { 0 };

    assert_true(fd >= 0);
    assert_int_equal(dir_identity_read(fd, &id), 0);
    return id;
}

static void a_directory_stays_the_same_however_it_is_called(void **state)
{
    struct scratch *s = *state;
    struct dir_identity before, after;

    assert_int_equal(mkdirat(s->fd, "a", 0755), 0);
    before = read_at(s, "a", O_PATH);
    put_file(s->fd, "a/file", "x");
    assert_int_equal(fchmodat(s->fd, "a", 0700, 0), 0);
    assert_int_equal(renameat(s->fd, "a", s->fd, "b"), 0);
    after = read_at(s, "b", O_RDONLY);
    assert_true(dir_identity_is_same(&before, &after));
}

static void another_one_under_its_name_is_another(void **state)
{
    struct scratch *s = *state;
    struct dir_identity before, after;

    assert_int_equal(mkdirat(s->fd, "a", 0755), 0);
    before = read_at(s, "a", O_PATH);
    assert_int_equal(renameat(s->fd, "a", s->fd, "kept"), 0);
    assert_int_equal(mkdirat(s->fd, "a", 0755), 0);
    after = read_at(s, "a", O_PATH);
    assert_false(dir_identity_is_same(&before, &after));
}

static void what_counts_when_the_machine_or_a_mount_was_started_anew(void **state)
{
    const uint64_t disk = makedev(8, 1), other_disk = makedev(8, 2), made_up = makedev(0, 40), made_up_later = makedev(0, 51);
    const struct {
        struct dir_identity then, now;
        bool is_same;
    } cases[] = {
        { { disk, 7, 100, 1 }, { disk, 7, 100, 1 }, true },
        { { disk, 7, 100, 1 }, { other_disk, 7, 100, 9 }, true }, /* numbered otherwise after a start */
        { { disk, 7, 100, 1 }, { disk, 8, 100, 1 }, false },      /* another one */
        { { disk, 7, 100, 1 }, { disk, 7, 101, 1 }, false },      /* its number, given out again */
        { { disk, 7, 100, 1 }, { disk, 7, 101, 9 }, false },
        { { made_up, 7, 100, 1 }, { made_up_later, 7, 100, 1 }, true }, /* mounted again */
        { { disk, 7, 0, 1 }, { other_disk, 7, 0, 1 }, false },
        { { disk, 7, 0, 1 }, { other_disk, 7, 0, 9 }, true },
        { { made_up, 7, 0, 1 }, { made_up_later, 7, 0, 1 }, true },
        { { made_up, 7, 0, 1 }, { disk, 7, 0, 1 }, false },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(dir_identity_is_same(&cases[i].then, &cases[i].now), cases[i].is_same);
}

static void what_is_not_open_has_none(void **state)
{
    struct dir_identity id;

    (void) state;
    assert_int_equal(dir_identity_read(-1, &id), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_directory_stays_the_same_however_it_is_called),
        scratch_test(another_one_under_its_name_is_another),
        cmocka_unit_test(what_counts_when_the_machine_or_a_mount_was_started_anew),
        cmocka_unit_test(what_is_not_open_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
