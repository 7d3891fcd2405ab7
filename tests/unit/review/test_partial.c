/* Approving in parts, on a project that moves, and taking it back. */
#include "review/approve.h"

#include "review_fixture.h"

#include "review/change_set.h"
#include "review/conflict.h"
#include "review/discard.h"
#include "review/file_diff.h"
#include "review/rebase.h"
#include "review/undo.h"

#define V1 "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"
#define MIDDLE "2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n"

static void begin_live(struct world *w)
{
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
}

static int run_shown(struct world *w, const struct selection_file *file, const struct expectation_list *shown,
                     struct approve_options options, struct approve *ret)
{
    struct selection selection = { file, file ? 1 : 0 };
    struct decision decision = decided_all;
    struct err err = ERR_NONE;

    options.selection = &selection;
    options.codebase = lands_in(w);
    decision.shown = shown;
    int r = approve_run(w->delta, &decision, &options, ret, &err);
    if (r < 0)
        print_message("%s\n", err.text);
    return r;
}

static int run(struct world *w, const struct selection_file *file, struct approve_options options, struct approve *ret)
{
    return run_shown(w, file, &meant_as_it_is, options, ret);
}

static void expect(struct world *w, const struct selection_file *file, int expected)
{
    autodone(approve) struct approve approve = APPROVE_NONE;

    assert_int_equal(run(w, file, (struct approve_options){ 0 }, &approve), expected);
}

/* Both ends of a text changed by the agent. */
static void change_both_ends(struct world *w)
{
    base_put(w, "f", V1);
    begin_live(w);
    agent_write(w, "f", "one\n" MIDDLE "twenty\n");
    agent_end(w);
}

static void a_hunk_is_taken_and_the_other_stays(void **state)
{
    static const struct selection_range end = { 10, 30 };
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;

    change_both_ends(w);
    assert_int_equal(run(w, &(struct selection_file){ .path = "f", .ranges = &end, .range_count = 1 },
                         (struct approve_options){ 0 }, &approve),
                     0);
    assert_int_equal(approve.files[0].outcome, APPROVE_PARTLY);
    assert_int_equal(approve.files[0].hunk_count, 2);
    assert_int_equal(approve.files[0].hunks_taken, 1);
    assert_int_equal(approve.drop_count, 0);
    assert_base(w, "f", "1\n" MIDDLE "twenty\n");
    assert_edits(w, "modified f");
    /* The owner goes on where the hunk was taken: the rest merges. */
    base_put(w, "f", "1\n" MIDDLE "TWENTY\n");
    expect(w, NULL, 0);
    assert_base(w, "f", "one\n" MIDDLE "TWENTY\n");
    assert_edits(w, "");
}

#define BETWEEN "2\n3\n4\n5\n6\n7\n8\n9\n10\nbetween\n11\n12\n13\n14\n15\n16\n17\n18\n19\n"

/* The owner's line is none of the agent's, neither in what is taken nor in what is left. */
static void a_hunk_of_a_file_that_moved_on(void **state)
{
    static const struct selection_range first = { 1, 5 };
    struct world *w = *state;

    change_both_ends(w);
    base_put(w, "f", "1\n" BETWEEN "20\n");
    expect(w, &(struct selection_file){ .path = "f", .ranges = &first, .range_count = 1 }, 0);
    assert_base(w, "f", "one\n" BETWEEN "20\n");
    assert_edits(w, "modified f");
    expect(w, NULL, 0);
    assert_base(w, "f", "one\n" BETWEEN "twenty\n");
    assert_edits(w, "");
}

static void a_hunk_that_is_not_there_is_stale(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    static const char *const ids[] = { "0123456789abcdef" };

    change_both_ends(w);
    assert_int_equal(run(w, &(struct selection_file){ .path = "f", .hunk_ids = ids, .hunk_id_count = 1 },
                         (struct approve_options){ 0 }, &approve),
                     1);
    assert_int_equal(approve.stale_count, 1);
    assert_base(w, "f", V1);
}

