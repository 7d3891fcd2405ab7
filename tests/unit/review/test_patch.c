#include "review/patch.h"

#include "review_fixture.h"

#include "base/fd.h"
#include "review/approve.h"

/* Random work of an agent, the patch of it applied by the real git to a copy of the base, and the result compared with what apply makes of
 * the base itself. */

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static const char *const paths[] = {
    "plain", "two words", "q\"uote",   "back\\slash", "new\nline", "t\tab",  "caf\xc3\xa9", "\xff\xfe",
    "d/in",  "d/e/deep",  " leading",  "trailing ",   "a b/a",     "x/ b/x", "d/\033[2J",   "\xe2\x80\xae",
    "e/1",   "e/2",       "e/3 and 4", "empty",       "dev/null",  "-dash",  "#hash",       "a/b/c/d/e/f",
};

static void run_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run_shell(const char *fmt, ...)
{
    autofree char *command = NULL;
    va_list args;

    va_start(args, fmt);
    assert_true(vasprintf(&command, fmt, args) > 0);
    va_end(args);
    int status = system(command); // NOLINT(cert-env33-c)
    if (status != 0)
        fail_msg("%s: %d", command, status);
}

/* ---- content ---- */

static void random_content(struct buf *out)
{
    uint32_t kind = dice(8), lines = dice(40);

    if (kind == 0)
        return;
    for (uint32_t i = 0; i < lines; i++) {
        if (kind == 1)
            buf_add(out, (const char[]){ (char) dice(256), 0, (char) dice(256) }, 3);
        else
            buf_addf(out, "line %u%s\n", dice(3) ? i : dice(1000), dice(10) ? "" : "\r");
    }
    if (kind == 2 && out->len > 0)
        out->len--;
}

static void write_all(struct world *w, struct inode *inode, const struct buf *content)
{
    struct stat to = { 0 };
    struct entry_answer answer = { 0 };

    assert_int_equal(op_setattr(w->f.fence, &nobody, inode, &to, SETATTR_SIZE, &answer), 0);
    if (content->len > 0)
        assert_int_equal(op_write(w->f.fence, &nobody, inode, content->len, 0, write_from, content->data), (int) content->len);
}

static void base_write(struct world *w, const char *path, const struct buf *content, mode_t mode)
{
    autofree char *full = xprintf("base/%s", path);

    base_put_mode(w, path, "", mode);
    assert_int_equal(file_put(w->f.fd, full, content->data ? content->data : "", content->len, mode), 0);
}

static void make_base(struct world *w)
{
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        autodone(buf) struct buf content = BUF_EMPTY;
        random_content(&content);
        if (dice(3) != 0)
            base_write(w, paths[i], &content, dice(4) ? 0644 : 0755);
    }
}

/* ---- the agent ---- */

static void make_parents(struct world *w, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        autofree char *dir = xdupn(path, (size_t) (slash - path));
        if (!walk(&w->f, dir, NULL))
            agent_mkdir(w, dir);
    }
}

static bool is_link(const struct inode *inode)
{
    return inode && S_ISLNK(inode->mode);
}

static void act(struct world *w)
{
    const char *path = paths[dice(ARRAY_LEN(paths))], *other = paths[dice(ARRAY_LEN(paths))];
    autodone(buf) struct buf content = BUF_EMPTY;
    struct inode *inode;

    make_parents(w, path);
    inode = walk(&w->f, path, NULL);
    random_content(&content);
    switch (dice(6)) {
    case 0:
        if (inode)
            agent_unlink(w, path);
        break;
    case 1:
        if (inode && strcmp(path, other) != 0) {
            make_parents(w, other);
            agent_rename(w, path, other);
        }
        break;
    case 2:
        if (inode)
            agent_unlink(w, path);
        agent_symlink(w, dice(2) ? "target of a link" : "../caf\xc3\xa9", path);
        break;
    case 3:
        if (inode && !is_link(inode))
            agent_chmod(w, path, dice(2) ? 0755 : 0644);
        break;
    default:
        if (!inode)
            agent_create(w, path, "", dice(4) ? 0644 : 0755);
        inode = walk(&w->f, path, NULL);
        if (!is_link(inode))
            write_all(w, inode, &content);
    }
}

