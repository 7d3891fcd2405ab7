#include "fence_fixture.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "fence/quota.h"

#define KIB ((size_t) 1 << 10)
#define MIB ((size_t) 1 << 20)

static const char *const all_write[] = { "/**=write", NULL };

static void a_quota_says_no_at_its_limit(void **state)
{
    struct quota q = { 0 };

    (void) state;
    quota_init(&q, 100, 2);
    assert_int_equal(quota_reserve(&q, 60, 1), 0);
    assert_int_equal(quota_reserve(&q, 41, 0), -ENOSPC);
    assert_int_equal(quota_reserve(&q, 40, 1), 0);
    assert_int_equal(quota_reserve(&q, 0, 1), -ENOSPC);
    assert_int_equal(quota_reserve(&q, 1, 0), -ENOSPC);
    quota_release(&q, 100, 2);
    assert_int_equal(quota_reserve(&q, 100, 2), 0);
    quota_done(&q);
}

static void a_refusal_takes_nothing(void **state)
{
    struct quota q = { 0 };

    (void) state;
    quota_init(&q, 100, 1);
    assert_int_equal(quota_reserve(&q, 50, 2), -ENOSPC);
    assert_int_equal(quota_reserve(&q, 100, 1), 0);
    quota_done(&q);
}

static void giving_back_too_much_stops_at_zero(void **state)
{
    struct quota q = { 0 };
    uint64_t shown[4];

    (void) state;
    quota_init(&q, 4096 * 10, 10);
    quota_release(&q, 1000000, 1000);
    quota_statfs(&q, 4096, shown);
    assert_int_equal(shown[0], 10);
    assert_int_equal(shown[1], 10);
    assert_int_equal(shown[3], 10);
    quota_done(&q);
}

static void a_write_beyond_the_quota_is_refused_and_a_replacing_one_is_not(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", NULL };
    struct entry_answer answer;
    static char block[64 << 10];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, rules, 256 << 10);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "f", S_IFREG | 0644, &answer), 0);
    memset(block, 'x', sizeof(block));
    off_t at = 0;
    ssize_t n;
    while ((n = op_write(x.fence, &nobody, answer.inode, sizeof(block), at, write_from, block)) > 0)
        at += n;
    assert_int_equal(n, -ENOSPC);
    assert_true(at >= 128 << 10 && at <= 256 << 10);
    assert_int_equal(op_write(x.fence, &nobody, answer.inode, sizeof(block), 0, write_from, block), sizeof(block));
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    inode_forget(x.fence, answer.inode, 1);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "g", S_IFREG | 0644, &answer), 0);
    assert_int_equal(op_write(x.fence, &nobody, answer.inode, sizeof(block), 0, write_from, block), sizeof(block));
    fixture_done(&x);
}

/* ---- how a file in the delta counts ---- */

static char bytes_to_write[MIB];

static ssize_t write_bytes(struct fixture *x, struct inode *inode, size_t size, off_t offset)
{
    memset(bytes_to_write, 'x', sizeof(bytes_to_write));
    return op_write(x->fence, &nobody, inode, size, offset, write_from, bytes_to_write);
}

static struct inode *new_file(struct fixture *x, const char *name)
{
    struct entry_answer answer;

    assert_int_equal(op_mknod(x->fence, &nobody, x->fence->root, name, S_IFREG | 0644, &answer), 0);
    return answer.inode;
}

static void set_size(struct fixture *x, struct inode *inode, off_t size)
{
    struct stat to = { .st_size = size };
    struct entry_answer answer;

    assert_int_equal(op_setattr(x->fence, &nobody, inode, &to, SETATTR_SIZE, &answer), 0);
}

static int open_in_delta(struct fixture *x, const char *name)
{
    autofree char *path = xprintf("delta/data/%s", name);
    int fd = openat(x->fd, path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void assert_counts_for_what_it_occupies(struct fixture *x, const char *name)
{
    autofd int fd = open_in_delta(x, name);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(x->fence->quota.bytes, quota_bytes_of(&st));
}

static void space_reserved_beyond_the_end_does_not_pay_for_a_hole(void **state)
{
    struct fixture x;
    const size_t n = 768 * KIB, piece = 64 * KIB;
    struct inode *f;
    size_t at = 0;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    f = new_file(&x, "f");
    set_size(&x, f, (off_t) n);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, FALLOC_FL_KEEP_SIZE, (off_t) n, (off_t) n), 0);
    assert_counts_for_what_it_occupies(&x, "f");
    while (at < n && write_bytes(&x, f, piece, (off_t) at) == (ssize_t) piece)
        at += piece;
    assert_true(at > 0 && at <= MIB - n);
    assert_int_equal(write_bytes(&x, f, piece, (off_t) at), -ENOSPC);
    assert_int_equal(write_bytes(&x, f, 1, (off_t) n - 1), at + piece <= MIB - n ? 1 : -ENOSPC);
    assert_counts_for_what_it_occupies(&x, "f");
    assert_true(x.fence->quota.bytes <= MIB);
    set_size(&x, f, 0);
    assert_int_equal(x.fence->quota.bytes, 0);
    fixture_done(&x);
}