static void what_the_owner_changed_elsewhere_is_kept(void **state)
{
    struct world *w = *state;
    autodone(conflict_report) struct conflict_report report = CONFLICT_REPORT_NONE;
    struct err err = ERR_NONE;

    change_both_ends(w);
    base_put(w, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\nbetween\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n");
    assert_int_equal(conflict_report_make(w->delta, NULL, &report, &err), 0);
    assert_int_equal(report.merge_count, 1);
    assert_int_equal(report.conflict_count, 0);
    expect(w, NULL, 0);
    assert_base(w, "f", "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\nbetween\n11\n12\n13\n14\n15\n16\n17\n18\n19\ntwenty\n");
    assert_edits(w, "");
}

static void the_same_lines_are_a_conflict_with_its_hunks(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;

    change_both_ends(w);
    base_put(w, "f", "uno\n" MIDDLE "20\n");
    assert_int_equal(run(w, NULL, (struct approve_options){ 0 }, &approve), 1);
    assert_int_equal(approve.conflict_count, 1);
    const struct threeway *merge = &approve.files[0].merge;
    assert_int_equal(merge->hunk_count, 1);
    assert_string_equal(merge->hunks[0].project.data, "uno\n");
    assert_string_equal(merge->hunks[0].base.data, "1\n");
    assert_string_equal(merge->hunks[0].agent.data, "one\n");
    assert_non_null(strstr(merge->bytes.data, "<<<<<<< project\nuno\n"));
    assert_base(w, "f", "uno\n" MIDDLE "20\n");
}

/* ---- what is shown ---- */

struct shown {
    struct change_set set;
    struct file_diff diff;
    struct file_change *change;
    char hash[CHANGE_HASH_TEXT_MAX], drift[CHANGE_HASH_TEXT_MAX], of_all[CHANGE_SET_HASH_MAX];
};

static void shown_done(struct shown *shown)
{
    file_diff_done(&shown->diff);
    change_set_done(&shown->set);
}

static void show(struct world *w, const char *path, struct shown *ret)
{
    struct err err = ERR_NONE;

    *ret = (struct shown){ .set = CHANGE_SET_EMPTY };
    assert_int_equal(change_set_load(w->delta, &(struct change_set_options){ 0 }, &ret->set, &err), 0);
    ret->change = change_set_find(&ret->set, path);
    assert_non_null(ret->change);
    if (file_diff_make(&ret->set, ret->change, &ret->diff, &err) < 0)
        fail_msg("%s", err.text);
    change_hash_text(ret->change->hash, ret->hash);
    drift_text(&ret->change->drift, ret->drift);
    assert_int_equal(change_set_hash(&ret->set, ret->of_all, &err), 0);
}

static void assert_lines(const struct shown *shown, size_t hunk, const char *header, const char *lines)
{
    assert_true(hunk < shown->diff.hunks.count);
    assert_string_equal(shown->diff.hunks.items[hunk].header, header);
    assert_string_equal(shown->diff.hunks.items[hunk].lines.data, lines);
}

/* As the service does it: hunks, and what they were shown with. */
static int take_shown(struct world *w, const struct shown *shown, const struct selection_file *file)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct expectation item = { shown->change->scope_path, shown->hash, shown->drift };
    struct expectation_list expected = { &item, 1, true };
    int r = run_shown(w, file, &expected, (struct approve_options){ 0 }, &approve);

    assert_true(r <= 0 || approve.stale_count == 1);
    return r;
}

/* Lines of the agent's or of the owner's, by their numbers; 0 ends. */
static char *sixty(const char *whose, const unsigned *numbers, unsigned before)
{
    struct buf text = BUF_EMPTY;

    for (unsigned i = 1; i <= before; i++)
        buf_addf(&text, "user on top %u\n", i);
    for (unsigned i = 1; i <= 60; i++) {
        bool is_theirs = false;
        for (const unsigned *n = numbers; *n; n++)
            is_theirs |= *n == i;
        buf_addf(&text, "%s %u\n", is_theirs ? whose : "line", i);
    }
    return buf_dup_take(&text);
}

