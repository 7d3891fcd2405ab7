#include "fixture.h"

#include <sys/resource.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"

/* Collects "path\n" for each entry, sorted afterwards. */
struct trace {
    struct buf seen;
    const char *skip, *stop, *fail, *remove;
};

static int note(const struct file_entry *entry, void *cookie)
{
    struct trace *t = cookie;
    struct stat st;

    if (strlen(entry->path) != entry->path_len || fstatat(entry->dirfd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        st.st_ino != entry->st->st_ino)
        return -EBADMSG;
    buf_addf(&t->seen, "[%s]%u", entry->path, entry->depth);
    if (t->remove && strcmp(entry->path, t->remove) == 0)
        forget(entry->dirfd, entry->name);
    if (t->fail && strcmp(entry->path, t->fail) == 0)
        return -EOWNERDEAD;
    if (t->stop && strcmp(entry->path, t->stop) == 0)
        return FILE_WALK_STOP;
    return t->skip && strcmp(entry->path, t->skip) == 0 ? FILE_WALK_SKIP : FILE_WALK_ON;
}

static void trace_done(struct trace *t)
{
    buf_done(&t->seen);
}

static int setup(void **state)
{
    int r = scratch_setup(state);
    struct scratch *s = *state;

    if (r < 0 || mkdirat(s->fd, "a", 0755) < 0 || mkdirat(s->fd, "a/b", 0755) < 0 || symlinkat("..", s->fd, "a/b/up") < 0 ||
        symlinkat("/", s->fd, "root") < 0 || mkfifoat(s->fd, "fifo", 0600) < 0)
        return -1;
    put_file(s->fd, "a/f", "");
    put_file(s->fd, "a/b/g", "");
    return 0;
}

#define walk_test(f) cmocka_unit_test_setup_teardown(f, setup, scratch_teardown)

static void everything_is_visited_once_and_no_link_followed(void **state)
{
    static const char *const want[] = { "[a]1", "[a/b]2", "[a/b/up]3", "[a/b/g]3", "[a/f]2", "[root]1", "[fifo]1" };
    struct scratch *s = *state;
    autodone(trace) struct trace t = { .seen = BUF_EMPTY };
    size_t len = 0;
    int before = count_fds();

    assert_int_equal(file_walk(s->fd, ".", note, &t, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_non_null(strstr(t.seen.data, want[i]));
        len += strlen(want[i]);
    }
    assert_int_equal(t.seen.len, len);
    assert_true(strstr(t.seen.data, "[a]") < strstr(t.seen.data, "[a/b]"));
    assert_int_equal(count_fds(), before);
}

static void a_walk_may_begin_below(void **state)
{
    struct scratch *s = *state;
    autodone(trace) struct trace t = { .seen = BUF_EMPTY };
    struct err err = ERR_NONE;

    assert_int_equal(file_walk(s->fd, "a/b", note, &t, NULL), 0);
    assert_non_null(strstr(t.seen.data, "[g]1"));
    assert_int_equal(file_walk(s->fd, "a/b/up", note, &t, NULL), -ENOTDIR);
    assert_int_equal(file_walk(s->fd, "..", note, &t, NULL), -EXDEV);
    assert_int_equal(file_walk(s->fd, "nothing", note, &t, &err), -ENOENT);
    assert_string_equal(err.text, "reading directory 'nothing': No such file or directory");
}

static void the_callback_can_skip_stop_and_fail(void **state)
{
    struct scratch *s = *state;
    autodone(trace) struct trace skips = { .seen = BUF_EMPTY, .skip = "a" }, stops = { .seen = BUF_EMPTY, .stop = "a" },
                                 fails = { .seen = BUF_EMPTY, .fail = "a/b/g" };
    int before = count_fds();

    assert_int_equal(file_walk(s->fd, ".", note, &skips, NULL), 0);
    assert_null(strstr(skips.seen.data, "a/"));
    assert_int_equal(file_walk(s->fd, ".", note, &stops, NULL), 1);
    assert_string_equal(strstr(stops.seen.data, "[a]"), "[a]1");
    assert_int_equal(file_walk(s->fd, ".", note, &fails, NULL), -EOWNERDEAD);
    assert_int_equal(count_fds(), before);
}

static void what_vanishes_during_the_walk_is_passed_over(void **state)
{
    struct scratch *s = *state;
    autodone(trace) struct trace t = { .seen = BUF_EMPTY, .remove = "a" };

    assert_int_equal(file_walk(s->fd, ".", note, &t, NULL), 0);
    assert_non_null(strstr(t.seen.data, "[root]1"));
    assert_null(strstr(t.seen.data, "[a/"));
}

static int replace_by_link(const struct file_entry *entry, void *cookie)
{
    ++*(int *) cookie;
    if (strcmp(entry->path, "a") == 0) {
        forget(entry->dirfd, "a");
        return symlinkat("/", entry->dirfd, "a") < 0 ? -errno : FILE_WALK_ON;
    }
    return FILE_WALK_ON;
}

static void a_directory_replaced_by_a_link_is_not_entered(void **state)
{
    struct scratch *s = *state;
    int visited = 0;

    assert_int_equal(file_walk(s->fd, ".", replace_by_link, &visited, NULL), 0);
    assert_true(visited <= 4); /* a, root, fifo and perhaps the new link; never what is in / */
}

static void make_deep(int dirfd, int levels)
{
    int fd = dup(dirfd);

    for (int i = 0; i < levels; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int inner = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = inner;
    }
    close(fd);
}

static int count(const struct file_entry *entry, void *cookie)
{
    (void) entry;
    ++*(int *) cookie;
    return FILE_WALK_ON;
}

static void a_tree_too_deep_is_refused_and_not_half_reported(void **state)
{
    struct scratch *s = *state;
    struct err err = ERR_NONE;
    int visited = 0, before = count_fds();

    make_deep(s->fd, FILE_WALK_DEPTH_MAX);
    assert_int_equal(file_walk(s->fd, "d", count, &visited, &err), 0);
    assert_int_equal(visited, FILE_WALK_DEPTH_MAX - 1);
    assert_int_equal(mkdirat(s->fd, "e", 0700), 0);
    assert_int_equal(renameat(s->fd, "d", s->fd, "e/d"), 0);
    assert_int_equal(mkdirat(s->fd, "f", 0700), 0);
    assert_int_equal(renameat(s->fd, "e", s->fd, "f/e"), 0);
    assert_int_equal(file_walk(s->fd, ".", count, &visited, &err), -ENAMETOOLONG);
    assert_non_null(strstr(err.text, "f/e/d/d"));
    assert_int_equal(count_fds(), before);
}

/* Both ways back up: by the directory's "..", and by its path where something was moved meanwhile. */
static int move_at_the_bottom(const struct file_entry *entry, void *cookie)
{
    struct scratch *s = cookie;

    if (strcmp(entry->name, "bottom") == 0 && renameat(s->fd, "top/d", s->fd, "other") < 0)
        return -errno;
    return strcmp(entry->path, "top/z") == 0 ? -EOWNERDEAD : FILE_WALK_ON;
}

static void a_deep_tree_is_walked_with_few_descriptors(void **state)
{
    struct scratch *s = *state;
    struct rlimit few, all;
    int visited = 0;

    make_deep(s->fd, FILE_WALK_DEPTH_MAX);
    getrlimit(RLIMIT_NOFILE, &all);
    few = (struct rlimit){ (rlim_t) count_fds() + 80, all.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = file_walk_sorted(s->fd, "d", count, &visited, NULL);
    setrlimit(RLIMIT_NOFILE, &all);
    assert_int_equal(r, 0);
    assert_int_equal(visited, FILE_WALK_DEPTH_MAX - 1);
}

static void a_walk_finds_its_way_back_when_directories_are_moved(void **state)
{
    struct scratch *s = *state;
    int before = count_fds();

    make_deep(s->fd, 150);
    assert_int_equal(renameat(s->fd, "d", s->fd, "top"), 0);
    put_file(s->fd, "top/z", "");
    int at = openat(s->fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 1; i < 150; i++) {
        int inner = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = inner;
    }
    put_file(at, "bottom", "");
    close(at);
    assert_int_equal(file_walk_sorted(s->fd, ".", move_at_the_bottom, s, NULL), -EOWNERDEAD);
    assert_int_equal(count_fds(), before);
}

static int walk_as_user(void *arg)
{
    struct scratch *s = arg;
    struct err err = ERR_NONE;
    int visited = 0;

    CHECK(drop_root() == 0);
    CHECK(mkdirat(s->fd, "closed\n", 0000) == 0);
    CHECK(file_walk(s->fd, ".", count, &visited, &err) == -EACCES);
    CHECK(strcmp(err.text, "reading directory 'closed\\n': Permission denied") == 0);
    CHECK(err.code == ERR_PERMISSION_DENIED);
    return 0;
}

static void a_directory_that_cannot_be_read_is_named(void **state)
{
    scratch_give(*state);
    assert_int_equal(in_child(walk_as_user, *state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        walk_test(everything_is_visited_once_and_no_link_followed),
        walk_test(a_walk_may_begin_below),
        walk_test(the_callback_can_skip_stop_and_fail),
        walk_test(what_vanishes_during_the_walk_is_passed_over),
        walk_test(a_directory_replaced_by_a_link_is_not_entered),
        scratch_test(a_deep_tree_is_walked_with_few_descriptors),
        scratch_test(a_walk_finds_its_way_back_when_directories_are_moved),
        scratch_test(a_tree_too_deep_is_refused_and_not_half_reported),
        scratch_test(a_directory_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
