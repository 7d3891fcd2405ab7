#include "review/commit.h"

#include "review_fixture.h"

#include "review/contribution.h"

#include <sys/wait.h>

/* What git says of the project, as its owner would ask it. */
__attribute__((format(printf, 2, 3))) static char *git(struct world *w, const char *fmt, ...)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    char words[512], bytes[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    autofree char *line = xprintf("cd %s && HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 git -c user.name=Owner -c "
                                  "user.email=o@example.org -c init.defaultBranch=main -c safe.directory='*' %s 2>&1",
                                  w->base, words);
    FILE *pipe = popen(line, "re");
    assert_non_null(pipe);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), pipe)) > 0;)
        buf_add(&out, bytes, n);
    int status = pclose(pipe);
    if (status != 0)
        fail_msg("git %s: %s", words, out.data ? out.data : "");
    while (out.len > 0 && out.data[out.len - 1] == '\n')
        out.data[--out.len] = 0;
    return buf_dup_take(&out);
}

#define git_do(w, ...) free(git(w, __VA_ARGS__))

#define assert_git(w, expected, ...)                                                                                           \
    do {                                                                                                                       \
        autofree char *said = git(w, __VA_ARGS__);                                                                             \
        assert_string_equal(said, expected);                                                                                   \
    } while (0)

static int open_parts(struct world *w)
{
    mkdirat(w->f.fd, "parts", 0700);
    return openat(w->f.fd, "parts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void begin(struct world *w)
{
    git_do(w, "init -q .");
    base_put(w, "a", "a\n");
    base_put(w, "b", "b\n");
    base_put(w, "sub/c", "c\n");
    git_do(w, "add -A");
    git_do(w, "commit -qm first");
}

static int try_commit(struct world *w, const char *below, const char *const *paths, size_t count, struct commit *ret,
                      struct err *err)
{
    autofree char *project = *below ? xprintf("%s/%s", w->base, below) : xdup(w->base);
    struct attribution attribution = { ATTRIBUTION_COAUTHORED, "robot", "Rita <rita@example.org>", NULL };
    struct commit_request request = { .project_path = project,
                                      .paths = paths,
                                      .path_count = count,
                                      .attribution = &attribution,
                                      .message = "take it\n",
                                      .parts = NULL,
                                      .parts_fd = -1 };

    return commit_make(&request, ret, err);
}

static void must_commit(struct world *w, const char *below, const char *const *paths, size_t count, struct commit *ret)
{
    struct err err = ERR_NONE;

    if (try_commit(w, below, paths, count, ret, &err) < 0)
        fail_msg("%s", err.text);
}

#define LINES "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

static void part_keep(struct world *w, const char *name, const char *path, const char *before, const char *after)
{
    autofd int fd = open_parts(w);
    struct contribution part = { .path = xdup(path) };

    part.before.mode = before ? S_IFREG | 0644 : 0;
    part.after.mode = after ? S_IFREG | 0644 : 0;
    part.before.has_bytes = before;
    part.after.has_bytes = after;
    buf_add_str(&part.before.bytes, before ? before : "");
    buf_add_str(&part.after.bytes, after ? after : "");
    assert_int_equal(contribution_keep(fd, name, &part), 0);
    contribution_done(&part);
}

/* Of one path, in the order of their names. */
static int try_parts(struct world *w, const char *path, const char *const *names, size_t count, struct commit *ret,
                     struct err *err)
{
    struct attribution attribution = { ATTRIBUTION_AGENT, "robot", "Rita <rita@example.org>", NULL };
    struct commit_parts parts = { names, count };
    autofd int fd = open_parts(w);
    struct commit_request request = { .project_path = w->base,
                                      .paths = &path,
                                      .path_count = 1,
                                      .attribution = &attribution,
                                      .message = "take it\n",
                                      .parts = &parts,
                                      .parts_fd = fd };
    struct commit_view view;
    int r = commit_preview(&request, &view, err), made = 0;

    if (r == 0)
        made = commit_make(&request, ret, err);
    /* A preview says the same. */
    if (r == 0)
        assert_int_equal(view.status, made == -EEXIST          ? COMMIT_BLOCKED
                                      : ret->changed_count > 0 ? COMMIT_DIFFERS
                                                               : COMMIT_IN_HEAD);
    return r < 0 ? r : made;
}

#define must_take(w, path, ret, ...)                                                                                           \
    do {                                                                                                                       \
        struct err err_ = ERR_NONE;                                                                                            \
        const char *const names_[] = { __VA_ARGS__ };                                                                          \
        if (try_parts(w, path, names_, ARRAY_LEN(names_), ret, &err_) < 0)                                                     \
            fail_msg("%s", err_.text);                                                                                         \
    } while (0)

static void only_the_chosen_paths_are_committed(void **state)
{
    static const char *const paths[] = { "a", "new/dir/n", "sub/c", "link", "same" };
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "same", "same\n");
    git_do(w, "add same");
    git_do(w, "commit -qm second");
    base_put(w, "b", "staged by its owner\n");
    git_do(w, "add b");
    base_put(w, "other", "not ours\n");
    git_do(w, "add other");
    base_put(w, "a", "changed\n");
    base_put_mode(w, "new/dir/n", "new\n", 0755);
    base_remove(w, "sub/c");
    assert_int_equal(symlinkat("a", w->f.fd, "base/link"), 0);
    must_commit(w, "", paths, ARRAY_LEN(paths), &commit);
    assert_int_equal(commit.changed_count, 4);
    assert_string_equal(commit.branch, "refs/heads/main");
    assert_git(w, commit.hash, "rev-parse HEAD");
    assert_git(w, "M\ta\nA\tlink\nA\tnew/dir/n\nD\tsub/c", "diff-tree -r --name-status --no-commit-id HEAD");
    assert_git(w, "M  b\nA  other", "status --porcelain"); /* staged, as before */
    assert_git(w, "robot <noreply@agentfense.local>|Rita <rita@example.org>", "log -1 --format='%%an <%%ae>|%%cn <%%ce>'");
    assert_git(w, "100755 new/dir/n", "ls-tree -r --format='%%(objectmode) %%(path)' HEAD new");
    assert_git(w, "main@{0}: commit: take it", "reflog -1 --format='%%gd: %%gs' main");
    assert_git(w, "", "fsck --no-dangling");
    must_commit(w, "", paths, ARRAY_LEN(paths), &commit); /* again: nothing to commit */
    assert_string_equal(commit.hash, "");
}

static void a_project_below_the_root_of_its_repository(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "sub/c", "changed\n");
    base_put(w, "sub/d/e", "new\n");
    must_commit(w, "sub", (const char *const[]){ "c", "d/e" }, 2, &commit);
    assert_git(w, "M\tsub/c\nA\tsub/d/e", "diff-tree -r --name-status --no-commit-id HEAD");
    assert_git(w, "", "status --porcelain");
}

