#include "fence_fixture.h"

#include <linux/fs.h>
#include <pthread.h>
#include <stdlib.h>

#include "fence/revalidate.h"

/* No kernel is involved: the tests check what the next operation finds. */
static int setup(void **state)
{
    struct fixture *x = xnew(struct fixture);
    static const char *const rules[] = { "/**=write", "**/.env=none", "/crypt/**=none", "/crypt/**/ok.txt=read", NULL };

    fixture_init(x);
    put_dir(x, "base/d");
    put_dir(x, "base/o");
    put_file(x, "base/a", "old a");
    put_file(x, "base/d/b", "old b");
    fixture_open(x, rules, 0);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    fixture_done(*state);
    free(*state);
    return 0;
}

static void replace_file(struct fixture *x, const char *path, const char *text)
{
    put_file(x, "base/temporary", text);
    assert_int_equal(renameat(x->fd, "base/temporary", x->fd, path), 0);
}

static void report_base_changed(struct fixture *x, const char *path)
{
    assert_int_equal(fence_base_changed(x->fence, &path, path ? 1 : 0), 0);
}

static int64_t time_of(struct inode *dir)
{
    return dir->dir->mtime_ns;
}

static void a_replaced_file_is_another_inode_with_the_same_number(void **state)
{
    struct fixture *x = *state;
    struct inode *old = walk(x, "d/b", NULL), *new;

    assert_content(x, old, "old b");
    replace_file(x, "base/d/b", "new b");
    assert_ptr_equal(walk(x, "d/b", NULL), old);
    report_base_changed(x, "/d/b");
    new = walk(x, "d/b", NULL);
    assert_ptr_not_equal(new, old);
    assert_int_equal(new->ino, old->ino);
    assert_int_not_equal(new->node, old->node);
    assert_content(x, new, "new b");
    assert_content(x, old, "old b");
}

static void a_file_written_in_place_stays_the_same_inode(void **state)
{
    struct fixture *x = *state;
    struct inode *inode = walk(x, "a", NULL);
    struct stat st;

    put_file(x, "base/a", "another text");
    report_base_changed(x, "/a");
    assert_ptr_equal(walk(x, "a", &st), inode);
    assert_int_equal(st.st_size, 12);
    assert_content(x, inode, "another text");
}

static void a_removed_file_is_gone_and_an_added_one_is_there(void **state)
{
    struct fixture *x = *state;

    walk(x, "a", NULL);
    assert_null(walk(x, "new", NULL));
    unlinkat(x->fd, "base/a", 0);
    put_file(x, "base/new", "new");
    report_base_changed(x, NULL);
    assert_null(walk(x, "a", NULL));
    assert_content(x, walk(x, "new", NULL), "new");
}

static void a_directory_that_is_another_one_is_the_same_inode_with_other_names(void **state)
{
    struct fixture *x = *state;
    struct inode *dir = walk(x, "d", NULL), *old = walk(x, "d/b", NULL);

    assert_content(x, old, "old b");
    put_dir(x, "base/e");
    put_file(x, "base/e/c", "c");
    assert_int_equal(renameat2(x->fd, "base/d", x->fd, "base/e", RENAME_EXCHANGE), 0);
    report_base_changed(x, "/d");
    assert_ptr_equal(walk(x, "d", NULL), dir);
    assert_null(walk(x, "d/b", NULL));
    assert_content(x, walk(x, "d/c", NULL), "c");
    assert_content(x, old, "old b");
}

