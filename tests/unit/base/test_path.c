#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/path.h"

static void cleaning_gives_one_spelling(void **state)
{
    static const struct {
        const char *raw, *clean;
    } cases[] = {
        { "/", "/" },
        { "//", "/" },
        { ".", "/" },
        { "a", "/a" },
        { "/a/b", "/a/b" },
        { "//a///b//", "/a/b" },
        { "./a/./b/.", "/a/b" },
        { "/a/../b", "/b" },
        { "a/b/../../c", "/c" },
        { "a/..", "/" },
        { "/...", "/..." },
        { "/a..b/.c", "/a..b/.c" },
        { "/ a\n", "/ a\n" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(buf) struct buf b = BUF_EMPTY;

        buf_add_str(&b, "old");
        assert_int_equal(path_clean(cases[i].raw, strlen(cases[i].raw), &b), 0);
        assert_string_equal(b.data, cases[i].clean);
    }
}

static void cleaning_never_leaves_the_root(void **state)
{
    static const char *const bad[] = { "..", "/..", "a/../..", "/a/../../b", "./../a", "a/b/../../../c" };
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(path_clean(bad[i], strlen(bad[i]), &b), -EXDEV);
    assert_int_equal(path_clean("", 0, &b), -EINVAL);
    assert_int_equal(path_clean("a\0b", 3, &b), -EINVAL);
}

static void components_come_one_by_one(void **state)
{
    const char path[] = "//a/../bc//.", *at = path;
    static const char *const want[] = { "a", "..", "bc", "." };
    struct path_component c;
    size_t n = 0;

    (void) state;
    while (path_next_component(&at, path + strlen(path), &c)) {
        assert_true(n < ARRAY_LEN(want));
        assert_true(path_component_is(&c, want[n]));
        n++;
    }
    assert_int_equal(n, ARRAY_LEN(want));
    assert_false(path_next_component(&at, path + strlen(path), &c));
}

static void a_common_beginning_of_names_is_not_beneath(void **state)
{
    (void) state;
    assert_true(path_is_beneath("/", "/"));
    assert_true(path_is_beneath("/", "/a"));
    assert_true(path_is_beneath("/a", "/a"));
    assert_true(path_is_beneath("/a", "/a/b"));
    assert_false(path_is_beneath("/a", "/ab"));
    assert_false(path_is_beneath("/a/b", "/a"));
    assert_false(path_is_beneath("/a", "/"));
}

/* root/ is what we are confined to; outside/secret is what must never be reached. */
static int setup(void **state)
{
    int r = scratch_setup(state);
    struct scratch *s = *state;

    if (r < 0)
        return r;
    put_file(s->fd, "secret", "outside");
    if (mkdirat(s->fd, "root", 0755) < 0 || mkdirat(s->fd, "root/dir", 0755) < 0 || mkdirat(s->fd, "root/dir/sub", 0755) < 0 ||
        symlinkat("../secret", s->fd, "root/out") < 0 || symlinkat("..", s->fd, "root/up") < 0 ||
        symlinkat("dir", s->fd, "root/link") < 0 || symlinkat("/proc/self/root", s->fd, "root/magic") < 0)
        return -1;
    put_file(s->fd, "root/dir/sub/file", "inside");
    close(s->fd);
    snprintf(s->path + strlen(s->path), sizeof(s->path) - strlen(s->path), "/root");
    s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    struct scratch *s = *state;

    s->path[strlen(s->path) - strlen("/root")] = '\0';
    return scratch_teardown(state);
}

#define beneath_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void files_beneath_open(void **state)
{
    static const char *const good[] = { "dir/sub/file", "./dir//sub/./file" };
    struct scratch *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        autofd int fd = path_open_beneath(s->fd, good[i], O_RDONLY, 0);
        char got[16] = "";

        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(read(fd, got, sizeof(got) - 1), 6);
        assert_string_equal(got, "inside");
    }
}

