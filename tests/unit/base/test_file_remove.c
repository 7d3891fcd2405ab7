#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/file.h"

static void a_tree_goes_whole_and_its_neighbours_stay(void **state)
{
    struct scratch *s = *state;
    int before = count_fds();

    for (int i = 0; i < 300; i++) {
        char name[64];

        snprintf(name, sizeof(name), "t%s", i ? "/" : "");
        if (i)
            snprintf(name, sizeof(name), "t/d%d", i);
        assert_int_equal(mkdirat(s->fd, name, 0755), 0);
        snprintf(name, sizeof(name), i ? "t/d%d/f" : "neighbour", i);
        put_file(s->fd, name, "x");
    }
    assert_int_equal(mkfifoat(s->fd, "t/fifo", 0600), 0);
    assert_int_equal(file_remove_tree(s->fd, "t"), 0);
    assert_false(exists(s->fd, "t"));
    assert_file_is(s->fd, "neighbour", "x");
    assert_int_equal(count_fds(), before);
}

static void files_and_links_go_themselves(void **state)
{
    struct scratch *s = *state;

    put_file(s->fd, "target", "keep");
    assert_int_equal(mkdirat(s->fd, "dir", 0755), 0);
    put_file(s->fd, "dir/keep", "keep");
    assert_int_equal(symlinkat("dir", s->fd, "link"), 0);
    assert_int_equal(mkdirat(s->fd, "t", 0755), 0);
    assert_int_equal(symlinkat("../dir", s->fd, "t/link"), 0);
    assert_int_equal(file_remove_tree(s->fd, "link"), 0);
    assert_int_equal(file_remove_tree(s->fd, "t"), 0);
    assert_int_equal(file_remove_tree(s->fd, "target"), 0);
    assert_false(exists(s->fd, "link") || exists(s->fd, "t") || exists(s->fd, "target"));
    assert_file_is(s->fd, "dir/keep", "keep");
}

static void what_is_not_there_is_no_error(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(file_remove_tree(s->fd, "nothing"), 0);
    assert_int_equal(file_remove_tree(s->fd, "no/thing"), 0);
}

static void nothing_outside_can_be_named(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(symlinkat("..", s->fd, "up"), 0);
    assert_int_equal(file_remove_tree(s->fd, ".."), -EXDEV);
    assert_int_equal(file_remove_tree(s->fd, "../x"), -EXDEV);
    assert_int_equal(file_remove_tree(s->fd, "/tmp"), -EXDEV);
    assert_int_equal(file_remove_tree(s->fd, "."), -EINVAL);
    assert_int_equal(file_remove_tree(s->fd, "up/x"), -ELOOP);
}

static int remove_closed_directories(void *arg)
{
    struct scratch *s = arg;

    CHECK(drop_root() == 0);
    CHECK(mkdirat(s->fd, "t", 0700) == 0 && mkdirat(s->fd, "t/none", 0700) == 0 && mkdirat(s->fd, "t/none/in", 0700) == 0);
    CHECK(mkdirat(s->fd, "t/noexec", 0700) == 0 && mkdirat(s->fd, "t/noexec/in", 0700) == 0);
    CHECK(mkdirat(s->fd, "t/nowrite", 0700) == 0 && mkdirat(s->fd, "t/nowrite/in", 0700) == 0);
    CHECK(fchmodat(s->fd, "t/none", 0000, 0) == 0 && fchmodat(s->fd, "t/noexec", 0600, 0) == 0);
    CHECK(fchmodat(s->fd, "t/nowrite", 0500, 0) == 0 && fchmodat(s->fd, "t", 0000, 0) == 0);
    CHECK(file_remove_tree(s->fd, "t") == 0);
    CHECK(!exists(s->fd, "t"));
    return 0;
}

static void our_own_closed_directories_are_opened_up(void **state)
{
    scratch_give(*state);
    assert_int_equal(in_child(remove_closed_directories, *state), 0);
}

