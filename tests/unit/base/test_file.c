#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"

static void a_file_appears_with_its_bytes_and_exactly_its_mode(void **state)
{
    struct scratch *s = *state;
    mode_t before = umask(077);
    struct stat st;

    assert_int_equal(mkdirat(s->fd, "d", 0700), 0);
    assert_int_equal(file_replace(s->fd, "d/f", "hello", 5, 0644), 0);
    umask(before);
    assert_file_is(s->fd, "d/f", "hello");
    assert_int_equal(fstatat(s->fd, "d/f", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

static void an_old_file_is_replaced_and_nothing_else_is_left(void **state)
{
    struct scratch *s = *state;
    int before = count_fds();

    put_file(s->fd, "f", "the old one, which was longer");
    assert_int_equal(file_replace(s->fd, "f", "new", 3, 0600), 0);
    assert_int_equal(file_replace(s->fd, "empty", NULL, 0, 0600), 0);
    assert_file_is(s->fd, "f", "new");
    assert_file_is(s->fd, "empty", "");
    assert_int_equal(count_entries(s->path), 2);
    assert_int_equal(count_fds(), before);
}

static int replace_beyond_the_limit(void *arg)
{
    struct scratch *s = arg;
    const struct rlimit limit = { 4096, 4096 };
    char *bytes = xalloc(100000);

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(file_replace(s->fd, "f", bytes, 100000, 0600) == -EFBIG);
    free(bytes);
    return 0;
}

static void when_the_bytes_do_not_fit_the_old_file_stays(void **state)
{
    struct scratch *s = *state;

    put_file(s->fd, "f", "old");
    assert_int_equal(in_child(replace_beyond_the_limit, s), 0);
    assert_file_is(s->fd, "f", "old");
    assert_int_equal(count_entries(s->path), 1);
}

static int replace_on_a_full_disk(void *arg)
{
    struct scratch *s = arg;
    char *bytes = xalloc(1 << 20);
    int fd;

    if (!have_private_mounts() || mount("tmpfs", s->path, "tmpfs", 0, "size=64k") < 0)
        return CHILD_SKIPS;
    fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(file_replace(fd, "f", "old", 3, 0600) == 0);
    CHECK(file_replace(fd, "f", bytes, 1 << 20, 0600) == -ENOSPC);
    CHECK(count_entries(s->path) == 1);
    CHECK(file_is(fd, "f", "old"));
    free(bytes);
    return 0;
}

static void on_a_full_disk_the_old_file_stays(void **state)
{
    int r = in_child(replace_on_a_full_disk, *state);

    if (r == CHILD_SKIPS)
        skip();
    assert_int_equal(r, 0);
}

static int replace_without_descriptors(void *arg)
{
    struct scratch *s = arg;
    int spare = 0, last = -1, fd;

    /* With 0, 1, 2 ... free descriptors: each fails whole, until there are enough. */
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }) == 0);
    while ((fd = dup(2)) >= 0)
        last = fd;
    for (;; spare++) {
        int r = file_replace(s->fd, "f", "new", 3, 0600);

        if (r == 0)
            break;
        CHECK(r == -EMFILE);
        CHECK(spare < 8);
        close(last--);
        CHECK(fstatat(s->fd, "f", &(struct stat){ 0 }, 0) == 0);
    }
    CHECK(spare > 0);
    return 0;
}

static void without_descriptors_the_old_file_stays(void **state)
{
    struct scratch *s = *state;

    put_file(s->fd, "f", "old");
    assert_int_equal(in_child(replace_without_descriptors, s), 0);
    assert_file_is(s->fd, "f", "new");
    assert_int_equal(count_entries(s->path), 1);
}

static void what_cannot_be_replaced_leaves_no_temporary_file(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(mkdirat(s->fd, "dir", 0700), 0);
    put_file(s->fd, "plain", "x");
    assert_int_equal(file_replace(s->fd, "dir", "x", 1, 0600), -EISDIR);
    assert_int_equal(file_replace(s->fd, "missing/f", "x", 1, 0600), -ENOENT);
    assert_int_equal(file_replace(s->fd, "plain/f", "x", 1, 0600), -ENOTDIR);
    assert_int_equal(file_replace(s->fd, "../f", "x", 1, 0600), -EXDEV);
    assert_int_equal(count_entries(s->path), 2);
}