static void begin_sixty(struct world *w)
{
    autofree char *was = sixty("line", (const unsigned[]){ 0 }, 0), *now = sixty("AGENT", (const unsigned[]){ 12, 30, 0 }, 0);

    base_put(w, "f", was);
    begin_live(w);
    agent_write(w, "f", now);
    agent_end(w);
}

#define AROUND(word, n, a, b, c, d, e, f)                                                                                      \
    " line " #a "\n line " #b "\n line " #c "\n-line " #n "\n+" word " " #n "\n line " #d "\n line " #e "\n line " #f "\n"

static void a_range_means_the_hunk_that_was_shown_there(void **state)
{
    struct world *w = *state;
    struct shown shown;
    autofree char *owners = sixty("line", (const unsigned[]){ 0 }, 18);

    begin_sixty(w);
    base_put(w, "f", owners);
    show(w, "f", &shown);
    assert_int_equal(shown.change->state, RECONCILE_MERGES);
    assert_int_equal(shown.diff.hunks.count, 2);
    assert_lines(&shown, 0, "@@ -27,7 +27,7 @@", AROUND("AGENT", 12, 9, 10, 11, 13, 14, 15));
    assert_lines(&shown, 1, "@@ -45,7 +45,7 @@", AROUND("AGENT", 30, 27, 28, 29, 31, 32, 33));
    assert_int_equal(shown.change->added, 2);
    struct selection_range range = { 45, 51 };
    assert_int_equal(take_shown(w, &shown, &(struct selection_file){ .path = "f", .ranges = &range, .range_count = 1 }), 0);
    shown_done(&shown);
    autofree char *expected = sixty("AGENT", (const unsigned[]){ 30, 0 }, 18);
    assert_base(w, "f", expected);
    /* What is left is the other, and nothing of the owner's. */
    show(w, "f", &shown);
    assert_int_equal(shown.diff.hunks.count, 1);
    assert_lines(&shown, 0, "@@ -27,7 +27,7 @@", AROUND("AGENT", 12, 9, 10, 11, 13, 14, 15));
    shown_done(&shown);
}

static void the_owners_lines_are_not_shown_as_the_agents(void **state)
{
    struct world *w = *state;
    struct shown shown;
    autofree char *owners = sixty("user", (const unsigned[]){ 45, 14, 0 }, 0);

    begin_sixty(w);
    base_put(w, "f", owners);
    show(w, "f", &shown);
    assert_int_equal(shown.diff.hunks.count, 2);
    assert_lines(&shown, 0, "@@ -9,7 +9,7 @@",
                 " line 9\n line 10\n line 11\n-line 12\n+AGENT 12\n line 13\n user 14\n line 15\n");
    assert_lines(&shown, 1, "@@ -27,7 +27,7 @@", AROUND("AGENT", 30, 27, 28, 29, 31, 32, 33));
    /* One beside the owner's line is approved by itself. */
    const char *ids[] = { shown.diff.hunks.items[0].id };
    assert_int_equal(take_shown(w, &shown, &(struct selection_file){ .path = "f", .hunk_ids = ids, .hunk_id_count = 1 }), 0);
    shown_done(&shown);
    show(w, "f", &shown);
    assert_int_equal(shown.diff.hunks.count, 1);
    assert_lines(&shown, 0, "@@ -27,7 +27,7 @@", AROUND("AGENT", 30, 27, 28, 29, 31, 32, 33));
    shown_done(&shown);
    expect(w, NULL, 0);
    autodone(buf) struct buf got = BUF_EMPTY;
    assert_int_equal(file_read(w->f.fd, BASE_DIR "/f", 1 << 20, &got), 0);
    assert_non_null(strstr(got.data, "AGENT 12\nline 13\nuser 14\n"));
    assert_non_null(strstr(got.data, "AGENT 30\n"));
    assert_non_null(strstr(got.data, "user 45\n"));
    assert_edits(w, "");
}