static int remove_deep_tree(void *arg)
{
    struct scratch *s = arg;
    char name[101];
    int fd = dup(s->fd);

    /* 40,000 bytes of path, ten times PATH_MAX; each second directory closed; a file in each. */
    CHECK(drop_root() == 0);
    memset(name, 'n', 100);
    name[100] = '\0';
    for (int i = 0; i < 400; i++) {
        CHECK(mkdirat(fd, name, 0700) == 0);
        int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        put_file(inner, "f", "x");
        if (i % 2)
            CHECK(fchmod(fd, 0500) == 0);
        close(fd);
        fd = inner;
    }
    close(fd);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }) == 0);
    CHECK(file_remove_tree(s->fd, name) == 0);
    CHECK(count_entries(s->path) == 0);
    return 0;
}

static void a_tree_deeper_than_paths_and_descriptors_goes_too(void **state)
{
    scratch_give(*state);
    assert_int_equal(in_child(remove_deep_tree, *state), 0);
}

static int remove_around_a_mount(void *arg)
{
    struct scratch *s = arg;
    char point[600];
    int fd;

    snprintf(point, sizeof(point), "%s/t/point", s->path);
    if (!have_private_mounts() || mount("tmpfs", point, "tmpfs", 0, NULL) < 0)
        return CHILD_SKIPS;
    fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(fd, "t/point/precious", "keep");
    CHECK(file_remove_tree(fd, "t") == -EBUSY);
    CHECK(!exists(fd, "t/f") && !exists(fd, "t/d"));
    CHECK(file_is(fd, "t/point/precious", "keep"));
    return 0;
}

static void a_mount_inside_is_not_emptied_and_the_rest_goes(void **state)
{
    struct scratch *s = *state;
    int r;

    assert_int_equal(mkdirat(s->fd, "t", 0755), 0);
    assert_int_equal(mkdirat(s->fd, "t/point", 0755), 0);
    assert_int_equal(mkdirat(s->fd, "t/d", 0755), 0);
    put_file(s->fd, "t/d/f", "x");
    put_file(s->fd, "t/f", "x");
    r = in_child(remove_around_a_mount, s);
    if (r == CHILD_SKIPS)
        skip();
    assert_int_equal(r, 0);
}

struct swapper {
    int fd;
    atomic_bool stop;
};

/* Exchanges a directory inside the tree with a link to one outside. */
static void *swap_for_ever(void *arg)
{
    struct swapper *w = arg;

    while (!atomic_load(&w->stop))
        syscall(SYS_renameat2, w->fd, "t/dir", w->fd, "t/link", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

static bool remove_and_look(int fd)
{
    mkdirat(fd, "t", 0755);
    mkdirat(fd, "t/dir", 0755);
    if (symlinkat("../outside", fd, "t/link") < 0 && errno != EEXIST)
        return false;
    close(openat(fd, "t/dir/precious", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    file_remove_tree(fd, "t");
    return exists(fd, "outside/precious");
}

/* In memory where that is possible, because a disk is too slow to hit the moment between looking and opening. */
static int remove_while_swapping(void *arg)
{
    struct scratch *s = arg;
    bool fast = have_private_mounts() && mount("tmpfs", s->path, "tmpfs", 0, NULL) == 0;
    struct swapper w = { .fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    bool whole = true;
    pthread_t thread;

    CHECK(mkdirat(w.fd, "outside", 0755) == 0);
    put_file(w.fd, "outside/precious", "keep");
    CHECK(pthread_create(&thread, NULL, swap_for_ever, &w) == 0);
    for (int i = 0; i < (fast ? (int) full_or_share(20000, 5000) : 200) && whole; i++)
        whole = remove_and_look(w.fd);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    CHECK(whole);
    CHECK(file_remove_tree(w.fd, "t") == 0);
    return 0;
}

static void swapping_directories_for_links_removes_nothing_outside(void **state)
{
    assert_int_equal(in_child(remove_while_swapping, *state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_tree_goes_whole_and_its_neighbours_stay),
        scratch_test(files_and_links_go_themselves),
        scratch_test(what_is_not_there_is_no_error),
        scratch_test(nothing_outside_can_be_named),
        scratch_test(our_own_closed_directories_are_opened_up),
        scratch_test(a_tree_deeper_than_paths_and_descriptors_goes_too),
        scratch_test(a_mount_inside_is_not_emptied_and_the_rest_goes),
        scratch_test(swapping_directories_for_links_removes_nothing_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
