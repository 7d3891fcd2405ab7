#include "review/change_set.h"

#include "review_fixture.h"

#include "review/file_diff.h"

static void load(struct world *w, const char *prefix, bool without_renames, struct change_set *ret)
{
    struct change_set_options options = { prefix, without_renames };
    struct err err = ERR_NONE;

    if (change_set_load(w->delta, &options, ret, &err) < 0)
        fail_msg("%s", err.text);
}

/* "added a +2 -0, renamed d/b (c) +0 -1, deleted d/" */
static void assert_set(struct world *w, bool without_renames, const char *expected)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err err = ERR_NONE;

    load(w, NULL, without_renames, &set);
    assert_int_equal(change_set_measure(&set, NULL, 0, &err), 0);
    for (size_t i = 0; i < set.count; i++) {
        const struct file_change *c = &set.items[i];
        buf_addf(&text, "%s%s %s", i ? ", " : "", file_change_kind_name(c->kind), c->path);
        if (c->is_dir)
            buf_add_char(&text, '/');
        if (c->old_path)
            buf_addf(&text, " (%s)", c->old_path);
        if (!c->is_dir)
            buf_addf(&text, " +%zu -%zu", c->added, c->removed);
        assert_true(c->is_measured && c->is_hashed && !c->failure);
    }
    assert_string_equal(text.data ? text.data : "", expected);
}

static void hash_of(struct world *w, bool without_renames, char out[CHANGE_SET_HASH_MAX])
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct err err = ERR_NONE;

    load(w, NULL, without_renames, &set);
    assert_int_equal(change_set_hash(&set, out, &err), 0);
}

#define TEN "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

static void every_kind_of_change(void **state)
{
    struct world *w = *state;

    base_put(w, "changed", TEN);
    base_put(w, "gone", "gone\nreally\n");
    base_put(w, "dir/one", "1\n");
    base_put(w, "dir/two", "2\n");
    base_put(w, "moved", TEN TEN);
    base_put(w, "mode", "m\n");
    base_put(w, "same", "s\n");
    agent_begin(w);
    agent_write(w, "changed", "0\n" TEN);
    agent_unlink(w, "gone");
    agent_unlink(w, "dir/one");
    agent_unlink(w, "dir/two");
    agent_rmdir(w, "dir");
    agent_rename(w, "moved", "to");
    agent_chmod(w, "mode", 0755);
    agent_write(w, "same", "s\n");
    agent_create(w, "new", "a\nb", 0644);
    agent_symlink(w, "new", "link");
    agent_mkdir(w, "made");
    agent_end(w);
    assert_set(w, false,
               "modified changed +1 -0, deleted dir/, deleted dir/one +0 -1, deleted dir/two +0 -1, deleted gone +0 -2, "
               "added link +1 -0, added made/, modified mode +0 -0, added new +2 -0, renamed to (moved) +0 -0");
    assert_set(w, true,
               "modified changed +1 -0, deleted dir/, deleted dir/one +0 -1, deleted dir/two +0 -1, deleted gone +0 -2, "
               "added link +1 -0, added made/, modified mode +0 -0, deleted moved +0 -20, added new +2 -0, added to +20 -0");
}

static void paths_are_told_from_both_roots(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct change_set bad = CHANGE_SET_EMPTY;
    struct err err = ERR_NONE;

    base_put(w, "d/f", TEN TEN);
    agent_begin(w);
    agent_rename(w, "d/f", "g");
    agent_end(w);
    load(w, "/services/api/", false, &set);
    struct file_change *change = change_set_find(&set, "services/api/g");
    assert_non_null(change);
    assert_ptr_equal(change, change_set_find_scoped(&set, "g"));
    assert_string_equal(change->scope_path, "g");
    assert_string_equal(change->old_path, "services/api/d/f");
    assert_int_equal(change->percent, 100);
    assert_null(change_set_find(&set, "g"));
    assert_true(change_set_load(w->delta, &(struct change_set_options){ .prefix = "../x" }, &bad, &err) < 0);
}