static void a_link_under_the_name_is_replaced_and_not_followed(void **state)
{
    struct scratch *s = *state;
    struct stat st;

    put_file(s->fd, "target", "keep me");
    assert_int_equal(symlinkat("target", s->fd, "link"), 0);
    assert_int_equal(file_replace(s->fd, "link", "new", 3, 0600), 0);
    assert_file_is(s->fd, "target", "keep me");
    assert_int_equal(fstatat(s->fd, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(symlinkat("..", s->fd, "up"), 0);
    assert_int_equal(file_replace(s->fd, "up/escaped", "x", 1, 0600), -ELOOP);
}

static void pieces_become_visible_at_once(void **state)
{
    struct scratch *s = *state;
    struct file_pending pending;

    put_file(s->fd, "f", "old");
    assert_int_equal(file_replace_begin(s->fd, "f", 0600, &pending), 0);
    assert_int_equal(fd_write_full(pending.fd, "one ", 4), 0);
    assert_file_is(s->fd, "f", "old");
    assert_int_equal(fd_write_full(pending.fd, "two", 3), 0);
    assert_int_equal(file_replace_commit(&pending), 0);
    file_replace_abort(&pending);
    assert_file_is(s->fd, "f", "one two");
    assert_int_equal(count_entries(s->path), 1);
}

static void an_abort_leaves_everything_as_it_was(void **state)
{
    struct scratch *s = *state;
    struct file_pending pending = FILE_PENDING_NONE;
    int before = count_fds();

    put_file(s->fd, "f", "old");
    file_replace_abort(&pending);
    assert_int_equal(file_replace_begin(s->fd, "f", 0600, &pending), 0);
    assert_int_equal(fd_write_full(pending.fd, "half", 4), 0);
    file_replace_abort(&pending);
    file_replace_abort(&pending);
    assert_file_is(s->fd, "f", "old");
    assert_int_equal(count_entries(s->path), 1);
    assert_int_equal(count_fds(), before);
}

struct reader {
    struct scratch *s;
    atomic_bool stop;
    int torn, seen;
};

static void *read_over_and_over(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->stop)) {
        autodone(buf) struct buf b = BUF_EMPTY;

        if (file_read(r->s->fd, "f", 1 << 20, &b) != 0 || b.len != 30000)
            r->torn++;
        for (size_t i = 1; i < b.len; i++)
            r->torn += b.data[i] != b.data[0];
        r->seen++;
    }
    return NULL;
}

