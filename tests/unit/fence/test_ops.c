#include "fence_fixture.h"

#include <pthread.h>
#include <sched.h>

#include <linux/fs.h>

static const char *const all[] = { "/**=write", NULL };

static void writing_copies_up_and_leaves_the_base(void **state)
{
    struct fixture x;
    autodone(buf) struct buf base = BUF_EMPTY;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "base text");
    fixture_open(&x, all, 0);
    struct inode *f = walk(&x, "f", NULL);
    assert_int_equal(write_text(&x, f, "BASE", 0), 4);
    assert_content(&x, f, "BASE text");
    assert_int_equal(file_read(x.fd, "base/f", 100, &base), 0);
    assert_string_equal(base.data, "base text");
    fixture_done(&x);
}

/* Neither a deletion nor a file of the base under such a name. */
static void markers_are_not_there_for_who_names_them(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "f");
    put_file(&x, "base/.wh.g", "g");
    fixture_open(&x, all, 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    assert_true(is_there(&x, "delta/data/.wh.f"));
    for (const char **name = (const char *[]){ ".wh.f", ".wh.g", ".wh..wh..opq", NULL }; *name; name++) {
        assert_null(walk(&x, *name, NULL));
        assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, *name), -ENOENT);
    }
    fixture_done(&x);
}

static void what_was_deleted_stays_deleted(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "f");
    put_dir(&x, "base/d");
    fixture_open(&x, all, 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_null(walk(&x, "f", NULL));
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_null(walk(&x, "f", NULL));
    assert_null(walk(&x, "d", NULL));
    assert_true(is_there(&x, "base/f"));
    fixture_done(&x);
}

static void a_directory_made_again_is_empty(void **state)
{
    struct fixture x;
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/f", "old");
    fixture_open(&x, all, 0);
    struct inode *d = walk(&x, "d", NULL);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), -ENOTEMPTY);
    assert_int_equal(op_unlink(x.fence, &nobody, d, "f"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_int_equal(op_mkdir(x.fence, &nobody, x.fence->root, "d", 0755, &answer), 0);
    assert_null(walk(&x, "d/f", NULL));
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_non_null(walk(&x, "d", NULL));
    assert_null(walk(&x, "d/f", NULL));
    fixture_done(&x);
}

static void hidden_children_do_not_keep_a_directory(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", "/d/secret=none", NULL };

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/secret", "s");
    fixture_open(&x, rules, 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_null(walk(&x, "d", NULL));
    assert_true(is_there(&x, "base/d/secret"));
    fixture_done(&x);
}

static void a_directory_of_the_base_moves_when_the_rules_permit(void **state)
{
    struct fixture x;
    const char *const some_hidden[] = { "/**=write", "**/secret=none", NULL };

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_dir(&x, "base/d/e");
    put_file(&x, "base/d/e/f", "deep");
    fixture_open(&x, some_hidden, 0);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "d", x.fence->root, "n", 0), -EXDEV);
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "d", x.fence->root, "n", 0), 0);
    assert_null(walk(&x, "d", NULL));
    assert_content(&x, walk(&x, "n/e/f", NULL), "deep");
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_null(walk(&x, "d", NULL));
    assert_content(&x, walk(&x, "n/e/f", NULL), "deep");
    assert_true(is_there(&x, "base/d/e/f"));
    fixture_done(&x);
}

static uint64_t used_names(struct fixture *x)
{
    struct fence_stats stats;

    fence_stats(x->fence, &stats);
    return stats.used_inodes;
}

/* Compares with what a new fence counts. */
static void assert_names_are_counted(struct fixture *x)
{
    uint64_t used = used_names(x);

    fixture_close(x);
    fixture_open(x, all, 0);
    assert_int_equal(used, used_names(x));
}

static void a_directory_that_goes_gives_back_what_it_held(void **state)
{
    struct entry_answer answer;
    struct fixture x;
    struct inode *d;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_dir(&x, "base/e");
    put_dir(&x, "base/d/sub");
    put_file(&x, "base/d/a", "a");
    put_file(&x, "base/d/sub/b", "b");
    put_file(&x, "base/e/c", "c");
    fixture_open(&x, all, 0);
    d = walk(&x, "d", NULL);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d/sub", NULL), "b"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, d, "sub"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, d, "a"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_int_equal(used_names(&x), 1);
    assert_names_are_counted(&x);
    /* A directory that another one replaces is removed as well. */
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "e", NULL), "c"), 0);
    assert_int_equal(op_mkdir(x.fence, &nobody, x.fence->root, "n", 0755, &answer), 0);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "n", x.fence->root, "e", 0), 0);
    assert_names_are_counted(&x);
    fixture_done(&x);
}