static void a_branch_without_commits_and_a_head_without_branch(void **state)
{
    struct world *w = *state;
    struct commit commit;

    git_do(w, "init -q .");
    base_put(w, "a", "a\n");
    base_put(w, "b", "b\n");
    must_commit(w, "", (const char *const[]){ "a" }, 1, &commit);
    assert_git(w, "a", "ls-tree --name-only main");
    assert_git(w, "?? b", "status --porcelain");
    git_do(w, "checkout -q --detach");
    base_put(w, "a", "changed\n");
    must_commit(w, "", (const char *const[]){ "a" }, 1, &commit);
    assert_string_equal(commit.branch, "HEAD");
    assert_git(w, commit.hash, "rev-parse HEAD");
    assert_git(w, "1", "rev-list --count main");
    assert_git(w, "2", "rev-list --count HEAD");
}

static void hooks_and_filters_are_not_run(void **state)
{
    struct world *w = *state;
    struct commit commit;
    struct err err = ERR_NONE;

    begin(w);
    base_put_mode(w, ".git/hooks/pre-commit", "#!/bin/sh\ntouch ../ran\nexit 1\n", 0755);
    base_put_mode(w, ".git/hooks/post-commit", "#!/bin/sh\ntouch ../ran\n", 0755);
    git_do(w, "config filter.evil.clean 'touch %s/ran'", w->f.dir);
    base_put(w, "a", "changed\n");
    must_commit(w, "", (const char *const[]){ "a" }, 1, &commit);
    base_put(w, ".gitattributes", "b filter=evil\n");
    base_put(w, "b", "changed\n");
    assert_true(try_commit(w, "", (const char *const[]){ "b" }, 1, &commit, &err) < 0);
    assert_non_null(strstr(err.text, "evil"));
    assert_false(is_there(&w->f, "ran"));
    assert_git(w, "2", "rev-list --count HEAD");
}