static void what_is_there_needs_no_room(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    f = new_file(&x, "f");
    assert_int_equal(write_bytes(&x, f, 900 * KIB, 0), 900 * KIB);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, 900 * KIB), 0);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, FALLOC_FL_ZERO_RANGE, 0, 4 * KIB), 0);
    assert_int_equal(write_bytes(&x, f, 950 * KIB, 0), 950 * KIB);
    assert_int_equal(write_bytes(&x, f, 74 * KIB, 950 * KIB), 74 * KIB);
    assert_counts_for_what_it_occupies(&x, "f");
    assert_int_equal(x.fence->quota.bytes, MIB);
    assert_int_equal(write_bytes(&x, f, MIB, 0), MIB);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, MIB), 0);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, MIB + 1), -ENOSPC);
    assert_int_equal(write_bytes(&x, f, 2, MIB - 1), -ENOSPC);
    fixture_done(&x);
}

static void only_the_holes_of_a_range_need_room(void **state)
{
    struct fixture x;
    struct inode *f;
    const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    f = new_file(&x, "f");
    assert_int_equal(write_bytes(&x, f, MIB, 0), MIB);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, punch, 128 * KIB, 64 * KIB), 0);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, punch, 512 * KIB, 64 * KIB), 0);
    assert_int_equal(write_bytes(&x, new_file(&x, "g"), 64 * KIB, 0), 64 * KIB);
    assert_int_equal(write_bytes(&x, f, MIB, 0), -ENOSPC);
    assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, MIB), -ENOSPC);
    assert_int_equal(write_bytes(&x, f, 448 * KIB, 64 * KIB), 448 * KIB);
    assert_int_equal(x.fence->quota.bytes, MIB);
    assert_int_equal(write_bytes(&x, f, 1, 512 * KIB), -ENOSPC);
    fixture_done(&x);
}

static bool tells_what_is_reserved(int fd)
{
    struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET };

    return ioctl(fd, FS_IOC_FIEMAP, &map) == 0;
}

static void what_was_reserved_can_be_written_when_nothing_is_left(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    f = new_file(&x, "f");
    autofd int fd = open_in_delta(&x, "f");
    if (tells_what_is_reserved(fd)) {
        assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, MIB), 0);
        assert_int_equal(op_fallocate(x.fence, &nobody, f, 0, 0, MIB), 0);
        assert_int_equal(write_bytes(&x, f, 100 * KIB, 300 * KIB), 100 * KIB);
        assert_int_equal(write_bytes(&x, f, MIB, 0), MIB);
        assert_counts_for_what_it_occupies(&x, "f");
        set_size(&x, f, 0);
        assert_int_equal(op_fallocate(x.fence, &nobody, f, FALLOC_FL_KEEP_SIZE, 0, MIB), 0);
        assert_int_equal(write_bytes(&x, f, MIB, 0), MIB);
        assert_int_equal(x.fence->quota.bytes, MIB);
    }
    fixture_done(&x);
}

/* Reserved space up to TRIFLE is not counted. */
static void a_trifle_that_was_reserved_is_paid_for_when_it_is_written(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    f = new_file(&x, "f");
    assert_int_equal(op_fallocate(x.fence, &nobody, f, FALLOC_FL_KEEP_SIZE, 0, 64 * KIB), 0);
    assert_int_equal(write_bytes(&x, new_file(&x, "g"), MIB, 0), MIB);
    assert_int_equal(write_bytes(&x, f, 64 * KIB, 0), -ENOSPC);
    assert_true(x.fence->quota.bytes <= MIB);
    fixture_done(&x);
}