static void modes_and_targets_are_told(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put_mode(w, "f", "f\n", 0640);
    base_put(w, "becomes", "x\n");
    assert_int_equal(symlinkat("before", w->f.fd, "base/l"), 0);
    agent_begin(w);
    agent_chmod(w, "f", 0750);
    agent_unlink(w, "l");
    agent_symlink(w, "/after", "l");
    agent_unlink(w, "becomes");
    agent_symlink(w, "f", "becomes");
    agent_end(w);
    load(w, NULL, false, &set);
    struct file_change *f = change_set_find(&set, "f"), *l = change_set_find(&set, "l"), *b = change_set_find(&set, "becomes");
    assert_int_equal(f->old_mode & 0777, 0640);
    assert_int_equal(f->new_mode & 0777, 0750);
    assert_int_equal(l->kind, FILE_CHANGE_MODIFIED);
    assert_string_equal(l->old_target, "before");
    assert_string_equal(l->new_target, "/after");
    assert_int_equal(l->acknowledge, ACKNOWLEDGE_LINK);
    assert_true(S_ISREG(b->old_mode) && S_ISLNK(b->new_mode));
    assert_int_equal(b->kind, FILE_CHANGE_MODIFIED);
    assert_int_equal(b->acknowledge, ACKNOWLEDGE_NOTHING);
}

/* ---- hashes ---- */

static void the_hash_is_of_what_would_be_applied(void **state)
{
    struct world *w = *state;
    char first[CHANGE_SET_HASH_MAX], again[CHANGE_SET_HASH_MAX], other[CHANGE_SET_HASH_MAX];

    base_put(w, "f", TEN TEN);
    base_put(w, "g", "g\n");
    agent_begin(w);
    agent_rename(w, "f", "h");
    agent_write(w, "g", "gg\n");
    agent_end(w);
    hash_of(w, false, first);
    hash_of(w, false, again);
    assert_string_equal(first, again);
    hash_of(w, true, again);
    assert_string_equal(first, again);
    agent_begin(w);
    agent_write(w, "g", "GG\n");
    agent_end(w);
    hash_of(w, false, other);
    assert_string_not_equal(first, other);
    agent_begin(w);
    agent_write(w, "g", "gg\n");
    agent_end(w);
    hash_of(w, false, again);
    assert_string_equal(first, again);
    agent_begin(w);
    agent_chmod(w, "g", 0755);
    agent_end(w);
    hash_of(w, false, other);
    assert_string_not_equal(first, other);
}

/* A link to "x" is not a file with an x in it, and the one name is not the other. */
static void kinds_and_names_are_in_the_hash(void **state)
{
    struct world *w = *state;
    char hashes[4][CHANGE_SET_HASH_MAX];

    base_put(w, "keep", "");
    agent_begin(w);
    agent_create(w, "a", "x", 0777);
    agent_end(w);
    hash_of(w, false, hashes[0]);
    agent_begin(w);
    agent_unlink(w, "a");
    agent_symlink(w, "x", "a");
    agent_end(w);
    hash_of(w, false, hashes[1]);
    agent_begin(w);
    agent_rename(w, "a", "b");
    agent_end(w);
    hash_of(w, false, hashes[2]);
    agent_begin(w);
    agent_unlink(w, "b");
    agent_end(w);
    hash_of(w, false, hashes[3]);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hashes[i], hashes[k]);
    }
}