static void line_ends_are_as_the_repository_keeps_them(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, ".gitattributes", "*.txt text eol=crlf\n");
    base_put(w, "x.txt", "one\r\ntwo\r\n");
    must_commit(w, "", (const char *const[]){ ".gitattributes", "x.txt" }, 2, &commit);
    assert_git(w, "one\ntwo", "show HEAD:x.txt");
    assert_git(w, "", "status --porcelain");
}

static void what_is_not_of_this_repository_is_refused(void **state)
{
    static const char *const refused[] = { "inner/x", ".git/config", "../outside", "" };
    struct world *w = *state;
    struct commit commit;
    struct err err = ERR_NONE;

    assert_true(try_commit(w, "", (const char *const[]){ "a" }, 1, &commit, &err) < 0);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    begin(w);
    base_put(w, "inner/.git/HEAD", "ref: refs/heads/main\n");
    base_put(w, "inner/x", "x\n");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        err = ERR_NONE;
        assert_true(try_commit(w, "", &refused[i], 1, &commit, &err) < 0);
        assert_true(err.code == ERR_FAILED_PRECONDITION || err.code == ERR_INVALID_ARGUMENT);
    }
    base_put(w, ".git/MERGE_HEAD", "1111111111111111111111111111111111111111\n");
    base_put(w, "a", "changed\n");
    assert_true(try_commit(w, "", (const char *const[]){ "a" }, 1, &commit, &err) < 0);
    assert_git(w, "1", "rev-list --count HEAD");
}

/* Nobody sees half of it: with the index locked, or the branch gone on, all is as it was. */
static void a_locked_index_changes_nothing(void **state)
{
    struct world *w = *state;
    struct commit commit;
    struct err err = ERR_NONE;

    begin(w);
    base_put(w, "a", "changed\n");
    base_put(w, ".git/index.lock", "");
    assert_int_equal(try_commit(w, "", (const char *const[]){ "a" }, 1, &commit, &err), -EBUSY);
    base_remove(w, ".git/index.lock");
    assert_git(w, "1", "rev-list --count HEAD");
    assert_git(w, "M a", "status --porcelain | sed 's/^ *//'");
    base_put(w, ".git/refs/heads/main.lock", "");
    assert_true(try_commit(w, "", (const char *const[]){ "a" }, 1, &commit, &err) < 0);
    base_remove(w, ".git/refs/heads/main.lock");
    assert_git(w, "1", "rev-list --count HEAD");
    assert_git(w, " M a", "status --porcelain; true"); /* staged no more than before */
}

static void what_root_commits_belongs_to_the_owner(void **state)
{
    struct world *w = *state;
    struct commit commit;
    struct stat st;

    if (geteuid() != 0)
        skip();
    begin(w);
    autofree char *give = xprintf("chown -R 1234:1234 %s && chmod 755 %s", w->base, w->f.dir);
    assert_int_equal(system(give), 0);
    base_put(w, "a", "changed\n");
    must_commit(w, "", (const char *const[]){ "a" }, 1, &commit);
    autofree char *dir = xprintf("base/.git/objects/%.2s", commit.hash);
    assert_int_equal(fstatat(w->f.fd, dir, &st, 0), 0);
    assert_int_equal(st.st_uid, 1234);
    assert_int_equal(fstatat(w->f.fd, "base/.git/index", &st, 0), 0);
    assert_int_equal(st.st_uid, 1234);
    part_keep(w, "p1", "b", "b\n", "agent\n"); /* is not for the owner to read */
    base_put(w, "b", "agent\n");
    must_take(w, "b", &commit, "p1");
    autofree char *take = xprintf("chown -R 0:0 %s", w->base);
    assert_int_equal(system(take), 0);
}

/* ---- what was approved, and nothing else of the file ---- */