/* ---- trees as text ---- */

struct listing {
    char **lines;
    size_t count, cap;
};

static int on_entry(const struct file_entry *entry, void *cookie)
{
    struct listing *list = cookie;
    autodone(buf) struct buf content = BUF_EMPTY, line = BUF_EMPTY;
    char target[PATH_MAX];

    if (S_ISDIR(entry->st->st_mode))
        return 0;
    if (S_ISLNK(entry->st->st_mode))
        buf_add(&content, target, (size_t) readlinkat(entry->dirfd, entry->name, target, sizeof(target)));
    else
        assert_int_equal(file_read(entry->dirfd, entry->name, 64 << 20, &content), 0);
    buf_add_escaped(&line, entry->path, entry->path_len);
    buf_addf(&line, " %c%c ", S_ISLNK(entry->st->st_mode) ? 'l' : 'f',
             S_ISREG(entry->st->st_mode) && entry->st->st_mode & 0100 ? 'x' : '-');
    buf_add_escaped(&line, content.data ? content.data : "", content.len < 4096 ? content.len : 4096);
    buf_addf(&line, " %zu", content.len);
    vec_room(&list->lines, &list->cap, list->count);
    list->lines[list->count++] = buf_dup_take(&line);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static char *describe(struct world *w, const char *dir)
{
    struct listing list = { 0 };
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;

    assert_int_equal(file_walk(w->f.fd, dir, on_entry, &list, &err), 0);
    if (list.count > 0)
        qsort(list.lines, list.count, sizeof(*list.lines), by_text);
    for (size_t i = 0; i < list.count; i++) {
        buf_addf(&out, "%s\n", list.lines[i]);
        free(list.lines[i]);
    }
    free(list.lines);
    return buf_dup_take(&out);
}

/* ---- the patch ---- */

static int to_file(const void *bytes, size_t len, void *cookie)
{
    return fd_write_full(*(int *) cookie, bytes, len);
}

static void write_patch(struct world *w, const char *prefix, bool without_renames, size_t *ret_renamed)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct change_set_options options = { prefix, without_renames };
    autofd int fd = openat(w->f.fd, "patch", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct err err = ERR_NONE;

    if (change_set_load(w->delta, &options, &set, &err) < 0 || patch_write(&set, NULL, 0, to_file, NULL, &fd, &err) < 0)
        fail_msg("%s", err.text);
    if (ret_renamed)
        *ret_renamed = change_set_totals(&set).renamed;
}

/* Outside of any repository and with nobody's settings; a patch of nothing is nothing to apply. */
static void git_apply(struct world *w, const char *where)
{
    struct stat st;

    assert_int_equal(fstatat(w->f.fd, "patch", &st, 0), 0);
    if (st.st_size > 0)
        run_shell("cd '%s/%s' && env -i PATH=/usr/bin:/bin HOME=/nonexistent GIT_CEILING_DIRECTORIES=/ GIT_CONFIG_NOSYSTEM=1 "
                  "git apply --whitespace=nowarn '%s/patch'",
                  w->f.dir, where, w->f.dir);
}

static void apply_delta(struct world *w)
{
    struct approve_options options = { 0 };
    struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    if (approve_run(w->delta, &decided_all, &options, &approve, &err) != 0)
        fail_msg("%s", err.text);
    approve_done(&approve);
}

static void assert_patch_makes_the_same(struct world *w)
{
    autofree char *was = describe(w, "base");

    run_shell(
        "rm -rf '%s/copy' && cp -a '%s/base' '%s/copy' && mkdir -p '%s/wide/a sub' && cp -a '%s/base' '%s/wide/a sub/dir'",
        w->f.dir, w->f.dir, w->f.dir, w->f.dir, w->f.dir, w->f.dir);
    write_patch(w, "a sub/dir", true, NULL);
    git_apply(w, "wide");
    write_patch(w, NULL, false, NULL);
    git_apply(w, "copy");
    autofree char *back = NULL;
    apply_delta(w);
    autofree char *expected = describe(w, "base"), *got = describe(w, "copy"), *wide = describe(w, "wide/a sub/dir");
    assert_string_equal(got, expected);
    assert_string_equal(wide, expected);
    /* And back again. */
    struct stat st;
    assert_int_equal(fstatat(w->f.fd, "patch", &st, 0), 0);
    if (st.st_size > 0)
        run_shell("cd '%s/copy' && env -i PATH=/usr/bin:/bin HOME=/nonexistent GIT_CEILING_DIRECTORIES=/ git apply -R "
                  "--whitespace=nowarn '%s/patch'",
                  w->f.dir, w->f.dir);
    back = describe(w, "copy");
    assert_string_equal(back, was);
}

static void git_makes_of_a_patch_what_the_agent_made(void **state)
{
    (void) state;
    for (uint32_t round = 0; round < full_or_share(300, 25); round++) {
        void *inner = NULL;
        seed = 1000 + round;
        assert_int_equal(world_setup(&inner), 0);
        struct world *w = inner;
        assert_int_equal(path_mkdirs_beneath(w->f.fd, "base", 0755), 0);
        make_base(w);
        agent_begin(w);
        for (uint32_t i = dice(30); i > 0; i--)
            act(w);
        agent_end(w);
        assert_patch_makes_the_same(w);
        assert_int_equal(world_teardown(&inner), 0);
    }
}

/* ---- single cases ---- */

static void assert_patch_is(struct world *w, const char *expected)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    write_patch(w, "sub", false, NULL);
    assert_int_equal(file_read(w->f.fd, "patch", 1 << 20, &text), 0);
    assert_string_equal(text.data ? text.data : "", expected);
}

