#include "fence_fixture.h"

#include <dirent.h>

#include "fence/readdirplus.h"

static const char *const all[] = { "/**=write", NULL };

struct seen {
    unsigned files, files_with, dirs_with;
};

static bool see(const char *name, uint64_t ino, uint8_t type, uint64_t cookie, const struct entry_answer *answer, void *user)
{
    struct seen *seen = user;

    (void) ino;
    (void) cookie;
    if (name[0] == '.')
        return true;
    if (S_ISDIR(DTTOIF(type))) {
        seen->dirs_with += answer->inode != NULL;
    } else {
        seen->files++;
        seen->files_with += answer->inode != NULL;
    }
    return true;
}

static struct seen list(struct fixture *x, const char *path)
{
    struct inode *dir = *path ? walk(x, path, NULL) : x->fence->root;
    struct seen seen = { 0 };

    assert_int_equal(op_readdir(x->fence, &nobody, dir, 0, true, see, &seen), 0);
    return seen;
}

static void open_on_tree(struct fixture *x)
{
    fixture_init(x);
    for (int d = 0; d < 3; d++) {
        autofree char *dir = xprintf("base/d%d", d);

        put_dir(x, dir);
        for (int i = 0; i < 4; i++) {
            autofree char *file = xprintf("base/d%d/f%d", d, i);

            put_file(x, file, "text");
        }
    }
    fixture_open(x, all, 0);
}

static void files_have_attributes_once_somebody_asks_for_one(void **state)
{
    struct fixture x;
    struct seen seen;

    (void) state;
    open_on_tree(&x);
    seen = list(&x, "");
    assert_int_equal(seen.dirs_with, 3);
    seen = list(&x, "d0");
    assert_true(seen.files == 4 && seen.files_with == 0);
    assert_null(walk(&x, "d0/absent", NULL));
    seen = list(&x, "d1");
    assert_int_equal(seen.files_with, 0);
    assert_non_null(walk(&x, "d1/f2", NULL));
    seen = list(&x, "d2");
    assert_int_equal(seen.files_with, 4);
    fixture_done(&x);
}

static void now_and_then_one_is_tried_without(void **state)
{
    struct fixture x;
    unsigned without = 0;

    (void) state;
    open_on_tree(&x);
    list(&x, "d0");
    assert_non_null(walk(&x, "d0/f0", NULL));
    for (int i = 0; i < READDIRPLUS_LISTINGS; i++)
        list(&x, "");
    for (int i = 0; i < 3; i++) {
        autofree char *dir = xprintf("d%d", i);

        without += list(&x, dir).files_with == 0;
    }
    assert_int_equal(without, 3);
    fixture_done(&x);
}

/* The kernel has them and is notified of changes; but files of the delta change without notice. */
static void what_is_known_is_listed_without(void **state)
{
    struct fixture x;
    struct seen seen;

    (void) state;
    open_on_tree(&x);
    x.fence->readdirplus_left = READDIRPLUS_LISTINGS;
    assert_non_null(walk(&x, "d0/f0", NULL));
    assert_int_equal(write_text(&x, walk(&x, "d0/f1", NULL), "T", 0), 1);
    seen = list(&x, "d0");
    assert_true(seen.files == 4 && seen.files_with == 3);
    seen = list(&x, "d0");
    assert_int_equal(seen.files_with, 1);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_attributes_once_somebody_asks_for_one),
        cmocka_unit_test(now_and_then_one_is_tried_without),
        cmocka_unit_test(what_is_known_is_listed_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
