/* A change whose sync-out failed is as old as it was. */
#include "fence_fixture.h"

#include <time.h>

#include "fence/sync_out.h"

static const char *const all[] = { "/**=write", NULL };

/* Links every file elsewhere, as a codebase does, and then removes the link. */
struct taker {
    struct fixture *x;
    bool fails, leaves;
    const char *asks;
    int64_t changed_ns; /* of `asks` */
};

static int take(struct sync_out_change *changes, size_t count, void *cookie, struct err *err)
{
    struct taker *t = cookie;

    for (size_t i = 0; i < count; i++) {
        struct sync_out_change *c = &changes[i];
        if (strcmp(c->path, t->asks) == 0)
            t->changed_ns = c->changed_ns;
        if (c->kind != SYNC_OUT_FILE)
            continue;
        assert_int_equal(linkat(c->from_fd, c->name, t->x->fd, "second", 0), 0);
        if (t->fails || t->leaves) {
            nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* more than a tick of the file system's clock */
            assert_int_equal(unlinkat(t->x->fd, "second", 0), 0);
            c->outcome = t->leaves ? SYNC_OUT_LEFT : SYNC_OUT_TAKEN;
        } else {
            assert_int_equal(unlinkat(c->from_fd, c->name, 0), 0);
            autofree char *to = xprintf("base/%s", c->path);
            assert_int_equal(renameat(t->x->fd, "second", t->x->fd, to), 0);
        }
    }
    return t->fails ? err_errno(err, -ENOSPC, "taking") : 0;
}

static int64_t asked(struct fixture *x, struct taker *t)
{
    struct sync_out_result result;
    struct err err = ERR_NONE;
    int r = fence_sync_out(x->fence, take, t, &result, &err);

    assert_int_equal(r, t->fails ? -ENOSPC : 0);
    return t->changed_ns;
}

static void begin(struct fixture *x)
{
    fixture_init(x);
    x->syncs_out = true;
    fixture_open(x, all, 0);
}

static bool is_noted(struct fixture *x)
{
    return faccessat(x->fd, "delta/meta/tried", F_OK, 0) == 0;
}

static void it_is_as_old_as_before_however_often_it_is_tried(void **state)
{
    struct fixture x;
    struct taker t = { .x = &x, .fails = true, .asks = " f" };

    (void) state;
    begin(&x);
    make_file(&x, "", " f", "text");
    int64_t first = asked(&x, &t);
    assert_int_equal(asked(&x, &t), first);
    assert_true(is_noted(&x));
    /* A process that is killed and replaced reads it from the delta. */
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_int_equal(asked(&x, &t), first);
    t.fails = false;
    assert_int_equal(asked(&x, &t), first);
    assert_false(is_noted(&x));
    fixture_done(&x);
}

static void what_is_changed_again_is_newer(void **state)
{
    struct fixture x;
    struct taker t = { .x = &x, .fails = true, .asks = "f" };

    (void) state;
    begin(&x);
    make_file(&x, "", "f", "text");
    int64_t first = asked(&x, &t);
    write_text(&x, walk(&x, "f", NULL), "TEXT", 0);
    int64_t second = asked(&x, &t);
    assert_true(second > first);
    /* Another file of that name is another file. */
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    make_file(&x, "", "f", "TEXT");
    assert_true(asked(&x, &t) > second);
    fixture_done(&x);
}

static void what_is_left_behind_keeps_its_age(void **state)
{
    struct fixture x;
    struct taker t = { .x = &x, .fails = true, .asks = "f" };

    (void) state;
    begin(&x);
    make_file(&x, "", "f", "text");
    int64_t first = asked(&x, &t);
    t.fails = false;
    t.leaves = true;
    assert_int_equal(asked(&x, &t), first);
    assert_true(is_noted(&x));
    make_file(&x, "", "g", "new"); /* otherwise there would be nothing to sync out */
    assert_int_equal(asked(&x, &t), first);
    fixture_done(&x);
}

static void a_note_that_is_none_does_no_harm(void **state)
{
    static const char note[] = "1 2\0"
                               "x 2 3 4 f\0"
                               "1 2 3 4 f";
    struct fixture x;
    struct taker t = { .x = &x, .asks = "f" };

    (void) state;
    begin(&x);
    make_file(&x, "", "f", "text");
    fixture_close(&x);
    autofd int meta = openat(x.fd, "delta/meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_put(meta, "tried", note, sizeof(note), 0600), 0);
    fixture_open(&x, all, 0);
    assert_true(asked(&x, &t) > 4);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_as_old_as_before_however_often_it_is_tried),
        cmocka_unit_test(what_is_changed_again_is_newer),
        cmocka_unit_test(what_is_left_behind_keeps_its_age),
        cmocka_unit_test(a_note_that_is_none_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
