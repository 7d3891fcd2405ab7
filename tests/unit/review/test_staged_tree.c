#include "review/approve.h"

#include "review_fixture.h"

/* A dry run that lays out what it would write at <dir>/tried. */
static int rehearse(struct world *w, const struct selection *selection, struct approve *ret, struct err *err)
{
    autofree char *tried = xprintf("%s/tried", w->f.dir);
    struct approve_options options = { .selection = selection, .is_dry = true, .staged_tree_path = tried };

    return approve_run(w->delta, &decided_all, &options, ret, err);
}

/* The delta that was laid out is written over the base: then the base is what a sandbox over it would show. */
static void become(struct world *w)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    autofree char *tried = xprintf("%s/tried", w->f.dir);
    struct err err = ERR_NONE;

    /* No fence witnessed it, and it is newer than all of the base. */
    put_file(&w->f, "tried/meta/unwitnessed", "");
    if (approve_run(tried, &decided_all, &(struct approve_options){ 0 }, &approve, &err) != 0)
        fail_msg("%s (%zu conflicts)", err.text, approve.conflict_count);
}

static void all_that_would_land_is_laid_out(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    a_busy_agent(w);
    if (rehearse(w, NULL, &approve, &err) != 0)
        fail_msg("%s", err.text);
    assert_base(w, "a", "a\n"); /* it was dry */
    become(w);
    assert_busy_work(w);
}

static void what_is_not_chosen_is_not_laid_out(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct selection_file file = { .path = "one" };
    struct selection selection = { &file, 1 };
    struct err err = ERR_NONE;

    base_put(w, "one", "1\n");
    base_put(w, "two", "2\n");
    base_put(w, "gone", "g\n");
    agent_begin(w);
    agent_write(w, "one", "agent 1\n");
    agent_write(w, "two", "agent 2\n");
    agent_unlink(w, "gone");
    agent_end(w);
    assert_int_equal(rehearse(w, &selection, &approve, &err), 0);
    become(w);
    assert_base(w, "one", "agent 1\n");
    assert_base(w, "two", "2\n");
    assert_base(w, "gone", "g\n");
}

/* It came later, and the agent never saw it: a landing leaves it, and the directory with it. */
static void a_directory_with_something_unseen_stays(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    base_put(w, "dir/a", "a\n");
    base_put(w, "empty/b", "b\n");
    agent_begin(w);
    agent_unlink(w, "dir/a");
    agent_rmdir(w, "dir");
    agent_unlink(w, "empty/b");
    agent_rmdir(w, "empty");
    agent_end(w);
    base_put(w, "dir/later", "l\n");
    assert_int_equal(rehearse(w, NULL, &approve, &err), 0);
    assert_true(is_there(&w->f, "tried/data/dir/.wh.a"));
    assert_false(is_there(&w->f, "tried/data/.wh.dir"));
    assert_true(is_there(&w->f, "tried/data/.wh.empty"));
}

static void only_what_was_tried_lands(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve tried = APPROVE_NONE, approve = APPROVE_NONE, again = APPROVE_NONE;
    struct approve_options options = { .is_forced = true };
    struct decision decision = decided_all;
    struct err err = ERR_NONE;

    base_put(w, "a", "one\n");
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_chmod(w, "a", 0755);
    agent_end(w);
    assert_int_equal(rehearse(w, NULL, &tried, &err), 0);
    decision.hooks = DECISION_HOOKS_TRIED;
    decision.tried = tried.digest;
    put_file(&w->f, "delta/data/a", "other\n");
    assert_int_equal(approve_run(w->delta, &decision, &options, &approve, &err), -ESTALE);
    assert_base(w, "a", "one\n");
    put_file(&w->f, "delta/data/a", "agent\n");
    assert_int_equal(fchmodat(w->f.fd, "delta/data/a", 0700, 0), 0);
    approve_done(&approve);
    assert_int_equal(approve_run(w->delta, &decision, &options, &approve, &err), -ESTALE);
    assert_int_equal(fchmodat(w->f.fd, "delta/data/a", 0755, 0), 0);
    err = ERR_NONE;
    if (approve_run(w->delta, &decision, &options, &again, &err) != 0)
        fail_msg("%s", err.text);
    assert_base(w, "a", "agent\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(all_that_would_land_is_laid_out),
        world_test(what_is_not_chosen_is_not_laid_out),
        world_test(a_directory_with_something_unseen_stays),
        world_test(only_what_was_tried_lands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
