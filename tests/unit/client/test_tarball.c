/* A directory as an archive: what is in it, and what becomes of files that change while they are read. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "client/tarball.h"
#include "codebase/extract.h"

struct place {
    char path[64];
    int fd;
};

static int set_up(void **state)
{
    struct place *place = xnew(struct place);

    strcpy(place->path, "/tmp/af-tarball-XXXXXX");
    if (!mkdtemp(place->path))
        return -1;
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->fd < 0 ? -1 : mkdirat(place->fd, "in", 0755) | mkdirat(place->fd, "out", 0755);
}

static int tear_down(void **state)
{
    struct place *place = *state;

    file_remove_tree(place->fd, "in");
    file_remove_tree(place->fd, "out");
    close(place->fd);
    rmdir(place->path);
    free(place);
    return 0;
}

static void put(const struct place *place, const char *name, const char *text, mode_t mode)
{
    autofree char *path = xprintf("in/%s", name);

    assert_int_equal(file_put(place->fd, path, text, strlen(text), mode), 0);
}

static struct tarball *open_in(const struct place *place, const char *prefix, const char *const *exclude, size_t count)
{
    autofd int fd = openat(place->fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tarball *tarball = NULL;
    struct err err = ERR_NONE;

    assert_int_equal(tarball_open(fd, prefix, exclude, count, &tarball, &err), 0);
    return tarball;
}

/* Reads it in pieces of an odd size. */
static int read_all(struct tarball *tarball, struct buf *out, struct err *err)
{
    char piece[777];
    ssize_t n;

    while ((n = tarball_read(tarball, piece, sizeof(piece), err)) > 0)
        buf_add(out, piece, (size_t) n);
    return (int) n;
}

static void what_goes_in_comes_out(void **state)
{
    const struct place *place = *state;
    const struct extract_limits limits = { 1 << 20, 100 };
    autofd int out_fd = openat(place->fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autodone(buf) struct buf archive = BUF_EMPTY;
    autodone(buf) struct buf content = BUF_EMPTY;
    struct extract_counts counts;
    struct tarball_counts told;
    struct err err = ERR_NONE;
    char target[16] = "";
    struct stat st;

    put(place, "a", "one", 0644);
    put(place, "x", "run", 0755);
    assert_int_equal(mkdirat(place->fd, "in/d", 0755), 0);
    put(place, "d/b", "two", 0644);
    assert_int_equal(symlinkat("../etc", place->fd, "in/d/link"), 0);
    assert_int_equal(mkfifoat(place->fd, "in/pipe", 0644), 0);
    autoptr(tarball) tarball = open_in(place, "deep/", NULL, 0);
    assert_int_equal(read_all(tarball, &archive, &err), 0);
    tarball_count(tarball, &told);
    assert_int_equal(told.files, 4);
    assert_int_equal(told.bytes, 9);
    assert_int_equal(told.bytes_read, 9);
    assert_int_equal(told.skipped, 1);
    assert_int_equal(extract_bytes(archive.data, archive.len, out_fd, &limits, &counts, &err), 0);
    assert_int_equal(file_read(place->fd, "out/deep/d/b", 100, &content), 0);
    assert_string_equal(content.data, "two");
    assert_int_equal(readlinkat(place->fd, "out/deep/d/link", target, sizeof(target) - 1), 6);
    assert_string_equal(target, "../etc");
    assert_int_equal(fstatat(place->fd, "out/deep/x", &st, 0), 0);
    assert_true(st.st_mode & S_IXUSR);
}

static void what_is_excluded_stays_with_all_beneath(void **state)
{
    const struct place *place = *state;
    static const char *const exclude[] = { "*.o", "d/keep" };
    autodone(buf) struct buf archive = BUF_EMPTY;
    struct tarball_counts told;
    struct err err = ERR_NONE;

    put(place, "a.o", "1", 0644);
    put(place, "keep", "22", 0644);
    assert_int_equal(mkdirat(place->fd, "in/d", 0755) | mkdirat(place->fd, "in/d/keep", 0755), 0);
    put(place, "d/keep/c", "333", 0644);
    put(place, "d/b.o", "4444", 0644);
    autoptr(tarball) tarball = open_in(place, "", exclude, 2);
    assert_int_equal(read_all(tarball, &archive, &err), 0);
    tarball_count(tarball, &told);
    assert_int_equal(told.files, 1);
    assert_int_equal(told.bytes, 2);
}

static void a_file_that_is_gone_is_left_out_and_one_that_shrinks_is_an_error(void **state)
{
    const struct place *place = *state;
    autodone(buf) struct buf archive = BUF_EMPTY;
    autofree char *large = malloc(300001);
    struct err err = ERR_NONE;
    char piece[1024];

    memset(large, 'x', 300000);
    large[300000] = '\0';
    put(place, "a", "gone soon", 0644);
    put(place, "b", large, 0644);
    autoptr(tarball) tarball = open_in(place, "", NULL, 0);
    assert_int_equal(unlinkat(place->fd, "in/a", 0), 0);
    assert_true(tarball_read(tarball, piece, sizeof(piece), &err) > 0);
    autofd int fd = openat(place->fd, "in/b", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_int_equal(read_all(tarball, &archive, &err), -EAGAIN);
    assert_string_equal(err.text, "'b' became shorter while it was read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_goes_in_comes_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_excluded_stays_with_all_beneath, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_gone_is_left_out_and_one_that_shrinks_is_an_error, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