static void what_the_delta_covers_stays(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL);
    struct entry_answer answer = { 0 };

    assert_int_equal(write_text(x, a, "MY", 0), 2);
    assert_int_equal(op_unlink(x->fence, &nobody, walk(x, "d", NULL), "b"), 0);
    assert_non_null(walk(x, "o", NULL));
    assert_int_equal(op_rmdir(x->fence, &nobody, x->fence->root, "o"), 0);
    assert_int_equal(op_mkdir(x->fence, &nobody, x->fence->root, "o", 0755, &answer), 0);
    replace_file(x, "base/a", "theirs");
    replace_file(x, "base/d/b", "theirs");
    report_base_changed(x, "/a");
    report_base_changed(x, "/d/b");
    report_base_changed(x, NULL);
    int64_t time = time_of(walk(x, "o", NULL));
    put_file(x, "base/o/x", "x");
    report_base_changed(x, "/o/x");
    assert_int_equal(time_of(walk(x, "o", NULL)), time);
    assert_null(walk(x, "o/x", NULL));
    assert_ptr_equal(walk(x, "a", NULL), a);
    assert_content(x, a, "MYd a");
    assert_null(walk(x, "d/b", NULL));
}

static void a_directory_of_the_delta_gets_and_loses_its_part_of_the_base(void **state)
{
    struct fixture *x = *state;
    struct entry_answer answer = { 0 };

    assert_int_equal(op_mkdir(x->fence, &nobody, x->fence->root, "m", 0755, &answer), 0);
    assert_int_equal(op_mknod(x->fence, &nobody, answer.inode, "mine", S_IFREG | 0644, &answer), 0);
    put_dir(x, "base/m");
    put_file(x, "base/m/theirs", "t");
    report_base_changed(x, "/m");
    assert_content(x, walk(x, "m/theirs", NULL), "t");
    assert_non_null(walk(x, "m/mine", NULL));
    unlinkat(x->fd, "base/m/theirs", 0);
    unlinkat(x->fd, "base/m", AT_REMOVEDIR);
    report_base_changed(x, "/m");
    assert_null(walk(x, "m/theirs", NULL));
    assert_non_null(walk(x, "m/mine", NULL));
}

static void hidden_paths_move_no_time_and_visible_ones_do(void **state)
{
    struct fixture *x = *state;
    struct inode *root = x->fence->root, *dir = walk(x, "d", NULL);
    int64_t root_time = time_of(root), dir_time = time_of(dir);

    put_file(x, "base/d/.env", "x");
    put_dir(x, "base/crypt");
    put_file(x, "base/crypt/token", "x");
    report_base_changed(x, "/d/.env");
    report_base_changed(x, "/crypt");
    report_base_changed(x, "/crypt/token");
    assert_null(walk(x, "crypt", NULL));
    assert_int_equal(time_of(root), root_time);
    assert_int_equal(time_of(dir), dir_time);
    put_file(x, "base/d/c", "x");
    report_base_changed(x, "/d/c");
    assert_int_equal(time_of(root), root_time);
    assert_true(time_of(dir) > dir_time);
}

static void a_passage_follows_what_is_told(void **state)
{
    struct fixture *x = *state;

    put_dir(x, "base/crypt");
    put_dir(x, "base/crypt/deep");
    assert_null(walk(x, "crypt", NULL));
    put_file(x, "base/crypt/deep/ok.txt", "ok");
    assert_null(walk(x, "crypt", NULL));
    report_base_changed(x, "/crypt/deep/ok.txt");
    assert_content(x, walk(x, "crypt/deep/ok.txt", NULL), "ok");
    unlinkat(x->fd, "base/crypt/deep/ok.txt", 0);
    unlinkat(x->fd, "base/crypt/deep", AT_REMOVEDIR);
    unlinkat(x->fd, "base/crypt", AT_REMOVEDIR);
    report_base_changed(x, "/crypt");
    assert_null(walk(x, "crypt", NULL));
    put_dir(x, "base/crypt");
    put_file(x, "base/crypt/token", "x");
    report_base_changed(x, "/crypt");
    assert_null(walk(x, "crypt", NULL));
}