static void a_rename_is_one_change(void **state)
{
    struct world *w = *state;

    base_put(w, "old name", "1\n2\n3\n4\n5\n6\n");
    agent_begin(w);
    agent_rename(w, "old name", "new");
    agent_write(w, "new", "1\n2\n3\n4\n5\nsix\n");
    agent_end(w);
    assert_patch_is(w,
                    "diff --git a/sub/old name b/sub/new\nsimilarity index 71%\nrename from sub/old name\nrename to sub/new\n"
                    "--- a/sub/old name\t\n+++ b/sub/new\n@@ -3,4 +3,4 @@\n 3\n 4\n 5\n-6\n+six\n");
}

static void a_directory_that_became_a_file_and_the_other_way_round(void **state)
{
    struct world *w = *state;

    base_put(w, "d/a", "a\n");
    base_put(w, "f", "f\n");
    agent_begin(w);
    agent_unlink(w, "d/a");
    agent_rmdir(w, "d");
    agent_create(w, "d", "now a file\n", 0644);
    agent_unlink(w, "f");
    agent_mkdir(w, "f");
    agent_create(w, "f/in", "in\n", 0644);
    agent_end(w);
    assert_patch_makes_the_same(w);
    assert_base(w, "d", "now a file\n");
}

/* Larger than is compared: a stream, not a text. */
static void a_large_file_is_a_binary_patch(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf content = BUF_EMPTY;

    while (content.len < (9u << 20))
        buf_addf(&content, "some line of a large file, number %zu\n", content.len);
    base_write(w, "large", &content, 0644);
    base_write(w, "shrinks", &content, 0644);
    base_write(w, "goes", &content, 0644);
    base_put(w, "becomes a file", "x");
    agent_begin(w);
    content.data[5] = 'S';
    write_all(w, walk(&w->f, "large", NULL), &content);
    agent_create(w, "also large", "", 0755);
    write_all(w, walk(&w->f, "also large", NULL), &content);
    agent_write(w, "shrinks", "small\n");
    agent_unlink(w, "goes");
    agent_symlink(w, "somewhere", "goes");
    agent_end(w);
    assert_patch_makes_the_same(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(git_makes_of_a_patch_what_the_agent_made),
        world_test(a_rename_is_one_change),
        world_test(a_directory_that_became_a_file_and_the_other_way_round),
        world_test(a_large_file_is_a_binary_patch),
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