static void what_cannot_be_read_has_a_hash_of_its_own(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    char first[CHANGE_SET_HASH_MAX], second[CHANGE_SET_HASH_MAX];
    struct err err = ERR_NONE;

    base_put(w, "keep", "");
    agent_begin(w);
    agent_create(w, "f", "f\n", 0644);
    agent_end(w);
    load(w, NULL, false, &set);
    assert_int_equal(unlinkat(w->f.fd, "delta/data/f", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", w->f.fd, "delta/data/f"), 0);
    assert_int_equal(file_diff_make(&set, &set.items[0], &diff, &err), 0);
    assert_true(set.items[0].failure < 0);
    assert_int_equal(diff.hunks.count, 0);
    assert_int_equal(diff.now.bytes.len, 0);
    assert_int_equal(change_set_hash(&set, first, &err), 0);
    assert_int_equal(change_set_hash(&set, second, &err), 0);
    assert_string_not_equal(first, second);
    assert_int_equal(change_set_totals(&set).unmeasured, 1);
}

/* ---- pages and sums ---- */

static void a_page_is_a_part_and_measures_only_that(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct err err = ERR_NONE;
    size_t count, total;

    base_put(w, "keep", "");
    agent_begin(w);
    agent_mkdir(w, "d");
    for (char c = 'a'; c <= 'z'; c++) {
        char path[] = { 'd', '/', c, 0 };
        agent_create(w, path, "x\n", 0644);
    }
    agent_create(w, "dd", "x\n", 0644);
    agent_end(w);
    load(w, "p", false, &set);
    autofree size_t *page =
        change_set_page(&set, &(struct change_set_query){ .path = "p/d", .offset = 2, .limit = 3 }, &count, &total);
    assert_int_equal(total, 26);
    assert_int_equal(count, 3);
    assert_string_equal(set.items[page[0]].path, "p/d/c");
    assert_int_equal(change_set_measure(&set, page, count, &err), 0);
    struct change_totals totals = change_set_totals(&set);
    assert_int_equal(totals.files, 27);
    assert_int_equal(totals.directories, 1);
    assert_int_equal(totals.lines_added, 3);
    assert_int_equal(totals.unmeasured, 24);
    autofree size_t *rest = change_set_page(&set, &(struct change_set_query){ .offset = 26 }, &count, &total);
    assert_int_equal(count, 1);
    assert_int_equal(rest[0], 27);
    assert_int_equal(total, 27);
    autofree size_t *beyond = change_set_page(&set, &(struct change_set_query){ .offset = 99, .limit = 1 }, &count, &total);
    assert_int_equal(count, 0);
    assert_non_null(beyond);
    autofree size_t *all =
        change_set_page(&set, &(struct change_set_query){ .path = "/p/", .with_directories = true }, &count, &total);
    assert_int_equal(count, 28);
    assert_int_equal(all[27], 27);
    assert_int_equal(change_set_measure(&set, NULL, 0, &err), 0);
    totals = change_set_totals(&set);
    assert_int_equal(totals.lines_added, 27);
    assert_int_equal(totals.unmeasured, 0);
    assert_int_equal(totals.bytes, 54);
}

static void a_diff_has_hunks_or_says_why_not(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct stat to = { .st_size = (off_t) FILE_DIFF_MAX + 1 };
    struct entry_answer answer = { 0 };
    struct err err = ERR_NONE;

    base_put(w, "text", TEN);
    base_put(w, "bytes", "b\n");
    agent_begin(w);
    agent_write(w, "text", "0\n" TEN "11\n");
    assert_int_equal(op_write(w->f.fence, &nobody, walk(&w->f, "bytes", NULL), 4, 0, write_from, (void *) (uintptr_t) "a\0b\n"),
                     4);
    agent_create(w, "large", "l", 0644);
    assert_int_equal(op_setattr(w->f.fence, &nobody, walk(&w->f, "large", NULL), &to, SETATTR_SIZE, &answer), 0);
    agent_end(w);
    load(w, NULL, false, &set);
    for (size_t i = 0; i < set.count; i++) {
        autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
        assert_int_equal(file_diff_make(&set, &set.items[i], &diff, &err), 0);
        assert_int_equal(diff.hunks.count, strcmp(set.items[i].path, "text") == 0 ? 2 : 0);
    }
    assert_true(change_set_find(&set, "bytes")->is_binary);
    assert_true(change_set_find(&set, "large")->is_too_large);
    assert_int_equal(change_set_find(&set, "large")->new_bytes, FILE_DIFF_MAX + 1);
    assert_true(change_set_find(&set, "large")->is_hashed);
    assert_int_equal(change_set_find(&set, "text")->added, 2);
}

/* ---- renames ---- */

static void a_rename_is_told_by_what_is_in_the_files(void **state)
{
    struct world *w = *state;

    base_put(w, "a/same", "identical\n");
    base_put(w, "b/same", "identical\n");
    base_put(w, "like", TEN TEN TEN "before\n");
    base_put(w, "unlike", "nothing of this\n");
    base_put(w, "empty", "");
    agent_begin(w);
    agent_mkdir(w, "c");
    agent_rename(w, "b/same", "c/same");
    agent_unlink(w, "a/same");
    agent_create(w, "c/other", "identical\n", 0644);
    agent_unlink(w, "like");
    agent_create(w, "c/like", TEN TEN TEN "after it\n", 0644);
    agent_unlink(w, "unlike");
    agent_create(w, "c/unlike", "is in this, but all else\n", 0644);
    agent_unlink(w, "empty");
    agent_create(w, "c/void", "", 0644);
    agent_end(w);
    /* The one with the same name goes first, and each deletion is used once. */
    assert_set(w, false,
               "added c/, renamed c/like (like) +1 -1, renamed c/other (b/same) +0 -0, renamed c/same (a/same) +0 -0, "
               "added c/unlike +1 -0, added c/void +0 -0, deleted empty +0 -0, deleted unlike +0 -1");
}

/* ---- what needs a word ---- */

static void a_repository_under_another_name_needs_a_word(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, "keep", "");
    base_put(w, "config", "ordinary\n");
    agent_begin(w);
    agent_mkdir(w, "bare");
    agent_mkdir(w, "bare/objects");
    agent_mkdir(w, "bare/refs");
    agent_create(w, "bare/HEAD", "ref: refs/heads/x\n", 0644);
    agent_create(w, "bare/config", "[core]\n\tfsmonitor = evil\n", 0644);
    agent_create(w, "bare/note", "", 0644);
    agent_write(w, "config", "still\n");
    agent_create(w, ".envrc", "evil\n", 0644);
    agent_end(w);
    load(w, NULL, false, &set);
    assert_int_equal(change_set_find(&set, "bare/config")->acknowledge, ACKNOWLEDGE_GIT);
    assert_int_equal(change_set_find(&set, "bare/HEAD")->acknowledge, ACKNOWLEDGE_GIT);
    assert_int_equal(change_set_find(&set, "config")->acknowledge, ACKNOWLEDGE_NOTHING);
    assert_int_equal(change_set_find(&set, ".envrc")->acknowledge, ACKNOWLEDGE_SHELL);
    assert_int_equal(change_set_totals(&set).to_acknowledge, 3);
}

static enum acknowledge reason_of(struct change_set *set, const char *path)
{
    const struct file_change *change = change_set_find(set, path);

    assert_non_null(change);
    return change->acknowledge;
}

static void deleting_needs_the_word_that_changing_does(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, ".envrc", "x\n");
    base_put(w, ".husky/pre-commit", TEN TEN);
    base_put(w, "plain", "x\n");
    agent_begin(w);
    agent_unlink(w, ".envrc");
    agent_unlink(w, "plain");
    agent_rename(w, ".husky/pre-commit", "elsewhere");
    agent_end(w);
    load(w, NULL, false, &set);
    assert_int_equal(reason_of(&set, ".envrc"), ACKNOWLEDGE_SHELL);
    assert_int_equal(reason_of(&set, "plain"), ACKNOWLEDGE_NOTHING);
    assert_int_equal(change_set_find(&set, "elsewhere")->kind, FILE_CHANGE_RENAMED);
    assert_int_equal(reason_of(&set, "elsewhere"), ACKNOWLEDGE_HOOK);
}