static void only_clean_absolute_paths_are_taken(void **state)
{
    struct fixture *x = *state;
    const char *const bad[] = { "", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/../b" };
    const char *const two[] = { "/a", "b" };

    assert_content(x, walk(x, "a", NULL), "old a");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(fence_base_changed(x->fence, &bad[i], 1), -EINVAL);
    replace_file(x, "base/a", "new a");
    assert_int_equal(fence_base_changed(x->fence, two, 2), -EINVAL);
    assert_content(x, walk(x, "a", NULL), "old a");
    report_base_changed(x, "/");
    assert_content(x, walk(x, "a", NULL), "new a");
}

/* Each attempt loses it again, and then the kernel has to look once more; nothing is moved and nothing is lost. */
static void a_name_that_is_lost_while_it_is_renamed(void **state)
{
    struct fixture *x = *state;
    struct inode *root = x->fence->root, *d = walk(x, "d", NULL);

    walk(x, "a", NULL);
    setenv("AGENTFENSE_FAULT", "rename-loses-name", 1);
    assert_int_equal(op_rename(x->fence, &nobody, root, "a", root, "moved", 0), -ESTALE);
    assert_int_equal(op_rename(x->fence, &nobody, root, "a", d, "b", 0), -ESTALE);
    assert_int_equal(op_rename(x->fence, &nobody, root, "a", d, "b", RENAME_EXCHANGE), -ESTALE);
    unsetenv("AGENTFENSE_FAULT");
    assert_content(x, walk(x, "a", NULL), "old a");
    assert_content(x, walk(x, "d/b", NULL), "old b");
    assert_int_equal(op_rename(x->fence, &nobody, root, "a", root, "moved", 0), 0);
    assert_content(x, walk(x, "moved", NULL), "old a");
}

/* ---- two threads ---- */

#define MEETINGS 1500

/* Reports a change of something hidden in one directory after the other, while the other thread looks the directory up. */
struct teller {
    struct fixture *x;
    pthread_barrier_t both;
    int failed;
};

static void *tell_of_hidden(void *cookie)
{
    struct teller *t = cookie;

    for (int i = 0; i < MEETINGS; i++) {
        autofree char *path = xprintf("/crypt/d%d/token", i);
        const char *paths[] = { path };
        pthread_barrier_wait(&t->both);
        t->failed += fence_base_changed(t->x->fence, paths, 1) != 0;
        pthread_barrier_wait(&t->both);
    }
    return NULL;
}

/* A result that changed with hidden files would reveal them. */
static void whoever_finds_a_passage_keeps_it(void **state)
{
    struct fixture *x = *state;
    struct teller teller = { .x = x };
    int lost = 0;
    pthread_t thread;

    put_dir(x, "base/crypt");
    for (int i = 0; i < MEETINGS; i++) {
        autofree char *dir = xprintf("base/crypt/d%d", i), *file = xprintf("%s/ok.txt", dir);
        put_dir(x, dir);
        put_file(x, file, "ok");
    }
    struct inode *crypt = walk(x, "crypt", NULL);
    assert_non_null(crypt);
    pthread_barrier_init(&teller.both, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, tell_of_hidden, &teller), 0);
    for (int i = 0; i < MEETINGS; i++) {
        autofree char *name = xprintf("d%d", i);
        struct entry_answer answer = { 0 };
        pthread_barrier_wait(&teller.both);
        int r = op_lookup(x->fence, &nobody, crypt, name, &answer);
        pthread_barrier_wait(&teller.both);
        lost += r != 0 || !answer.inode || inode_has(answer.inode, INODE_DEAD) || answer.st.st_nlink == 0 ||
                answer.inode->node != answer.inode->ino;
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&teller.both);
    assert_int_equal(teller.failed, 0);
    assert_int_equal(lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_replaced_file_is_another_inode_with_the_same_number, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_written_in_place_stays_the_same_inode, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_file_is_gone_and_an_added_one_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_is_another_one_is_the_same_inode_with_other_names, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_delta_covers_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_of_the_delta_gets_and_loses_its_part_of_the_base, setup, teardown),
        cmocka_unit_test_setup_teardown(hidden_paths_move_no_time_and_visible_ones_do, setup, teardown),
        cmocka_unit_test_setup_teardown(a_passage_follows_what_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_that_is_lost_while_it_is_renamed, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_finds_a_passage_keeps_it, setup, teardown),
        cmocka_unit_test_setup_teardown(only_clean_absolute_paths_are_taken, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
