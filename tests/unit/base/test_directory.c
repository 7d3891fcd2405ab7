#include "fixture.h"

#include "base/directory.h"

static int count_names(DIR *dir)
{
    int count = 0;

    for (const struct dirent *d; (d = directory_next(dir)); count++)
        assert_true(strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0);
    return count;
}

static void every_name_is_told_but_those_that_all_directories_have(void **state)
{
    struct scratch *s = *state;

    put_file(s->fd, ".hidden", "");
    put_file(s->fd, "..more", "");
    assert_int_equal(mkdirat(s->fd, "d", 0755), 0);
    for (int i = 0; i < 2; i++) { /* the descriptor stays at its beginning */
        autodirectory dir = directory_open(s->fd);

        assert_non_null(dir);
        assert_int_equal(count_names(dir), 3);
    }
}

static void the_end_leaves_errno_alone(void **state)
{
    struct scratch *s = *state;
    autodirectory dir = directory_open(s->fd);

    errno = 0;
    assert_null(directory_next(dir));
    assert_int_equal(errno, 0);
    assert_null(directory_next(NULL));
}

static void a_descriptor_is_taken_whatever_becomes_of_it(void **state)
{
    struct scratch *s = *state;
    int before = count_fds();

    put_file(s->fd, "file", "");
    assert_null(directory_take(openat(s->fd, "file", O_RDONLY | O_CLOEXEC)));
    assert_int_equal(errno, ENOTDIR);
    assert_null(directory_take(-EXDEV));
    assert_int_equal(errno, EXDEV);
    assert_null(directory_open(-1));
    assert_int_equal(errno, EBADF);
    {
        autodirectory dir = directory_take(openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

        assert_int_equal(count_names(dir), 1);
    }
    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_name_is_told_but_those_that_all_directories_have),
        scratch_test(the_end_leaves_errno_alone),
        scratch_test(a_descriptor_is_taken_whatever_becomes_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