/* The agent's bytes are the same, and yet it is not what was shown. */
static void hunks_are_held_to_the_project_as_it_was_shown(void **state)
{
    struct world *w = *state;
    struct shown shown, later;
    struct selection_range range = { 27, 33 };
    struct selection_file file = { .path = "f", .ranges = &range, .range_count = 1 };
    autofree char *before = sixty("line", (const unsigned[]){ 0 }, 0), *owners = sixty("line", (const unsigned[]){ 0 }, 18),
                  *next = sixty("line", (const unsigned[]){ 0 }, 17);

    begin_sixty(w);
    show(w, "f", &shown);
    assert_string_equal(shown.drift, "");
    assert_int_equal(strlen(shown.of_all), CHANGE_HASH_TEXT_MAX - 1);
    base_put(w, "f", owners);
    assert_int_equal(take_shown(w, &shown, &file), 1);
    assert_base(w, "f", owners);
    show(w, "f", &later);
    assert_string_equal(shown.hash, later.hash);
    assert_string_not_equal(shown.drift, later.drift);
    assert_true(change_set_hash_is(later.of_all, shown.of_all, true));
    assert_false(change_set_hash_is(later.of_all, shown.of_all, false));
    base_put(w, "f", next);
    assert_int_equal(take_shown(w, &later, &file), 1);
    shown_done(&later);
    /* As it was: what was shown counts again, whenever it was saved. */
    base_put(w, "f", before);
    assert_int_equal(take_shown(w, &shown, &file), 0);
    autofree char *expected = sixty("AGENT", (const unsigned[]){ 30, 0 }, 0);
    assert_base(w, "f", expected);
    /* And not twice: the agent stands on another ground now. */
    assert_int_equal(take_shown(w, &shown, &file), 1);
    shown_done(&shown);
}

/* What was hashed without comparing is what was hashed when it was compared. */
static void a_set_that_was_only_hashed_has_the_same_hash(void **state)
{
    struct world *w = *state;
    struct shown shown;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autofree char *owners = sixty("line", (const unsigned[]){ 0 }, 18);
    char hash[CHANGE_SET_HASH_MAX];
    struct err err = ERR_NONE;

    begin_sixty(w);
    base_put(w, "f", owners);
    show(w, "f", &shown);
    assert_int_equal(change_set_load(w->delta, &(struct change_set_options){ 0 }, &set, &err), 0);
    assert_int_equal(change_set_hash(&set, hash, &err), 0);
    assert_string_equal(hash, shown.of_all);
    assert_int_equal(strlen(hash), CHANGE_SET_HASH_MAX - 1);
    shown_done(&shown);
}

/* A time that was set back, and the same size. */
static void a_file_with_an_old_time_has_moved_on_all_the_same(void **state)
{
    struct world *w = *state;
    struct shown shown;
    autofree char *owners = sixty("USER", (const unsigned[]){ 45, 0 }, 0);
    struct stat was;

    begin_sixty(w);
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/f", &was, 0), 0);
    base_put(w, "f", owners);
    assert_int_equal(utimensat(w->f.fd, BASE_DIR "/f", (struct timespec[]){ was.st_atim, was.st_mtim }, 0), 0);
    show(w, "f", &shown);
    assert_int_equal(shown.change->state, RECONCILE_MERGES);
    assert_int_equal(shown.diff.hunks.count, 2);
    shown_done(&shown);
}

static void a_conflict_shows_what_the_agent_did_and_is_told_as_one(void **state)
{
    struct world *w = *state;
    struct shown shown;

    change_both_ends(w);
    base_put(w, "f", "uno\n" MIDDLE "20\n");
    show(w, "f", &shown);
    assert_int_equal(shown.change->state, RECONCILE_CONFLICT);
    assert_non_null(strstr(shown.change->reason, "in the same lines"));
    assert_int_equal(shown.diff.hunks.count, 2);
    assert_lines(&shown, 0, "@@ -1,4 +1,4 @@", "-1\n+one\n 2\n 3\n 4\n");
    /* Not one of them is approved, and force means the file. */
    const char *ids[] = { shown.diff.hunks.items[1].id };
    struct selection_file file = { .path = "f", .hunk_ids = ids, .hunk_id_count = 1 };
    expect(w, &file, 1);
    autodone(approve) struct approve approve = APPROVE_NONE;
    assert_int_equal(run(w, &file, (struct approve_options){ .is_forced = true }, &approve), 1);
    assert_base(w, "f", "uno\n" MIDDLE "20\n");
    shown_done(&shown);
}