static void attributes_give_no_credit(void **state)
{
    struct fixture x;
    static char value[2000];
    struct inode *f;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    assert_int_equal(write_bytes(&x, new_file(&x, "g"), 512 * KIB, 0), 512 * KIB);
    f = new_file(&x, "f");
    set_size(&x, f, MIB);
    op_setxattr(x.fence, &nobody, f, "user.a", value, sizeof(value), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    inode_forget(x.fence, f, 1);
    assert_int_equal(x.fence->quota.bytes, 512 * KIB);
    fixture_done(&x);
}

/* It is open and written to after it lost its name: the copy has no name to count. */
static void a_copy_without_a_name_is_given_back_whole(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "text");
    fixture_open(&x, all_write, MIB);
    f = walk(&x, "f", NULL);
    assert_content(&x, f, "text");
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    assert_int_equal(x.fence->quota.inodes, 1);
    assert_int_equal(write_text(&x, f, "more", 4), 4);
    assert_int_equal(x.fence->quota.bytes, 4 * KIB);
    assert_int_equal(x.fence->quota.dead_bytes, 4 * KIB);
    inode_forget(x.fence, f, 1);
    assert_int_equal(x.fence->quota.bytes, 0);
    assert_int_equal(x.fence->quota.dead_bytes, 0);
    assert_int_equal(x.fence->quota.inodes, 1);
    fixture_done(&x);
}

/* Its blocks beyond the end stay allocated. */
static void a_copy_counts_for_itself_and_not_for_the_file_of_the_base(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "text");
    autofd int fd = openat(x.fd, "base/f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 2 * MIB), 0);
    fixture_open(&x, all_write, MIB);
    f = walk(&x, "f", NULL);
    assert_int_equal(write_text(&x, f, "more", 4), 4);
    assert_counts_for_what_it_occupies(&x, "f");
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    inode_forget(x.fence, f, 1);
    assert_int_equal(x.fence->quota.bytes, 0);
    fixture_done(&x);
}

/* ---- removing a directory ---- */

static struct ruleset *rules_of(const char *const *rules)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    struct ruleset *set;
    struct err err = ERR_NONE;

    for (; *rules; rules++)
        assert_int_equal(rule_list_add_short(&list, *rules, &err), 0);
    assert_int_equal(ruleset_new(&list, NULL, &set, &err), 0);
    return set;
}

static struct inode *make_large(struct fixture *x, const char *dir, const char *name)
{
    struct inode *inode = make_file(x, dir, name, "");

    assert_int_equal(write_bytes(x, inode, 64 * KIB, 0), 64 * KIB);
    return inode;
}

static void assert_content_begins(struct fixture *x, struct inode *inode)
{
    char byte = 0;

    assert_int_equal(op_read(x->fence, &nobody, inode, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
}

static void make_link(struct fixture *x, struct inode *inode, const char *dir, const char *name)
{
    struct entry_answer answer;

    assert_int_equal(op_link(x->fence, &nobody, inode, *dir ? walk(x, dir, NULL) : x->fence->root, name, &answer), 0);
}

/* d has a file of its own, one with two names and one deeper down; `kept` has a second name outside. */
static void make_tree(struct fixture *x)
{
    make_dir(x, "", "d");
    make_dir(x, "", "e");
    make_dir(x, "d", "h");
    make_large(x, "d/h", "one");
    make_link(x, make_large(x, "d/h", "two"), "d/h", "second");
    make_dir(x, "d/h", "deep");
    make_large(x, "d/h/deep", "three");
    make_link(x, make_large(x, "d/h", "kept"), "", "outside");
    assert_int_equal(x->fence->quota.bytes, 256 * KIB);
    assert_int_equal(x->fence->quota.inodes, 10);
}

static const char *const hiding[] = { "/**=write", "/d/h=none@10", "/d/h/**=none@10", NULL };

static void removing_a_directory_gives_back_what_is_hidden_in_it(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    make_tree(&x);
    fixture_close(&x);
    fixture_open(&x, hiding, MIB);
    assert_int_equal(x.fence->quota.bytes, 256 * KIB);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_int_equal(x.fence->quota.inodes, 2);
    assert_int_equal(x.fence->quota.bytes, 64 * KIB);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "outside"), 0);
    assert_int_equal(x.fence->quota.bytes, 0);
    fixture_done(&x);
}

