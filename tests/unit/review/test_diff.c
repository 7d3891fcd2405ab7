#include "review/diff.h"

#include "review_fixture.h"

#include "review/file_diff.h"

/* The texts of all edits, one after the other. */
static void diff_all(struct world *w, bool is_exact, struct buf *out)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;

    load_edits(w, &list);
    for (size_t i = 0; i < list.count; i++) {
        autodone(diff) struct diff diff = DIFF_NONE;
        struct err err = ERR_NONE;
        if (diff_make(&list, &list.items[i], is_exact, &diff, &err) < 0)
            fail_msg("%s", err.text);
        buf_add(out, diff.text.data ? diff.text.data : "", diff.text.len);
    }
}

static void assert_diff(struct world *w, const char *expected)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    diff_all(w, false, &text);
    assert_string_equal(text.data ? text.data : "", expected);
}

static void text_is_compared_line_by_line(void **state)
{
    struct world *w = *state;

    base_put(w, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    agent_begin(w);
    agent_write(w, "f", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n");
    agent_end(w);
    assert_diff(w, "diff --git a/f b/f\n"
                   "--- a/f\n"
                   "+++ b/f\n"
                   "@@ -2,8 +2,9 @@\n"
                   " 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+10\n");
}

static void added_and_deleted_files(void **state)
{
    struct world *w = *state;

    base_put_mode(w, "old", "gone\n", 0755);
    agent_begin(w);
    agent_create(w, "new", "one\ntwo", 0755);
    agent_unlink(w, "old");
    agent_create(w, "void", "", 0644);
    agent_end(w);
    assert_diff(w, "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
                   "\\ No newline at end of file\n"
                   "diff --git a/old b/old\ndeleted file mode 100755\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
                   "diff --git a/void b/void\nnew file mode 100644\n");
}

static void modes_and_links(void **state)
{
    struct world *w = *state;

    base_put(w, "m", "m\n");
    base_put(w, "fine", "m\n");
    base_put(w, "f", "f\n");
    agent_begin(w);
    agent_chmod(w, "m", 0755);
    agent_chmod(w, "fine", 0600);
    agent_unlink(w, "f");
    agent_symlink(w, "/etc/passwd", "f");
    agent_end(w);
    assert_diff(w, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-f\n"
                   "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc/passwd\n"
                   "\\ No newline at end of file\n"
                   "diff --git a/fine b/fine\n# mode 0600, was 0644\n"
                   "diff --git a/m b/m\nold mode 100644\nnew mode 100755\n");
}

static void bytes_are_not_compared(void **state)
{
    struct world *w = *state;
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    autodone(diff) struct diff diff = DIFF_NONE;
    struct err err = ERR_NONE;

    base_put(w, "b", "text\n");
    agent_begin(w);
    struct inode *inode = walk(&w->f, "b", NULL);
    assert_int_equal(op_write(w->f.fence, &nobody, inode, 4, 0, write_from, (void *) (uintptr_t) "a\0b\n"), 4);
    agent_end(w);
    assert_diff(w, "diff --git a/b b/b\nBinary files a/b and b/b differ\n");
    load_edits(w, &list);
    assert_int_equal(diff_make(&list, &list.items[0], false, &diff, &err), 0);
    assert_true(diff.is_binary);
}

static void large_files_are_told_by_size(void **state)
{
    struct world *w = *state;
    struct stat to = { .st_size = (off_t) FILE_DIFF_MAX + 1 };
    struct entry_answer answer = { 0 };

    base_put(w, "l", "small\n");
    base_put(w, "edge", "small\n");
    agent_begin(w);
    assert_int_equal(op_setattr(w->f.fence, &nobody, walk(&w->f, "l", NULL), &to, SETATTR_SIZE, &answer), 0);
    to.st_size--;
    answer = (struct entry_answer){ 0 };
    assert_int_equal(op_setattr(w->f.fence, &nobody, walk(&w->f, "edge", NULL), &to, SETATTR_SIZE, &answer), 0);
    agent_end(w);
    assert_diff(w, "diff --git a/edge b/edge\nBinary files a/edge and b/edge differ\n"
                   "diff --git a/l b/l\nFiles a/l and b/l are too large to show: 6 and 8388609 bytes\n");
}

#define LINES(first, tenth) first "\n2\n3\n4\n5\n6\n7\n8\n9\n" tenth "\n"

/* The owner's line is none of the agent's; what both changed is told as a conflict, with what the agent did. */
static void the_project_meanwhile(void **state)
{
    struct world *w = *state;

    base_put(w, "f", LINES("1", "10"));
    base_put(w, "g", LINES("1", "10"));
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    agent_write(w, "f", LINES("one", "10"));
    agent_write(w, "g", LINES("one", "10"));
    agent_end(w);
    base_put(w, "f", LINES("1", "ten"));
    base_put(w, "g", LINES("uno", "ten"));
    assert_diff(w, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n"
                   "# in conflict: it has changed in the project meanwhile, in the same lines\n"
                   "diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n");
}

/* ESC, a bidi override, a lone byte, a CR in the middle; but CRLF, tabs and backslashes are ordinary text. */
static void nothing_in_a_text_can_move_a_terminal(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf exact = BUF_EMPTY;

    agent_begin(w);
    agent_create(w, "t", "\033[2J \xe2\x80\xae \xff a\rb\n\tx\\n\r\n\xc3\xa9\n", 0644);
    agent_end(w);
    assert_diff(w, "diff --git a/t b/t\nnew file mode 100644\n--- /dev/null\n+++ b/t\n@@ -0,0 +1,3 @@\n"
                   "+\\x1b[2J \\u202e \\xff a\\rb\n+\tx\\n\r\n+\xc3\xa9\n");
    diff_all(w, true, &exact);
    assert_non_null(strstr(exact.data, "+\033[2J \xe2\x80\xae \xff a\rb\n"));
}

static void nothing_in_a_name_can_move_a_terminal(void **state)
{
    struct world *w = *state;

    agent_begin(w);
    agent_create(w, "a\033b\n\"c\xe2\x80\xae", "", 0644);
    agent_create(w, "caf\xc3\xa9 x", "", 0644);
    agent_end(w);
    assert_diff(w,
                "diff --git \"a/a\\033b\\n\\\"c\\342\\200\\256\" \"b/a\\033b\\n\\\"c\\342\\200\\256\"\nnew file mode 100644\n"
                "diff --git a/caf\xc3\xa9 x b/caf\xc3\xa9 x\nnew file mode 100644\n");
}

static void a_directory_has_no_text(void **state)
{
    struct world *w = *state;

    base_put(w, "d/f", "f\n");
    agent_begin(w);
    agent_mkdir(w, "empty");
    agent_chmod(w, "d", 0700);
    agent_end(w);
    assert_edits(w, "added empty/");
    assert_diff(w, "");
}

static void a_link_in_the_base_is_not_followed(void **state)
{
    struct world *w = *state;

    put_file(&w->f, "outside", "secret\n");
    base_put(w, "d/f", "f\n");
    agent_begin(w);
    agent_write(w, "d/f", "changed\n");
    agent_end(w);
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    autodone(diff) struct diff diff = DIFF_NONE;
    struct err err = ERR_NONE;
    load_edits(w, &list);
    base_remove(w, "d/f");
    assert_int_equal(symlinkat("../../outside", w->f.fd, "base/d/f"), 0);
    assert_true(diff_make(&list, &list.items[0], false, &diff, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(text_is_compared_line_by_line),
        world_test(added_and_deleted_files),
        world_test(modes_and_links),
        world_test(bytes_are_not_compared),
        world_test(large_files_are_told_by_size),
        world_test(the_project_meanwhile),
        world_test(nothing_in_a_text_can_move_a_terminal),
        world_test(nothing_in_a_name_can_move_a_terminal),
        world_test(a_directory_has_no_text),
        world_test(a_link_in_the_base_is_not_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