/* ---- texts ---- */

/* What looks like a marker in a text is none. */
static void texts_with_markers_in_them(void **state)
{
    autodone(threeway) struct threeway merge = THREEWAY_EMPTY;
    struct buf base = { (char *) (uintptr_t) "<<<<<<< x\na\n", 12, 0 }, one = { (char *) (uintptr_t) "<<<<<<< x\nb\n", 12, 0 },
               two = { (char *) (uintptr_t) "<<<<<<< x\nc\n", 12, 0 };
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(threeway_make(&base, &one, &two, THREEWAY_NONE, &merge, &err), 0);
    assert_false(merge.is_clean);
    assert_int_equal(merge.hunk_count, 1);
    assert_string_equal(merge.hunks[0].agent.data, "c\n");
    threeway_done(&merge);
    assert_int_equal(threeway_make(&base, &one, &two, THREEWAY_AGENT, &merge, &err), 0);
    assert_true(merge.is_clean);
    assert_string_equal(merge.bytes.data, "<<<<<<< x\nc\n");
}

/* The agent read one version, the owner saved the next, the agent wrote from the first. */
static void writing_over_what_was_not_read_is_a_conflict(void **state)
{
    struct world *w = *state;
    char bytes[100];

    base_put(w, "f", "1\n");
    begin_live(w);
    struct inode *inode = walk(&w->f, "f", NULL);
    assert_true(op_read(w->f.fence, &nobody, inode, bytes, sizeof(bytes), 0) > 0);
    base_put(w, "f", "saved by its owner\n");
    agent_write(w, "f", "from the first\n");
    agent_end(w);
    expect(w, NULL, 1);
    assert_base(w, "f", "saved by its owner\n");
}

static void a_dry_run_answers_and_writes_nothing(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;

    change_both_ends(w);
    assert_int_equal(run(w, NULL, (struct approve_options){ .is_dry = true }, &approve), 0);
    assert_int_equal(approve.taken_count, 1);
    assert_int_equal(approve.drop_count, 1);
    assert_string_equal(approve.drops[0], "/f");
    assert_string_equal(approve.id, "");
    assert_base(w, "f", V1);
    assert_edits(w, "modified f");
}

static void only_what_was_reviewed_is_taken(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    char hash[CHANGE_HASH_TEXT_MAX];
    struct err err = ERR_NONE;

    change_both_ends(w);
    assert_int_equal(change_set_load(w->delta, &(struct change_set_options){ 0 }, &set, &err), 0);
    assert_int_equal(file_diff_hash(&set, &set.items[0], &err), 0);
    change_hash_text(set.items[0].hash, hash);
    struct expectation item = { "f", hash, NULL };
    struct expectation_list expected = { &item, 1, true };
    begin_live(w);
    agent_write(w, "f", "one\nsomething else\n");
    agent_create(w, "n", "never shown\n", 0644);
    agent_end(w);
    const struct approve_options options = { .codebase = lands_in(w) };
    assert_int_equal(run_shown(w, NULL, &expected, options, &approve), 1);
    assert_int_equal(approve.stale_count, 1);
    assert_int_equal(approve.unshown_count, 1);
    assert_base(w, "f", V1);
    begin_live(w);
    agent_write(w, "f", "one\n" MIDDLE "twenty\n");
    agent_end(w);
    approve_done(&approve);
    assert_int_equal(run_shown(w, &(struct selection_file){ .path = "f" }, &expected, options, &approve), 0);
    assert_base(w, "f", "one\n" MIDDLE "twenty\n");
    assert_false(base_has(w, "n"));
}