/* As many links as the kernel follows, and one more, which it does not. */
static void a_chain_of_links_is_followed_as_far_as_the_kernel_does(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, "keep", "");
    agent_begin(w);
    agent_mkdir(w, "end");
    agent_create(w, "end/tasks.json", "{}", 0644);
    agent_symlink(w, "end", "l0");
    for (int i = 1; i < 50; i++) {
        autofree char *name = xprintf("l%d", i), *target = xprintf("l%d", i - 1);
        agent_symlink(w, target, name);
    }
    agent_symlink(w, "l38", ".vscode"); /* the fortieth */
    agent_mkdir(w, "d");
    agent_symlink(w, "../l39", "d/.zed");
    agent_symlink(w, ".idea", "d/.idea"); /* to itself */
    agent_end(w);
    load(w, NULL, false, &set);
    assert_int_equal(reason_of(&set, "end/tasks.json"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "l0"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "l38"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "l49"), ACKNOWLEDGE_NOTHING);
}

/* Scopes below the project's root, whose own path means something. */
static void links_are_judged_by_the_paths_of_the_project(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, "real/ci.yml", "x\n");
    assert_int_equal(symlinkat("real", w->f.fd, "base/workflows"), 0);
    agent_begin(w);
    agent_write(w, "real/ci.yml", "y\n");
    agent_create(w, "note", "x\n", 0644);
    agent_end(w);
    load(w, ".github", false, &set);
    assert_int_equal(reason_of(&set, ".github/real/ci.yml"), ACKNOWLEDGE_CI);
    assert_int_equal(reason_of(&set, ".github/note"), ACKNOWLEDGE_NOTHING);
}