static void lines_of_others_stay_out_and_stay_staged(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "f", LINES);
    git_do(w, "add f");
    git_do(w, "commit -qm second");
    base_put(w, "f", "staged\n2\n3\n4\n5\n6\n7\n8\n9\n");
    git_do(w, "add f");
    part_keep(w, "p1", "f", "staged\n2\n3\n4\n5\n6\n7\n8\nloose\n", "staged\n2\nagent\n4\n5\nagent\n7\n8\nloose\n");
    base_put(w, "f", "staged\n2\nagent\n4\n5\nagent\n7\n8\nloose\n");
    must_take(w, "f", &commit, "p1");
    assert_int_equal(commit.changed_count, 1);
    assert_git(w, "1\n2\nagent\n4\n5\nagent\n7\n8\n9", "show HEAD:f");
    assert_git(w, "staged\n2\nagent\n4\n5\nagent\n7\n8\n9", "show :f");
    assert_git(w, "MM f", "status --porcelain");
    assert_git(w, "", "fsck --no-dangling");
    must_take(w, "f", &commit, "p1"); /* again: it is in */
    assert_string_equal(commit.hash, "");
    assert_git(w, "MM f", "status --porcelain");
}

static void a_file_of_nobody_else_goes_as_it_is(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    part_keep(w, "p1", "a", "a\n", "agent\n");
    part_keep(w, "p2", "new", NULL, "new\n");
    base_put(w, "a", "agent\n");
    base_put(w, "new", "new\n");
    must_take(w, "a", &commit, "p1");
    must_take(w, "new", &commit, "p2");
    assert_git(w, "", "status --porcelain");
    part_keep(w, "p3", "a", "agent\n", NULL);
    base_remove(w, "a");
    must_take(w, "a", &commit, "p3");
    assert_git(w, "D\ta", "diff-tree -r --name-status --no-commit-id HEAD");
    assert_git(w, "", "status --porcelain");
}

static void the_same_lines_are_refused_and_nothing_is_done(void **state)
{
    struct world *w = *state;
    struct commit commit;
    struct err err = ERR_NONE;

    begin(w);
    part_keep(w, "p1", "a", "mine\n", "mine, and the agent's\n");
    base_put(w, "a", "mine, and the agent's\n");
    assert_int_equal(try_parts(w, "a", (const char *const[]){ "p1" }, 1, &commit, &err), -EEXIST);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "'a'"));
    assert_non_null(strstr(err.text, "commit or undo those first"));
    assert_git(w, "1", "rev-list --count HEAD");
    assert_git(w, " M a", "status --porcelain; true");
    base_put(w, "own", "what was in no commit\nagent\n");
    part_keep(w, "p2", "own", "what was in no commit\n", "what was in no commit\nagent\n");
    assert_int_equal(try_parts(w, "own", (const char *const[]){ "p2" }, 1, &commit, &err), -EEXIST);
    assert_int_equal(try_parts(w, "b", (const char *const[]){ "lost" }, 1, &commit, &err), 0); /* as HEAD has it */
    base_put(w, "b", "whose?\n");
    assert_int_equal(try_parts(w, "b", (const char *const[]){ "lost" }, 1, &commit, &err), -EEXIST);
    assert_git(w, "1", "rev-list --count HEAD");
}

static void what_is_staged_in_the_same_lines_is_left(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "a", "staged\n");
    git_do(w, "add a");
    part_keep(w, "p1", "a", "a\n", "agent\n");
    base_put(w, "a", "agent\n");
    must_take(w, "a", &commit, "p1");
    assert_git(w, "agent", "show HEAD:a");
    assert_git(w, "staged", "show :a");
}

/* Two approvals, and their owner at work before, between and after them. */
static void several_approvals_of_a_file_go_in_order(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "f", LINES);
    git_do(w, "add f");
    git_do(w, "commit -qm second");
    part_keep(w, "p1", "f", LINES, "1\n2\n3\nA\n5\n6\n7\n8\n9\n");
    part_keep(w, "p2", "f", "own\n2\n3\nA\n5\n6\n7\n8\n9\n", "own\n2\n3\nB\n5\n6\n7\n8\n9\n");
    base_put(w, "f", "own\n2\n3\nB\n5\n6\n7\n8\nlater\n");
    must_take(w, "f", &commit, "p1", "p2");
    assert_git(w, "1\n2\n3\nB\n5\n6\n7\n8\n9", "show HEAD:f");
    assert_git(w, "1\n2\n3\nB\n5\n6\n7\n8\n9", "show :f");
    assert_git(w, " M f", "status --porcelain; true");
}