static void the_directory_itself_is_a_dot(void **state)
{
    struct scratch *s = *state;
    autofd int fd = path_open_beneath(s->fd, ".", O_RDONLY | O_DIRECTORY, 0);
    struct stat a, b;

    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(fstat(s->fd, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
}

static void refusals_say_what_is_wrong(void **state)
{
    static const struct {
        const char *path;
        int flags, r;
    } cases[] = {
        { "", O_RDONLY, -ENOENT },
        { "..", O_PATH, -EXDEV },
        { "../secret", O_RDONLY, -EXDEV },
        { "dir/../dir/sub/file", O_RDONLY, -EXDEV },
        { "/etc", O_PATH, -EXDEV },
        { "missing", O_RDONLY, -ENOENT },
        { "dir/missing/file", O_RDONLY, -ENOENT },
        { "dir/sub/file/x", O_RDONLY, -ENOTDIR },
        { "dir/sub/file/", O_RDONLY, -ENOTDIR },
        { "out", O_RDONLY, -ELOOP },
        { "out", O_WRONLY | O_CREAT, -ELOOP },
        { "out", O_WRONLY | O_CREAT | O_EXCL, -EEXIST },
        { "up/secret", O_RDONLY, -ELOOP },
        { "link/sub/file", O_RDONLY, -ELOOP },
        { "link/", O_PATH, -ELOOP },
        { "link", O_RDONLY | O_DIRECTORY, -ENOTDIR },
        { "magic/etc", O_PATH, -ELOOP },
        { "dir", O_WRONLY, -EISDIR },
        { "new/", O_WRONLY | O_CREAT, -EISDIR },
    };
    struct scratch *s = *state;
    int before = count_fds();

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r = path_open_beneath(s->fd, cases[i].path, cases[i].flags, 0600);

        if (r != cases[i].r)
            fail_msg("'%s' gave %d instead of %d", cases[i].path, r, cases[i].r);
    }
    assert_int_equal(count_fds(), before);
}

static void a_name_too_long_is_refused(void **state)
{
    struct scratch *s = *state;
    char name[300];

    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(path_open_beneath(s->fd, name, O_RDONLY, 0), -ENAMETOOLONG);
    assert_int_equal(path_mkdirs_beneath(s->fd, name, 0700), -ENAMETOOLONG);
}

/* 300 components of 100 bytes: 30 KB, several times what the kernel takes at once. */
static void a_path_longer_than_the_kernel_takes_is_walked(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf path = BUF_EMPTY;
    struct stat st;
    int before = count_fds();

    for (int i = 0; i < 300; i++)
        buf_addf(&path, "%s%0100d", i ? "/" : "", i);
    assert_int_equal(path_mkdirs_beneath(s->fd, path.data, 0700), 0);
    size_t dir_len = path.len;
    buf_add_str(&path, "/file");
    autofd int fd = path_open_beneath(s->fd, path.data, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(path_stat_beneath(s->fd, path.data, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(path_unlink_beneath(s->fd, path.data, 0), 0);
    assert_int_equal(path_stat_beneath(s->fd, path.data, &st), -ENOENT);
    path.data[dir_len] = 0;
    assert_int_equal(path_unlink_beneath(s->fd, path.data, AT_REMOVEDIR), 0);
    /* A link half way is refused, as in a short path. */
    autofree char *half = strndup(path.data, 101 * 150 - 1);
    const char *name;
    autofd int parent = -1;
    assert_int_equal(path_open_parent_beneath(s->fd, half, &parent, &name), 0);
    assert_int_equal(renameat(parent, name, s->fd, "rest"), 0);
    assert_int_equal(symlinkat("/", parent, name), 0);
    assert_int_equal(path_open_beneath(s->fd, path.data, O_PATH, 0), -ELOOP);
    close(steal_fd(&fd));
    close(steal_fd(&parent));
    assert_int_equal(count_fds(), before);
}

static void a_link_can_be_held_but_not_followed(void **state)
{
    struct scratch *s = *state;
    autofd int fd = path_open_beneath(s->fd, "out", O_PATH, 0);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void creating_takes_the_mode_and_the_exclusive_flag(void **state)
{
    struct scratch *s = *state;
    autofd int fd = -1;
    struct stat st;
    mode_t before = umask(0);

    fd = path_open_beneath(s->fd, "dir/new", O_RDWR | O_CREAT | O_EXCL, S_IFREG | 0640);
    umask(before);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(path_open_beneath(s->fd, "dir/new", O_RDWR | O_CREAT | O_EXCL, 0640), -EEXIST);
    /* A mode given without O_CREAT is nothing to refuse. */
    close(fd);
    fd = path_open_beneath(s->fd, "dir/new", O_RDONLY, 0640);
    assert_true(fd >= 0);
}

static void the_parent_is_found_for_at_calls(void **state)
{
    struct scratch *s = *state;
    autofd int fd = -1, top = -1;
    const char *name = NULL;
    struct stat st;

    assert_int_equal(path_open_parent_beneath(s->fd, "dir/sub/file", &fd, &name), 0);
    assert_string_equal(name, "file");
    assert_int_equal(fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(path_open_parent_beneath(s->fd, "new", &top, &name), 0);
    assert_string_equal(name, "new");
    assert_int_equal(mkdirat(top, name, 0700), 0);
    assert_true(exists(s->fd, "new"));
}

static void a_parent_outside_is_not_found(void **state)
{
    static const struct {
        const char *path;
        int r;
    } cases[] = {
        { "../x", -EXDEV },  { "/x", -EXDEV },     { "dir/..", -EXDEV },
        { "up/x", -ELOOP },  { "", -ENOENT },      { ".", -EINVAL },
        { "dir/", -EINVAL }, { "dir/.", -EINVAL }, { "dir/sub/file/x", -ENOTDIR },
        { "no/x", -ENOENT },
    };
    struct scratch *s = *state;
    int before = count_fds();

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *name = "untouched";
        int fd = 77;

        assert_int_equal(path_open_parent_beneath(s->fd, cases[i].path, &fd, &name), cases[i].r);
        assert_int_equal(fd, 77);
        assert_string_equal(name, "untouched");
    }
    assert_int_equal(count_fds(), before);
}

static void missing_directories_are_made(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(path_mkdirs_beneath(s->fd, "dir/a/b/c", 0750), 0);
    assert_int_equal(path_mkdirs_beneath(s->fd, "dir/a/b/c", 0750), 0);
    assert_int_equal(path_mkdirs_beneath(s->fd, ".", 0750), 0);
    assert_true(exists(s->fd, "dir/a/b/c"));
}

static void no_directory_is_made_outside(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(path_mkdirs_beneath(s->fd, "../x", 0750), -EXDEV);
    assert_int_equal(path_mkdirs_beneath(s->fd, "up/x", 0750), -ELOOP);
    assert_int_equal(path_mkdirs_beneath(s->fd, "out", 0750), -ELOOP);
    assert_int_equal(path_mkdirs_beneath(s->fd, "dir/sub/file", 0750), -ENOTDIR);
    assert_int_equal(path_mkdirs_beneath(s->fd, "dir/sub/file/x", 0750), -ENOTDIR);
    assert_false(exists(s->fd, "../x"));
}

static void links_of_a_stranger_are_not_trusted(void **state)
{
    struct scratch *s = *state;
    autofree char *link = xprintf("%s/way/below", s->path), *direct = xprintf("%s/real/below", s->path);
    autofree char *target = xprintf("%s/real", s->path);

    assert_int_equal(path_mkdirs_beneath(s->fd, "real/below", 0755), 0);
    assert_int_equal(symlinkat(target, s->fd, "way"), 0);
    assert_int_equal(symlinkat("../loop", s->fd, "real/loop"), 0);
    assert_int_equal(symlinkat("real/loop", s->fd, "loop"), 0);
    autofd int a = path_open_trusted(direct, O_PATH | O_DIRECTORY), b = path_open_trusted(link, O_PATH | O_DIRECTORY);
    struct stat st_a, st_b;
    assert_true(a >= 0 && b >= 0 && fstat(a, &st_a) == 0 && fstat(b, &st_b) == 0);
    assert_int_equal(st_a.st_ino, st_b.st_ino);
    autofree char *loop = xprintf("%s/loop", s->path), *none = xprintf("%s/none/x", s->path);
    assert_int_equal(path_open_trusted(loop, O_PATH), -ELOOP);
    assert_int_equal(path_open_trusted(none, O_PATH), -ENOENT);
    /* Others may put another link there, or it is another's already. */
    assert_int_equal(fchmod(s->fd, 0777), 0);
    assert_int_equal(path_open_trusted(link, O_PATH | O_DIRECTORY), -ELOOP);
    assert_int_equal(fchmod(s->fd, 01777), 0);
    autofd int sticky = path_open_trusted(link, O_PATH | O_DIRECTORY);
    assert_true(sticky >= 0);
    if (geteuid() == 0) {
        assert_int_equal(fchownat(s->fd, "way", NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(path_open_trusted(link, O_PATH | O_DIRECTORY), -ELOOP);
    }
    assert_int_equal(fchmod(s->fd, 0700), 0);
}

struct swapper {
    int fd;
    atomic_bool stop;
};

/* Exchanges a directory with a link to the world outside, as fast as it can. */
static void *swap_for_ever(void *arg)
{
    struct swapper *w = arg;

    while (!atomic_load(&w->stop))
        syscall(SYS_renameat2, w->fd, "swap", w->fd, "up", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

static void swapping_a_directory_for_a_link_opens_nothing_outside(void **state)
{
    struct scratch *s = *state;
    struct swapper w = { .fd = s->fd };
    pthread_t thread;
    int opened = 0;

    assert_int_equal(path_mkdirs_beneath(s->fd, "swap", 0700), 0);
    put_file(s->fd, "swap/secret", "harmless");
    pthread_create(&thread, NULL, swap_for_ever, &w);
    for (int i = 0; i < 20000; i++) {
        autofd int fd = path_open_beneath(s->fd, "swap/secret", O_RDONLY, 0);
        char got[16] = "";

        if (fd < 0)
            continue;
        opened++;
        if (read(fd, got, sizeof(got) - 1) != 8 || strcmp(got, "harmless") != 0) {
            atomic_store(&w.stop, true);
            pthread_join(thread, NULL);
            fail_msg("read '%s'", got);
        }
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_true(opened > 0);
}

int main(void)
{
    static const int missing[] = { SYS_openat2 };
    const struct CMUnitTest lexical[] = {
        cmocka_unit_test(cleaning_gives_one_spelling),
        cmocka_unit_test(cleaning_never_leaves_the_root),
        cmocka_unit_test(components_come_one_by_one),
        cmocka_unit_test(a_common_beginning_of_names_is_not_beneath),
    };
    const struct CMUnitTest beneath[] = {
        beneath_test(files_beneath_open),
        beneath_test(the_directory_itself_is_a_dot),
        beneath_test(refusals_say_what_is_wrong),
        beneath_test(a_name_too_long_is_refused),
        beneath_test(a_path_longer_than_the_kernel_takes_is_walked),
        beneath_test(a_link_can_be_held_but_not_followed),
        beneath_test(creating_takes_the_mode_and_the_exclusive_flag),
        beneath_test(the_parent_is_found_for_at_calls),
        beneath_test(a_parent_outside_is_not_found),
        beneath_test(missing_directories_are_made),
        beneath_test(no_directory_is_made_outside),
        beneath_test(links_of_a_stranger_are_not_trusted),
        beneath_test(swapping_a_directory_for_a_link_opens_nothing_outside),
    };
    int failed = cmocka_run_group_tests(lexical, NULL, NULL);

    failed += cmocka_run_group_tests_name("with openat2", beneath, NULL, NULL);
    if (deny_syscalls(missing, ARRAY_LEN(missing)))
        failed += cmocka_run_group_tests_name("without openat2", beneath, NULL, NULL);
    return failed;
}