/* Somebody holds the fence still, and drops what was taken. */
static void a_delta_that_is_held(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct fence_quiesced *hold = NULL;
    struct err err = ERR_NONE;

    base_put(w, "f", V1);
    begin_live(w);
    agent_write(w, "f", "one\n" MIDDLE "20\n");
    assert_int_equal(fence_quiesce(w->f.fence, 1000, &hold, &err), 0);
    assert_int_equal(run(w, NULL, (struct approve_options){ .is_held = true, .is_dropping = true }, &approve), 0);
    assert_int_equal(approve.drop_count, 1);
    assert_int_equal(fence_resume(hold, &(struct fence_revert){ approve.drops[0], -1 }, 1, &err), 0);
    assert_base(w, "f", "one\n" MIDDLE "20\n");
    assert_false(is_there(&w->f, "delta/data/f"));
    agent_end(w);
    assert_edits(w, "");
}

static void nothing_else_is_touched(void **state)
{
    struct world *w = *state;
    struct stat was, is;

    base_put_mode(w, "other", "o\n", 0640);
    base_put(w, "d/other", "o\n");
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/other", &was, 0), 0);
    change_both_ends(w);
    expect(w, NULL, 0);
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/other", &is, 0), 0);
    assert_memory_equal(&was, &is, sizeof(was));
}

/* ---- taking back ---- */

static void an_approval_is_undone_and_that_is_undone(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(undo) struct undo undo = UNDO_NONE, again = UNDO_NONE;
    struct undo_options options = { .codebase = lands_in(w) };
    struct stat was, is;
    struct err err = ERR_NONE;

    a_busy_agent(w);
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/a", &was, 0), 0);
    assert_int_equal(run(w, NULL, (struct approve_options){ 0 }, &approve), 0);
    assert_busy_work(w);
    if (undo_run(w->delta, approve.id, &options, &undo, &err) != 0)
        fail_msg("%s %s", err.text, undo.moved_count ? undo.moved[0] : "");
    assert_base(w, "a", "a\n");
    assert_base(w, "b", "b\n");
    assert_base(w, "d/e/f", "f\n");
    assert_base(w, "was-dir/x", "x\n");
    assert_base(w, "was-file", "x\n");
    assert_false(base_has(w, "n"));
    assert_false(base_has(w, "n-beside"));
    assert_int_equal(base_mode(w, "target"), S_IFREG | 0644);
    assert_int_equal(base_mode(w, "d"), S_IFDIR | 0755);
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/a", &is, 0), 0);
    assert_memory_equal(&was.st_mtim, &is.st_mtim, sizeof(is.st_mtim));
    assert_int_equal(undo_run(w->delta, approve.id, &options, &again, &err), -EALREADY);
    if (undo_run(w->delta, undo.id, &options, &again, &err) != 0)
        fail_msg("%s", err.text);
    assert_busy_work(w);
}

static void what_moved_on_is_not_undone(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    autodone(undo) struct undo undo = UNDO_NONE;
    struct err err = ERR_NONE;

    a_busy_agent(w);
    assert_int_equal(run(w, NULL, (struct approve_options){ 0 }, &approve), 0);
    base_put(w, "a", "edited since\n");
    base_put(w, "b", "made again\n");
    assert_int_equal(undo_run(w->delta, approve.id, &(struct undo_options){ .codebase = lands_in(w) }, &undo, &err), 1);
    assert_int_equal(undo.moved_count, 2);
    assert_base(w, "a", "edited since\n");
    assert_base(w, "over", "new\n");
    undo_done(&undo);
    assert_int_equal(undo_run(w->delta, "ap_0000000000000000", &(struct undo_options){ .codebase = lands_in(w) }, &undo, &err),
                     -ENOENT);
}

/* ---- giving up, moving along ---- */

