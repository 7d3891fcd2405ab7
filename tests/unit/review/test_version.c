/* Approvals over a codebase: each is a version. What they decide and how they survive kills is tested for both bases, in the other files. */
#define OVER_CODEBASE
#include "review/approve.h"

#include "review_fixture.h"

#include "base/fd.h"
#include "codebase/codebase_get.h"
#include "codebase/codebase_put.h"
#include "codebase/codebase_version.h"
#include "review/conflict.h"
#include "review/undo.h"

static void put_version(struct world *w, const char *path, const char *text)
{
    struct codebase_put_result result;
    autoptr(codebase_put) put = NULL;
    struct err err = ERR_NONE;

    if (codebase_put_begin(w->cb, path, CODEBASE_PUT_SAME_MODE, "somebody", &put, &err) < 0 ||
        codebase_put_write(put, text, strlen(text), &err) < 0 || codebase_put_commit(put, &result, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static uint64_t newest(struct world *w)
{
    struct codebase_info info = { 0 };
    struct err err = ERR_NONE;

    assert_int_equal(codebase_info(w->cb, &info, &err), 0);
    return info.version;
}

static void assert_at(struct world *w, uint64_t version, const char *path, const char *text)
{
    autodone(buf) struct buf got = BUF_EMPTY;
    struct err err = ERR_NONE;
    autofd int fd = -1;
    struct stat st;

    if (codebase_get_open_at(w->cb, version, path, &fd, &st, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(fd_read_all(fd, 1 << 20, &got), 0);
    assert_string_equal(got.data ? got.data : "", text);
}

static int approve_with(struct world *w, const struct approve_options *given, struct approve *ret, struct err *err)
{
    struct approve_options options = given ? *given : (struct approve_options){ 0 };

    options.codebase = &w->lands;
    return approve_run(w->delta, &decided_all, &options, ret, err);
}

static void must_approve(struct world *w, struct approve *ret)
{
    struct err err = ERR_NONE;

    if (approve_with(w, NULL, ret, &err) != 0)
        fail_msg("%s", err.text);
}

/* An agent, live or not, that has changed "a" and made "new". */
static void set_up(struct world *w, bool is_live)
{
    put_version(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    put_version(w, "other", "other\n");
    agent_start(w, (const char *const[]){ "**=write", NULL }, is_live);
    agent_write(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    agent_create(w, "new", "new\n", 0755);
    agent_end(w);
}

struct seen_version {
    char by[64], reason[256];
    uint64_t number;
};

static int on_newest(const struct codebase_version *version, void *cookie)
{
    struct seen_version *ret = cookie;

    snprintf(ret->by, sizeof(ret->by), "%s", version->by);
    snprintf(ret->reason, sizeof(ret->reason), "%s", version->reason);
    ret->number = version->number;
    return 1;
}

static void an_approval_is_one_version_and_names_its_sandbox(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autofree struct undo_entry *entries = NULL;
    struct seen_version seen = { 0 };
    struct err err = ERR_NONE;
    size_t count = 0;

    set_up(w, false);
    must_approve(w, &approve);
    assert_int_equal(approve.version, 3);
    assert_int_equal(newest(w), 3);
    assert_base(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_base(w, "new", "new\n");
    assert_int_equal(base_mode(w, "new") & 0777, 0755);
    assert_at(w, 2, "a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_int_equal(codebase_versions(w->cb, on_newest, &seen, &err), 1);
    assert_string_equal(seen.by, "tester");
    autofree char *reason = xprintf("approve sb_0123456789abcdef (%s)", approve.id);
    assert_string_equal(seen.reason, reason);
    assert_int_equal(undo_list(w->delta, &entries, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(entries[0].version, 3);
    assert_edits(w, "");
}

static void what_is_there_already_makes_no_version(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;

    put_version(w, "a", "1\n");
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    agent_write(w, "a", "2\n");
    agent_end(w);
    put_version(w, "a", "2\n");
    must_approve(w, &approve);
    assert_int_equal(newest(w), 2);
    assert_int_equal(approve.version, 0);
    assert_edits(w, "");
}

static void undoing_makes_the_content_before_it_the_newest_again(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(undo) struct undo undo = UNDO_NONE, again = UNDO_NONE;
    const struct undo_options options = { .codebase = &w->lands };
    struct err err = ERR_NONE;

    set_up(w, false);
    must_approve(w, &approve);
    put_version(w, "other", "somebody's\n");
    assert_int_equal(undo_run(w->delta, approve.id, &options, &undo, &err), 0);
    assert_int_equal(undo.version, 5);
    assert_base(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_base(w, "other", "somebody's\n");
    assert_false(base_has(w, "new"));
    assert_edits(w, "modified a, added new");
    /* And that is a change as well. */
    assert_int_equal(undo_run(w->delta, undo.id, &options, &again, &err), 0);
    assert_base(w, "new", "new\n");
}

static void what_a_later_version_changed_is_not_undone(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(undo) struct undo undo = UNDO_NONE;
    struct err err = ERR_NONE;

    set_up(w, false);
    must_approve(w, &approve);
    put_version(w, "a", "later\n");
    assert_int_equal(undo_run(w->delta, approve.id, &(struct undo_options){ .codebase = &w->lands }, &undo, &err), 1);
    assert_int_equal(undo.moved_count, 1);
    assert_string_equal(undo.moved[0], "a");
    assert_int_equal(newest(w), 4);
    assert_base(w, "new", "new\n");
}

static void links_and_modes_come_back(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(undo) struct undo undo = UNDO_NONE;
    struct err err = ERR_NONE;

    put_version(w, "tool", "#!/bin/sh\n");
    agent_begin(w);
    agent_symlink(w, "tool", "link");
    agent_chmod(w, "tool", 0755);
    agent_end(w);
    must_approve(w, &approve);
    assert_int_equal(base_mode(w, "tool") & 0777, 0755);
    assert_true(S_ISLNK(base_mode(w, "link")));
    assert_edits(w, "");
    if (undo_run(w->delta, approve.id, &(struct undo_options){ .codebase = &w->lands }, &undo, &err) != 0)
        fail_msg("%s %s", err.text, undo.moved_count ? undo.moved[0] : "");
    assert_int_equal(base_mode(w, "tool") & 0777, 0644);
    assert_false(base_has(w, "link"));
}

/* ---- versions of others ---- */

static void a_later_version_of_the_same_file_is_a_conflict_and_nothing_is_written(void **state)
{
    struct world *w = *state;
    autodone(conflict_report) struct conflict_report report = CONFLICT_REPORT_NONE;
    autodone(approve) struct approve approve = APPROVE_NONE, forced = APPROVE_NONE;
    struct err err = ERR_NONE;

    set_up(w, true);
    put_version(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\nneun\n");
    assert_int_equal(approve_with(w, NULL, &approve, &err), 1);
    assert_int_equal(approve.conflict_count, 1);
    assert_int_equal(newest(w), 3);
    assert_false(base_has(w, "new"));
    assert_int_equal(conflict_report_make(w->delta, NULL, &report, &err), 0);
    assert_int_equal(report.conflict_count, 1);
    assert_int_equal(approve_with(w, &(struct approve_options){ .is_forced = true }, &forced, &err), 0);
    assert_base(w, "a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
}

static void a_later_version_in_other_lines_is_merged(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;

    set_up(w, true);
    put_version(w, "a", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    must_approve(w, &approve);
    assert_base(w, "a", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_int_equal(approve.version, 4);
}

static void put_meanwhile(const struct approve *approve, struct buf *out, void *cookie)
{
    (void) approve;
    put_version(cookie, "a", "meanwhile\n2\n3\n4\n5\n6\n7\n8\n9\n");
    buf_add_str(out, "owed");
}

static int on_owed(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err)
{
    (void) id;
    (void) record;
    (void) err;
    *(int *) cookie += 1;
    return 0;
}

/* Somebody's version comes when everything is checked and staged. */
static void a_version_in_the_last_moment_refuses_it(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE, again = APPROVE_NONE;
    const struct approve_options options = { .owe = put_meanwhile, .cookie = w };
    struct err err = ERR_NONE;
    int owed = 0;

    set_up(w, true);
    assert_int_equal(approve_with(w, &options, &approve, &err), -ESTALE);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_non_null(strstr(err.text, "a"));
    assert_non_null(strstr(err.text, "nothing was changed"));
    assert_int_equal(newest(w), 3);
    assert_false(base_has(w, "new"));
    assert_int_equal(approve_recover(w->delta, false, &w->lands, &err), 0);
    assert_int_equal(approve_each_follow_up(w->delta, on_owed, &owed, &err), 0);
    assert_int_equal(owed, 0);
    must_approve(w, &again);
    assert_base(w, "new", "new\n");
}

static void a_codebase_that_is_full_changes_nothing(void **state)
{
    struct world *w = *state;
    struct codebase_options small = { .quota_bytes = 40 };
    autofree char *root = xprintf("%s/codebases", w->f.dir);
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    set_up(w, false);
    codebase_close(w->cb);
    codebases_close(w->all);
    assert_int_equal(codebases_open(root, &small, &w->all, &err), 0);
    assert_int_equal(codebase_open(w->all, CODEBASE, &w->cb, &err), 0);
    w->lands.codebase = w->cb;
    assert_int_equal(approve_with(w, NULL, &approve, &err), -EDQUOT);
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(newest(w), 2);
    assert_edits(w, "modified a, added new");
}

/* ---- after a kill ---- */

static void killed_when_the_version_was_made_it_is_found_by_its_message(void **state)
{
    struct world *w = *state;
    autofree struct undo_entry *entries = NULL;
    struct err err = ERR_NONE;
    size_t count = 0;
    int status;

    set_up(w, false);
    pid_t pid = fork();
    if (pid == 0) {
        autodone(approve) struct approve approve = APPROVE_NONE;
        setenv("AGENTFENSE_FAULT", "landing-version-made", 1);
        _exit(approve_with(w, NULL, &approve, &err) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        skip();
    /* Others go on. */
    put_version(w, "other", "somebody's\n");
    assert_int_equal(newest(w), 4);
    /* Whoever does not know the codebase can do nothing, and need not. */
    assert_int_equal(approve_recover(w->delta, false, NULL, &err), -EOPNOTSUPP);
    assert_int_equal(approve_recover_before_delete(w->delta, &err), 0);
    assert_int_equal(approve_recover(w->delta, false, &w->lands, &err), 0);
    assert_int_equal(newest(w), 4);
    assert_int_equal(undo_list(w->delta, &entries, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(entries[0].version, 3);
    assert_edits(w, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(an_approval_is_one_version_and_names_its_sandbox),
        world_test(what_is_there_already_makes_no_version),
        world_test(undoing_makes_the_content_before_it_the_newest_again),
        world_test(what_a_later_version_changed_is_not_undone),
        world_test(links_and_modes_come_back),
        world_test(a_later_version_of_the_same_file_is_a_conflict_and_nothing_is_written),
        world_test(a_later_version_in_other_lines_is_merged),
        world_test(a_version_in_the_last_moment_refuses_it),
        world_test(a_codebase_that_is_full_changes_nothing),
        world_test(killed_when_the_version_was_made_it_is_found_by_its_message),
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