/* The kernel still knows them, as if they were open. */
static void what_is_hidden_and_open_is_given_back_when_it_is_forgotten(void **state)
{
    struct fixture x;
    struct inode *files[4];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    make_tree(&x);
    fixture_close(&x);
    fixture_open(&x, all_write, MIB);
    files[0] = walk(&x, "d/h/one", NULL);
    files[1] = walk(&x, "d/h/two", NULL);
    files[2] = walk(&x, "d/h/deep/three", NULL);
    files[3] = walk(&x, "d/h/kept", NULL);
    assert_content_begins(&x, files[0]);
    autoptr(ruleset) hidden = rules_of(hiding);
    autoptr(ruleset) shown = rules_of(all_write);
    assert_int_equal(fence_set_rules(x.fence, hidden), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_int_equal(fence_set_rules(x.fence, shown), 0);
    assert_int_equal(x.fence->quota.bytes, 256 * KIB);
    assert_int_equal(x.fence->quota.dead_bytes, 192 * KIB);
    for (size_t i = 0; i < 4; i++)
        assert_content_begins(&x, files[i]);
    for (size_t i = 0; i < 4; i++)
        inode_forget(x.fence, files[i], 1);
    assert_int_equal(x.fence->quota.bytes, 64 * KIB);
    assert_int_equal(x.fence->quota.dead_bytes, 0);
    fixture_done(&x);
}

static void renaming_over_a_directory_gives_back_what_is_hidden_in_it(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all_write, MIB);
    make_tree(&x);
    fixture_close(&x);
    fixture_open(&x, hiding, MIB);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "e", x.fence->root, "d", 0), 0);
    assert_int_equal(x.fence->quota.inodes, 2);
    assert_int_equal(x.fence->quota.bytes, 64 * KIB);
    fixture_done(&x);
}

/* ---- copies of a live base do not count, so they must not be made without need ---- */

static size_t pre_images(struct fixture *x)
{
    return count_below(x, "delta/meta/pre");
}

static void a_copy_that_finds_no_room_leaves_no_pre_image(void **state)
{
    struct fixture x;
    struct inode *f;

    (void) state;
    fixture_init(&x);
    x.is_live = true;
    put_dir(&x, "base/d");
    put_file(&x, "base/d/f", "text");
    fixture_open(&x, all_write, MIB);
    x.fence->quota.inodes_max = 1;
    f = walk(&x, "d/f", NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(write_text(&x, f, "more", 0), -ENOSPC);
    assert_int_equal(pre_images(&x), 0);
    x.fence->quota.inodes_max = 2;
    assert_int_equal(write_text(&x, f, "more", 0), 4);
    assert_int_equal(pre_images(&x), 1);
    fixture_done(&x);
}

static void a_rename_that_finds_no_room_leaves_no_pre_image(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    x.is_live = true;
    put_file(&x, "base/to", "text");
    put_file(&x, "base/from", "more");
    fixture_open(&x, all_write, 1 * KIB);
    for (int i = 0; i < 3; i++)
        assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "from", x.fence->root, "to", 0), -ENOSPC);
    assert_int_equal(pre_images(&x), 0);
    x.fence->quota.bytes_max = MIB;
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "from", x.fence->root, "to", 0), 0);
    assert_int_equal(pre_images(&x), 2);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_says_no_at_its_limit),
        cmocka_unit_test(a_refusal_takes_nothing),
        cmocka_unit_test(giving_back_too_much_stops_at_zero),
        cmocka_unit_test(a_write_beyond_the_quota_is_refused_and_a_replacing_one_is_not),
        cmocka_unit_test(space_reserved_beyond_the_end_does_not_pay_for_a_hole),
        cmocka_unit_test(what_is_there_needs_no_room),
        cmocka_unit_test(only_the_holes_of_a_range_need_room),
        cmocka_unit_test(what_was_reserved_can_be_written_when_nothing_is_left),
        cmocka_unit_test(a_trifle_that_was_reserved_is_paid_for_when_it_is_written),
        cmocka_unit_test(attributes_give_no_credit),
        cmocka_unit_test(a_copy_without_a_name_is_given_back_whole),
        cmocka_unit_test(a_copy_counts_for_itself_and_not_for_the_file_of_the_base),
        cmocka_unit_test(removing_a_directory_gives_back_what_is_hidden_in_it),
        cmocka_unit_test(what_is_hidden_and_open_is_given_back_when_it_is_forgotten),
        cmocka_unit_test(renaming_over_a_directory_gives_back_what_is_hidden_in_it),
        cmocka_unit_test(a_copy_that_finds_no_room_leaves_no_pre_image),
        cmocka_unit_test(a_rename_that_finds_no_room_leaves_no_pre_image),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