static void a_reader_never_sees_a_mixture(void **state)
{
    struct reader r = { .s = *state };
    autofree char *bytes = xalloc(30000);
    pthread_t thread;

    memset(bytes, 'a', 30000);
    assert_int_equal(file_replace(r.s->fd, "f", bytes, 30000, 0600), 0);
    pthread_create(&thread, NULL, read_over_and_over, &r);
    for (int i = 0; i < 100; i++) {
        memset(bytes, 'a' + i % 26, 30000);
        if (file_replace(r.s->fd, "f", bytes, 30000, 0600) != 0)
            r.torn++;
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(r.torn, 0);
    assert_true(r.seen > 0);
}

static void reading_is_bounded(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf b = BUF_EMPTY;

    put_file(s->fd, "f", "12345");
    assert_int_equal(file_read(s->fd, "f", 5, &b), 0);
    assert_string_equal(b.data, "12345");
    buf_clear(&b);
    assert_int_equal(file_read(s->fd, "f", 4, &b), -EFBIG);
}

static int read_what_could_block(void *arg)
{
    struct scratch *s = arg;
    autodone(buf) struct buf b = BUF_EMPTY;

    alarm(60);
    CHECK(file_read(s->fd, "fifo", 100, &b) == -EINVAL);
    CHECK(file_read(s->fd, "sock", 100, &b) == -EINVAL);
    CHECK(b.len == 0);
    return 0;
}

static void nothing_is_waited_for(void **state)
{
    struct scratch *s = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    autofd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(mkfifoat(s->fd, "fifo", 0600), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/sock", s->fd);
    assert_int_equal(bind(sock, (struct sockaddr *) &address, sizeof(address)), 0);
    assert_int_equal(in_child(read_what_could_block, s), 0);
}

static void only_regular_files_beneath_are_read(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf b = BUF_EMPTY;
    int before = count_fds();

    assert_int_equal(mkdirat(s->fd, "dir", 0700), 0);
    assert_int_equal(symlinkat("/etc/passwd", s->fd, "link"), 0);
    assert_int_equal(file_read(s->fd, "dir", 100, &b), -EISDIR);
    assert_int_equal(file_read(s->fd, "link", 100, &b), -ELOOP);
    assert_int_equal(file_read(s->fd, "missing", 100, &b), -ENOENT);
    assert_int_equal(file_read(s->fd, "../x", 100, &b), -EXDEV);
    assert_int_equal(b.len, 0);
    assert_int_equal(count_fds(), before);
}

static void a_directory_can_be_synced_through_o_path(void **state)
{
    struct scratch *s = *state;
    autofd int fd = open(s->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(file_fsync_dir(fd), 0);
    assert_int_equal(file_fsync_dir(s->fd), 0);
    put_file(s->fd, "f", "");
    autofd int file = openat(s->fd, "f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_fsync_dir(file), -ENOTDIR);
}

static int replace_opened(int dirfd, const char *name, const char *text, int fd)
{
    struct file_pending pending;
    int r = file_replace_begin(dirfd, name, 0600, &pending);

    if (r < 0)
        return r;
    if (write(pending.fd, text, strlen(text)) != (ssize_t) strlen(text))
        return -EIO;
    return file_replace_commit_opened(&pending, fd);
}

static void a_descriptor_goes_over_to_the_replacement(void **state)
{
    struct scratch *s = *state;
    autofd int fd = openat(s->fd, "log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int number = fd;
    char text[16] = "";

    assert_int_equal(write(fd, "old old", 7), 7);
    assert_int_equal(replace_opened(s->fd, "log", "new", fd), 0);
    assert_int_equal(fd, number);
    assert_int_equal(write(fd, "er", 2), 2);
    assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), 5);
    assert_string_equal(text, "newer");
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    autofd int named = openat(s->fd, "log", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(named, text, sizeof(text)), 5);
}

static int replace_opened_without_descriptors(void *arg)
{
    struct scratch *s = arg;
    struct stat ours, named;
    int log = openat(s->fd, "log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600), spare = 0, last = -1, fd, r;

    CHECK(log >= 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }) == 0);
    while ((fd = dup(2)) >= 0)
        last = fd;
    do {
        r = replace_opened(s->fd, "log", "new", log);
        CHECK(r == 0 || r == -EMFILE);
        CHECK(fstat(log, &ours) == 0 && fstatat(s->fd, "log", &named, 0) == 0 && ours.st_ino == named.st_ino);
        close(last--);
        CHECK(spare++ < 8);
    } while (r < 0);
    CHECK(spare > 3); /* the directory's, the new file's, and one to go on with */
    return 0;
}

static void without_descriptors_it_stands_for_the_file_that_has_the_name(void **state)
{
    struct scratch *s = *state;

    assert_int_equal(in_child(replace_opened_without_descriptors, s), 0);
    assert_file_is(s->fd, "log", "new");
    assert_int_equal(count_entries(s->path), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_file_appears_with_its_bytes_and_exactly_its_mode),
        scratch_test(an_old_file_is_replaced_and_nothing_else_is_left),
        scratch_test(when_the_bytes_do_not_fit_the_old_file_stays),
        scratch_test(on_a_full_disk_the_old_file_stays),
        scratch_test(without_descriptors_the_old_file_stays),
        scratch_test(what_cannot_be_replaced_leaves_no_temporary_file),
        scratch_test(a_link_under_the_name_is_replaced_and_not_followed),
        scratch_test(pieces_become_visible_at_once),
        scratch_test(an_abort_leaves_everything_as_it_was),
        scratch_test(a_reader_never_sees_a_mixture),
        scratch_test(reading_is_bounded),
        scratch_test(nothing_is_waited_for),
        scratch_test(only_regular_files_beneath_are_read),
        scratch_test(a_directory_can_be_synced_through_o_path),
        scratch_test(a_descriptor_goes_over_to_the_replacement),
        scratch_test(without_descriptors_it_stands_for_the_file_that_has_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
