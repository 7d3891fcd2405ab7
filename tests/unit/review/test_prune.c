#include "review/prune.h"

#include "review_fixture.h"

#include "base/clock.h"
#include "review/undo.h"

static size_t count_in(struct world *w, const char *path)
{
    autofd int fd = openat(w->f.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;

    assert_non_null(dir);
    fd = -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static void prune(struct world *w, int64_t before_ns, bool is_dry, struct prune *ret)
{
    struct prune_options options = { .before_ns = before_ns, .is_dry = is_dry };
    struct err err = ERR_NONE;

    *ret = (struct prune){ 0 };
    if (prune_run(w->delta, &options, ret, &err) != 0)
        fail_msg("%s", err.text);
}

static void approve(struct world *w, char id[ID_TEXT_MAX])
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    if (approve_run(w->delta, &decided_all, &(struct approve_options){ 0 }, &approve, &err) != 0)
        fail_msg("%s", err.text);
    memcpy(id, approve.id, ID_TEXT_MAX);
}

static void change(struct world *w, const char *text)
{
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    agent_write(w, "a", text);
    agent_end(w);
}

static int try_undo(struct world *w, const char *id)
{
    autodone(undo) struct undo undo = UNDO_NONE;
    struct err err = ERR_NONE;

    return undo_run(w->delta, id, &(struct undo_options){ 0 }, &undo, &err);
}

/* Two approvals, the second after `ret_between`. */
static void approve_twice(struct world *w, char first[ID_TEXT_MAX], char second[ID_TEXT_MAX], int64_t *ret_between)
{
    base_put(w, "a", "one\n");
    change(w, "two\n");
    approve(w, first);
    usleep(20000); /* the kernel's clock for files has a grain of its own */
    *ret_between = clock_wall_ns();
    usleep(20000);
    change(w, "three\n");
    approve(w, second);
    assert_base(w, "a", "three\n");
}

static void what_is_old_goes_and_what_is_not_can_be_undone(void **state)
{
    struct world *w = *state;
    char first[ID_TEXT_MAX], second[ID_TEXT_MAX];
    int64_t between;
    struct prune pruned;

    approve_twice(w, first, second, &between);
    assert_true(prune_has_work(w->delta, between));
    assert_false(prune_has_work(w->delta, 1));
    prune(w, between, true, &pruned);
    assert_int_equal(pruned.records, 1);
    assert_int_equal(count_in(w, "delta/meta/approvals/done"), 2);
    prune(w, between, false, &pruned);
    assert_int_equal(pruned.records, 1);
    assert_true(pruned.bytes > 0);
    assert_int_equal(count_in(w, "delta/meta/approvals/done"), 1);
    assert_int_equal(try_undo(w, first), -ENOENT);
    assert_int_equal(try_undo(w, second), 0);
    assert_base(w, "a", "two\n");
    /* What it took back is a change again, on the ground it had. */
    assert_edits(w, "modified a");
    base_put(w, "b", "beside\n");
    approve(w, second);
    assert_base(w, "a", "three\n");
}

static void copies_that_a_change_stands_on_stay(void **state)
{
    struct world *w = *state;
    char id[ID_TEXT_MAX];
    struct prune pruned;

    base_put(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    change(w, "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_true(count_in(w, "delta/meta/pre") > 0);
    size_t before = count_in(w, "delta/meta/pre");
    put_file(&w->f, "delta/meta/pre/nobodys", "x\n");
    prune(w, clock_wall_ns() + CLOCK_NS_PER_SEC, false, &pruned);
    assert_int_equal(pruned.copies, 1);
    assert_int_equal(count_in(w, "delta/meta/pre"), before);
    /* It is merged with what changed meanwhile, for which the copy is needed. */
    base_put(w, "a", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    approve(w, id);
    assert_base(w, "a", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    /* Young ones stay, needed or not. */
    put_file(&w->f, "delta/meta/pre/nobodys", "x\n");
    prune(w, clock_wall_ns() - CLOCK_NS_PER_SEC, false, &pruned);
    assert_int_equal(pruned.copies + pruned.records, 0);
    assert_true(is_there(&w->f, "delta/meta/pre/nobodys"));
}

/* The journal goes first; before it the record leaves the others, unless the power is cut. */
static void half_forget(struct world *w, bool is_apart)
{
    char first[ID_TEXT_MAX], second[ID_TEXT_MAX];
    int64_t between;
    struct prune pruned;

    approve_twice(w, first, second, &between);
    autofree char *place = xprintf("delta/meta/approvals/done/%s", first), *apart = xprintf("delta/meta/approvals/%s", first);
    autofree char *journal = xprintf("%s/noted", is_apart ? apart : place);
    if (is_apart)
        assert_int_equal(renameat(w->f.fd, place, w->f.fd, apart), 0);
    assert_int_equal(unlinkat(w->f.fd, journal, 0), 0);
    assert_int_equal(try_undo(w, first), -ENOENT);
    prune(w, between, false, &pruned);
    assert_int_equal(count_in(w, "delta/meta/approvals"), 1);
    assert_int_equal(count_in(w, "delta/meta/approvals/done"), 1);
    assert_int_equal(try_undo(w, second), 0);
    assert_base(w, "a", "two\n");
}

static void a_record_that_was_half_forgotten_is_none(void **state)
{
    half_forget(*state, true);
}

static void one_that_a_power_cut_has_half_forgotten_is_none(void **state)
{
    half_forget(*state, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(what_is_old_goes_and_what_is_not_can_be_undone),
        world_test(copies_that_a_change_stands_on_stay),
        world_test(a_record_that_was_half_forgotten_is_none),
        world_test(one_that_a_power_cut_has_half_forgotten_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