/* Their owner has committed both of them by hand, and more: nothing of it is left to commit. */
static void what_somebody_committed_is_not_committed_again(void **state)
{
    struct world *w = *state;
    struct commit commit;

    begin(w);
    base_put(w, "f", LINES);
    part_keep(w, "p1", "f", LINES, "1\n2\n3\nA\n5\n6\n7\n8\n9\n");
    part_keep(w, "p2", "f", "1\n2\n3\nA\n5\n6\n7\n8\n9\n", "1\n2\n3\nB\n5\n6\n7\n8\n9\n");
    base_put(w, "f", "own\n2\n3\nB\n5\n6\n7\n8\n9\n");
    git_do(w, "add f");
    git_do(w, "commit -qm 'by hand'");
    base_put(w, "f", "own\n2\n3\nB\n5\n6\n7\n8\nlater\n");
    must_take(w, "f", &commit, "p1", "p2");
    assert_string_equal(commit.hash, "");
}

static void modes_and_bytes_that_are_no_text(void **state)
{
    struct world *w = *state;
    struct commit commit;
    struct err err = ERR_NONE;
    autofd int fd = open_parts(w);
    struct contribution part = { .path = xdup("a") };

    begin(w);
    part.before = (struct contribution_side){ .mode = S_IFREG | 0644, .has_bytes = true };
    part.after = (struct contribution_side){ .mode = S_IFREG | 0755, .has_bytes = true };
    buf_add_str(&part.before.bytes, "mine\n");
    buf_add_str(&part.after.bytes, "mine\n");
    assert_int_equal(contribution_keep(fd, "p1", &part), 0);
    base_put_mode(w, "a", "mine\n", 0755);
    must_take(w, "a", &commit, "p1");
    assert_git(w, "100755 a", "ls-tree -r --format='%%(objectmode) %%(path)' HEAD a");
    assert_git(w, "a", "show HEAD:a");
    buf_add(&part.after.bytes, "\0", 1);
    assert_int_equal(contribution_keep(fd, "p2", &part), 0);
    base_put(w, "a", "another\n");
    assert_int_equal(try_parts(w, "a", (const char *const[]){ "p2" }, 1, &commit, &err), -EEXIST);
    assert_non_null(strstr(err.text, "no text"));
    contribution_done(&part);
}

static void names_and_messages(void **state)
{
    static const struct attribution_word words[] = { { "FileCount", "3" }, { "SandboxID", "s1" } };
    struct attribution a = { ATTRIBUTION_COAUTHORED, "robot", "Rita\nCo-authored-by: x <x@y> <r@example.org>", NULL };
    autodone(buf) struct buf text = BUF_EMPTY;
    struct person person;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(attribution_message(&a, NULL, words, 2, &text, &err), 0);
    assert_string_equal(text.data, "Apply 3 reviewed change(s) of sandbox s1\n\nCo-authored-by: RitaCo-authored-by: x <x@y>\n");
    assert_int_equal(attribution_message(&a, "{{.Nothing}}", words, 2, &text, &err), -EINVAL);
    assert_int_equal(attribution_message(&a, "{{.File", words, 2, &text, &err), -EINVAL);
    attribution_author(&(struct attribution){ ATTRIBUTION_REVIEWER, "robot", "", NULL }, &person);
    assert_string_equal(person.name.data, ATTRIBUTION_NOBODY);
    assert_string_equal(person.mail.data, ATTRIBUTION_ADDRESS);
    person_done(&person);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(only_the_chosen_paths_are_committed),
        world_test(a_project_below_the_root_of_its_repository),
        world_test(a_branch_without_commits_and_a_head_without_branch),
        world_test(hooks_and_filters_are_not_run),
        world_test(line_ends_are_as_the_repository_keeps_them),
        world_test(what_is_not_of_this_repository_is_refused),
        world_test(a_locked_index_changes_nothing),
        world_test(what_root_commits_belongs_to_the_owner),
        world_test(lines_of_others_stay_out_and_stay_staged),
        world_test(a_file_of_nobody_else_goes_as_it_is),
        world_test(the_same_lines_are_refused_and_nothing_is_done),
        world_test(what_is_staged_in_the_same_lines_is_left),
        world_test(several_approvals_of_a_file_go_in_order),
        world_test(what_somebody_committed_is_not_committed_again),
        world_test(modes_and_bytes_that_are_no_text),
        world_test(names_and_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