static void rename_flags_mean_what_they_say(void **state)
{
    struct fixture x;
    struct inode *root;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/a", "A");
    put_file(&x, "base/b", "B");
    fixture_open(&x, all, 0);
    root = x.fence->root;
    assert_int_equal(op_rename(x.fence, &nobody, root, "a", root, "b", RENAME_NOREPLACE), -EEXIST);
    assert_int_equal(op_rename(x.fence, &nobody, root, "a", root, "c", RENAME_EXCHANGE), -ENOENT);
    assert_int_equal(op_rename(x.fence, &nobody, root, "a", root, "b", RENAME_WHITEOUT), -EINVAL);
    assert_int_equal(op_rename(x.fence, &nobody, root, "a", root, "b", RENAME_EXCHANGE), 0);
    assert_content(&x, walk(&x, "a", NULL), "B");
    assert_content(&x, walk(&x, "b", NULL), "A");
    assert_int_equal(op_rename(x.fence, &nobody, root, "a", root, "b", 0), 0);
    assert_null(walk(&x, "a", NULL));
    assert_content(&x, walk(&x, "b", NULL), "B");
    fixture_done(&x);
}

static void a_file_without_a_name_lives_while_it_is_known(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "base");
    fixture_open(&x, all, 0);
    struct inode *f = walk(&x, "f", NULL);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    assert_content(&x, f, "base");
    assert_int_equal(write_text(&x, f, "more", 4), 4);
    assert_content(&x, f, "basemore");
    uint64_t count = x.fence->nodes.count;
    inode_forget(x.fence, f, 1);
    assert_int_equal(x.fence->nodes.count, count - 1);
    assert_null(walk(&x, "f", NULL));
    fixture_done(&x);
}

struct scribbler {
    struct fixture *x;
    struct inode *_Atomic inode; /* NULL: no more */
};

static void *scribble(void *arg)
{
    struct scribbler *s = arg;

    for (struct inode *inode; (inode = atomic_load(&s->inode));)
        write_text(s->x, inode, "x", 0);
    return NULL;
}

/* Logging a write and losing the last name meet in one inode; `log_mark` then is the index among the dead. */
static void a_write_may_meet_the_removal_of_its_file(void **state)
{
    enum { FILES = 400 };
    struct entry_answer made[FILES];
    struct fixture x;
    struct scribbler s = { .x = &x };
    pthread_t thread;
    char name[16];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, (const char *const[]){ "**=write", NULL }, 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, name, S_IFREG | 0644, &made[i]), 0);
    }
    atomic_store(&s.inode, made[0].inode);
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        atomic_store(&s.inode, made[i].inode);
        sched_yield();
        assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, name), 0);
    }
    atomic_store(&s.inode, NULL);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < FILES; i++)
        assert_true(made[i].inode->log_mark < FILES && x.fence->dead[made[i].inode->log_mark] == made[i].inode);
    fixture_done(&x);
}

static void a_passage_appears_for_what_is_visible_in_it(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=read", "/p/=none", "/p/q/seen=read@5", "/empty/=none", "/empty/x=read@5", NULL };
    struct stat st = { 0 };

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/p");
    put_dir(&x, "base/p/q");
    put_file(&x, "base/p/q/seen", "s");
    put_file(&x, "base/p/q/hidden", "h");
    put_dir(&x, "base/empty");
    fixture_open(&x, rules, 0);
    assert_non_null(walk(&x, "p", &st));
    assert_int_equal(st.st_mode & 0777, 0555);
    assert_content(&x, walk(&x, "p/q/seen", NULL), "s");
    assert_null(walk(&x, "p/q/hidden", NULL));
    assert_null(walk(&x, "empty", NULL));
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_copies_up_and_leaves_the_base),
        cmocka_unit_test(markers_are_not_there_for_who_names_them),
        cmocka_unit_test(what_was_deleted_stays_deleted),
        cmocka_unit_test(a_directory_made_again_is_empty),
        cmocka_unit_test(hidden_children_do_not_keep_a_directory),
        cmocka_unit_test(a_directory_of_the_base_moves_when_the_rules_permit),
        cmocka_unit_test(a_directory_that_goes_gives_back_what_it_held),
        cmocka_unit_test(rename_flags_mean_what_they_say),
        cmocka_unit_test(a_file_without_a_name_lives_while_it_is_known),
        cmocka_unit_test(a_write_may_meet_the_removal_of_its_file),
        cmocka_unit_test(a_passage_appears_for_what_is_visible_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
