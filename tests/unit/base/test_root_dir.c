#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/root_dir.h"

/* A root with a directory in it, links that stay and links that leave; and something outside. */
static void lay_out(struct scratch *s)
{
    autofree char *absolute = xprintf("%s/root/dir", s->path), *out = xprintf("%s/outside", s->path);

    assert_int_equal(path_mkdirs_beneath(s->fd, "root/dir/sub", 0755), 0);
    assert_int_equal(path_mkdirs_beneath(s->fd, "outside/dir", 0755), 0);
    put_file(s->fd, "root/dir/file", "inside");
    put_file(s->fd, "outside/file", "outside");
    assert_int_equal(symlinkat("dir", s->fd, "root/relative"), 0);
    assert_int_equal(symlinkat(absolute, s->fd, "root/absolute"), 0);
    assert_int_equal(symlinkat("../relative/sub", s->fd, "root/dir/up"), 0);
    assert_int_equal(symlinkat("loop", s->fd, "root/loop"), 0);
    assert_int_equal(symlinkat(out, s->fd, "root/out"), 0);
    assert_int_equal(symlinkat("../outside", s->fd, "root/out-relative"), 0);
    assert_int_equal(symlinkat("../../../../../../../../../..", s->fd, "root/far"), 0);
    assert_int_equal(symlinkat("/proc/self/root", s->fd, "root/magic"), 0);
}

static int reach(struct scratch *s, const char *path, char **ret)
{
    autofree char *root = xprintf("%s/root", s->path), *whole = xprintf("%s/%s", s->path, path);
    const char *roots[] = { "/nowhere/at/all", root, NULL };
    int fd = root_dirs_reach(roots, whole, O_PATH);

    *ret = fd < 0 ? NULL : path_of_open(fd);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static void links_that_stay_inside_are_followed(void **state)
{
    static const char *const cases[][2] = {
        { "root", "root" },
        { "root/dir/file", "root/dir/file" },
        { "root/relative/sub", "root/dir/sub" },
        { "root/absolute/file", "root/dir/file" },
        { "root/absolute", "root/dir" },
        { "root/dir/up", "root/dir/sub" },
    };
    struct scratch *s = *state;

    lay_out(s);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *got = NULL, *want = xprintf("%s/%s", s->path, cases[i][1]);

        assert_int_equal(reach(s, cases[i][0], &got), 0);
        assert_string_equal(got, want);
    }
}

static void what_is_outside_is_one_answer(void **state)
{
    static const char *const outside[] = {
        "outside",      "outside/file",  "outside/none",  "none",           "root2",
        "root/out",     "root/out/file", "root/out/none", "root/out/dir",   "root/out-relative/dir",
        "root/far/etc", "root/far",      "root/magic",    "root/magic/etc", "root/out-relative"
    };
    static const struct {
        const char *path;
        int r;
    } inside[] = { { "root/none", -ENOENT }, { "root/loop", -ELOOP }, { "root/dir/file/x", -ENOTDIR } };
    struct scratch *s = *state;
    char *got;

    lay_out(s);
    for (size_t i = 0; i < ARRAY_LEN(outside); i++)
        assert_int_equal(reach(s, outside[i], &got), -EPERM);
    for (size_t i = 0; i < ARRAY_LEN(inside); i++)
        assert_int_equal(reach(s, inside[i].path, &got), inside[i].r);
}

static void without_roots_everything_can_be_reached(void **state)
{
    struct scratch *s = *state;
    autofree char *out = xprintf("%s/root/out/file", s->path);
    const char *none[] = { NULL };

    lay_out(s);
    autofd int fd = root_dirs_reach(NULL, out, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(root_dirs_reach(none, out, O_RDONLY), -EPERM);
}

struct swapper {
    int fd;
    atomic_bool stop;
};

static void *swap_for_ever(void *arg)
{
    struct swapper *w = arg;

    while (!atomic_load(&w->stop))
        renameat2(w->fd, "root/dir", w->fd, "root/out", RENAME_EXCHANGE);
    return NULL;
}

static void who_exchanges_a_directory_for_a_link_gets_nothing_outside(void **state)
{
    struct scratch *s = *state;
    struct swapper w = { .fd = s->fd };
    autofree char *path = xprintf("%s/root/dir/file", s->path), *root = xprintf("%s/root", s->path);
    const char *roots[] = { root, NULL };
    int opened = 0, wrong = 0;
    pthread_t thread;

    lay_out(s);
    pthread_create(&thread, NULL, swap_for_ever, &w);
    for (int i = 0; i < 5000; i++) {
        autofd int fd = root_dirs_reach(roots, path, O_RDONLY);
        char got[16] = "";

        if (fd < 0)
            continue;
        opened++;
        wrong += read(fd, got, sizeof(got) - 1) != 6 || strcmp(got, "inside") != 0;
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    assert_true(opened > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(links_that_stay_inside_are_followed),
        scratch_test(what_is_outside_is_one_answer),
        scratch_test(without_roots_everything_can_be_reached),
        scratch_test(who_exchanges_a_directory_for_a_link_gets_nothing_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