static void what_is_discarded_shows_the_project(void **state)
{
    struct world *w = *state;
    autodone(discard) struct discard discard = DISCARD_NONE;
    struct selection_file file = { .path = "d/e/f" };
    struct selection selection = { &file, 1 };
    struct err err = ERR_NONE;

    a_busy_agent(w);
    assert_true(discard_plan(w->delta, &selection, &discard, &err) < 0);
    assert_non_null(strstr(err.text, "directory"));
    file.path = "d/e";
    assert_int_equal(discard_plan(w->delta, &selection, &discard, &err), 0);
    assert_int_equal(discard.drop_count, 1);
    assert_int_equal(delta_revert(w->delta, &(struct fence_revert){ discard.drops[0], -1 }, 1, &err), 0);
    discard_done(&discard);
    file.path = "n/m/deep"; /* and not the directories that are on its way */
    assert_int_equal(discard_plan(w->delta, &selection, &discard, &err), 0);
    assert_int_equal(discard.drop_count, 1);
    assert_string_equal(discard.drops[0], "/n/m/deep");
    expect(w, NULL, 0);
    assert_base(w, "d/e/f", "f\n");
}

static void rebase_with(struct world *w, enum rebase_strategy strategy, size_t conflicts)
{
    autodone(rebase) struct rebase rb = REBASE_NONE;
    struct err err = ERR_NONE;

    assert_int_equal(rebase_plan(w->delta, NULL, strategy, &rb, &err), 0);
    assert_int_equal(rb.conflict_count, conflicts);
    if (delta_revert(w->delta, rb.changes, rb.change_count, &err) < 0 || rebase_finish(&rb, &err) < 0)
        fail_msg("%s", err.text);
}

static void conflicts_are_decided_by_a_rebase(void **state)
{
    struct world *w = *state;

    change_both_ends(w);
    base_put(w, "bin", "b");
    begin_live(w);
    agent_unlink(w, "bin");
    agent_end(w);
    base_put(w, "f", "uno\n" MIDDLE "20\n");
    base_put(w, "bin", "changed");
    rebase_with(w, REBASE_REGENERATE, 2);
    rebase_with(w, REBASE_MERGE, 2);
    expect(w, NULL, 1);
    rebase_with(w, REBASE_OURS, 0);
    assert_edits(w, "modified f");
    expect(w, NULL, 0);
    assert_base(w, "f", "uno\n" MIDDLE "twenty\n");
    assert_base(w, "bin", "changed");
}

static void the_agents_side_may_count(void **state)
{
    struct world *w = *state;

    change_both_ends(w);
    base_put(w, "bin", "b");
    begin_live(w);
    agent_unlink(w, "bin");
    agent_end(w);
    base_put(w, "f", "uno\n" MIDDLE "20\n");
    base_put(w, "bin", "changed");
    rebase_with(w, REBASE_THEIRS, 0);
    expect(w, NULL, 0);
    assert_base(w, "f", "one\n" MIDDLE "twenty\n");
    assert_false(base_has(w, "bin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(a_hunk_is_taken_and_the_other_stays),
        world_test(a_hunk_of_a_file_that_moved_on),
        world_test(a_hunk_that_is_not_there_is_stale),
        world_test(what_the_owner_changed_elsewhere_is_kept),
        world_test(the_same_lines_are_a_conflict_with_its_hunks),
        world_test(a_range_means_the_hunk_that_was_shown_there),
        world_test(the_owners_lines_are_not_shown_as_the_agents),
        world_test(hunks_are_held_to_the_project_as_it_was_shown),
        world_test(a_set_that_was_only_hashed_has_the_same_hash),
        world_test(a_file_with_an_old_time_has_moved_on_all_the_same),
        world_test(a_conflict_shows_what_the_agent_did_and_is_told_as_one),
        cmocka_unit_test(texts_with_markers_in_them),
        world_test(writing_over_what_was_not_read_is_a_conflict),
        world_test(a_dry_run_answers_and_writes_nothing),
        world_test(only_what_was_reviewed_is_taken),
        world_test(a_delta_that_is_held),
        world_test(nothing_else_is_touched),
        world_test(an_approval_is_undone_and_that_is_undone),
        world_test(what_moved_on_is_not_undone),
        world_test(what_is_discarded_shows_the_project),
        world_test(conflicts_are_decided_by_a_rebase),
        world_test(the_agents_side_may_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
