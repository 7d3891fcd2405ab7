#include "review/decision.h"

#include "review_fixture.h"

static int run(struct world *w, const struct decision *decision, bool is_dry, struct approve *ret)
{
    const struct approve_options options = { .is_dry = is_dry };
    struct err err = ERR_NONE;

    approve_done(ret);
    int r = approve_run(w->delta, decision, &options, ret, &err);
    if (r < 0)
        print_message("%s\n", err.text);
    return r;
}

/* As a dry run and for real: neither writes, both say the same. */
static void assert_refused(struct world *w, const struct decision *decision, struct approve *ret)
{
    assert_int_equal(run(w, decision, true, ret), 1);
    assert_int_equal(run(w, decision, false, ret), 1);
    assert_string_equal(ret->id, "");
    assert_false(base_has(w, "plain"));
}

static const struct approve_file *file_of(const struct approve *approve, const char *path)
{
    for (size_t i = 0; i < approve->edits.count; i++)
        if (strcmp(approve->edits.items[i].path, path) == 0)
            return &approve->files[i];
    fail_msg("%s is not among them", path);
    return NULL;
}

static void work(struct world *w)
{
    agent_begin(w);
    agent_create(w, ".envrc", "rm -rf ~\n", 0644);
    agent_create(w, "plain", "plain\n", 0644);
    agent_end(w);
}

static void what_a_caller_leaves_out_is_refused(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct decision decision = { .acceptance = &let_in_all };

    base_put(w, "f", "f\n");
    work(w);
    assert_refused(w, &decision, &approve);
    assert_int_equal(approve.unacknowledged_count, 1);
    decision.acknowledges_all = true;
    assert_refused(w, &decision, &approve);
    assert_int_equal(approve.unshown_count, 2);
    decision.shown = &meant_as_it_is;
    assert_int_equal(run(w, &decision, false, &approve), 0);
    assert_base(w, "plain", "plain\n");
}

static void one_that_is_not_acknowledged_holds_up_all(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct decision decision = decided_all;

    work(w);
    decision.acknowledges_all = false;
    assert_refused(w, &decision, &approve);
    assert_int_equal(file_of(&approve, ".envrc")->outcome, APPROVE_UNACKNOWLEDGED);
    assert_int_equal(file_of(&approve, ".envrc")->acknowledge, ACKNOWLEDGE_SHELL);
    assert_int_equal(file_of(&approve, "plain")->outcome, APPROVE_NOTHING);
    decision.acknowledged = (const char *const[]){ "plain", "ci" };
    decision.acknowledged_count = 2;
    assert_refused(w, &decision, &approve);
    decision.acknowledged = (const char *const[]){ ".envrc" };
    decision.acknowledged_count = 1;
    assert_int_equal(run(w, &decision, true, &approve), 0);
    decision.acknowledged = (const char *const[]){ "shell" };
    assert_int_equal(run(w, &decision, false, &approve), 0);
    assert_true(base_has(w, ".envrc"));
}

/* The sandbox may be over a directory of the project whose name matters. */
static void paths_are_judged_from_the_projects_root(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(acceptance) struct acceptance acceptance = { 0 };
    struct decision decision = decided_all;

    agent_begin(w);
    agent_create(w, "plain", "on: push\n", 0644);
    agent_create(w, "x.yml", "on: push\n", 0644);
    agent_end(w);
    decision.acknowledges_all = false;
    decision.prefix = ".github/workflows";
    assert_refused(w, &decision, &approve);
    assert_int_equal(file_of(&approve, "x.yml")->acknowledge, ACKNOWLEDGE_CI);
    decision.acknowledges_all = true;
    acceptance_add_glob(&acceptance.allow, "src/**");
    decision.acceptance = &acceptance;
    assert_refused(w, &decision, &approve);
    assert_int_equal(approve.unaccepted_count, 2);
    decision.prefix = "src";
    assert_int_equal(run(w, &decision, false, &approve), 0);
}

static void bytes_that_are_no_text_are_told_apart_only_if_that_matters(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    const struct acceptance acceptance = { .ignores_binary = true };
    struct decision decision = decided_all;

    agent_begin(w);
    agent_create(w, "plain", "plain\n", 0644);
    agent_create(w, "bytes", "abc", 0644);
    agent_end(w);
    autofd int fd = openat(w->f.fd, "delta/data/bytes", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "", 1, 1), 1);
    decision.acceptance = &acceptance;
    assert_refused(w, &decision, &approve);
    assert_int_equal(file_of(&approve, "bytes")->outcome, APPROVE_UNACCEPTED);
    assert_int_equal(approve.unaccepted_count, 1);
}

static void hooks_that_nobody_ran_hold_up_all(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct decision decision = decided_all;

    base_put(w, ".agentfense/hooks.json", "[]");
    work(w);
    decision.hooks = DECISION_HOOKS_UNTRIED;
    assert_refused(w, &decision, &approve);
    assert_true(approve.lacks_hooks);
    decision.hooks = DECISION_HOOKS_WAIVED;
    assert_int_equal(run(w, &decision, false, &approve), 0);
}

/* By a link in its place the hooks could be somebody else's, or seem to be none. */
static void a_link_instead_of_the_hooks_is_no_lack_of_them(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct decision decision = decided_all;

    base_put(w, "f", "f\n");
    assert_int_equal(symlinkat("nowhere", w->f.fd, "base/.agentfense"), 0);
    work(w);
    decision.hooks = DECISION_HOOKS_UNTRIED;
    assert_refused(w, &decision, &approve);
    assert_true(approve.lacks_hooks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(what_a_caller_leaves_out_is_refused),
        world_test(one_that_is_not_acknowledged_holds_up_all),
        world_test(paths_are_judged_from_the_projects_root),
        world_test(bytes_that_are_no_text_are_told_apart_only_if_that_matters),
        world_test(hooks_that_nobody_ran_hold_up_all),
        world_test(a_link_instead_of_the_hooks_is_no_lack_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