/* A sandbox over a directory of the project, and links beside it. */
static void links_of_the_project_above_are_seen(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, "conf/tasks.json", "x\n");
    assert_int_equal(symlinkat("base/conf", w->f.fd, ".vscode"), 0);
    assert_int_equal(symlinkat("base/new", w->f.fd, ".zed"), 0);
    agent_begin(w);
    agent_write(w, "conf/tasks.json", "y\n");
    agent_symlink(w, "later", "new");
    agent_mkdir(w, "later");
    agent_create(w, "later/tasks.json", "x\n", 0644);
    agent_create(w, "note", "x\n", 0644);
    agent_end(w);
    load(w, "base", false, &set);
    assert_int_equal(reason_of(&set, "base/conf/tasks.json"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "base/new"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "base/later/tasks.json"), ACKNOWLEDGE_EDITOR);
    assert_int_equal(reason_of(&set, "base/note"), ACKNOWLEDGE_NOTHING);
}

/* Whoever makes very many links, each to another place, makes the review neither slow nor blind. */
static void many_links_are_all_judged(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    base_put(w, "keep", "");
    agent_begin(w);
    agent_mkdir(w, ".vscode");
    agent_mkdir(w, "t");
    for (int i = 0; i < 400; i++) {
        autofree char *link = xprintf(".vscode/%d", i), *target = xprintf("../t/%d", i), *file = xprintf("t/%d", i);
        agent_symlink(w, target, link);
        agent_create(w, file, "", 0644);
    }
    agent_end(w);
    load(w, NULL, false, &set);
    assert_int_equal(change_set_totals(&set).to_acknowledge, 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(every_kind_of_change),
        world_test(paths_are_told_from_both_roots),
        world_test(modes_and_targets_are_told),
        world_test(the_hash_is_of_what_would_be_applied),
        world_test(kinds_and_names_are_in_the_hash),
        world_test(what_cannot_be_read_has_a_hash_of_its_own),
        world_test(a_page_is_a_part_and_measures_only_that),
        world_test(a_diff_has_hunks_or_says_why_not),
        world_test(a_rename_is_told_by_what_is_in_the_files),
        world_test(a_repository_under_another_name_needs_a_word),
        world_test(deleting_needs_the_word_that_changing_does),
        world_test(a_chain_of_links_is_followed_as_far_as_the_kernel_does),
        world_test(links_are_judged_by_the_paths_of_the_project),
        world_test(links_of_the_project_above_are_seen),
        world_test(many_links_are_all_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
