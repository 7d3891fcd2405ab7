/* A base, and an agent that works on it through the fence's operations, so that deltas and diaries are those of the real thing. With
 * OVER_CODEBASE the base is the files of a codebase. */
#pragma once

#include "../fence/fence_fixture.h"

#include <dirent.h>
#include <sys/wait.h>

#include "base/path.h"
#include "codebase/codebase.h"
#include "review/approve.h"
#include "review/edit.h"

/* For tests of what is written, where anything that is there is meant. */
static const struct acceptance let_in_all = { 0 };
static const struct expectation_list meant_as_it_is = { .is_complete = false };
static const struct decision decided_all = {
    .acceptance = &let_in_all, .acknowledges_all = true, .shown = &meant_as_it_is, .hooks = DECISION_HOOKS_WAIVED
};

#ifdef OVER_CODEBASE
#define CODEBASE "cb_0123456789abcdef"
#define BASE_DIR "codebases/" CODEBASE "/files"
#else
#define CODEBASE NULL
#define BASE_DIR "base"
#endif

struct world {
    struct fixture f;
    char *base, *delta; /* owned */
    struct codebases *all;
    struct codebase *cb;
    struct apply_txn_codebase lands;
};

/* Where approvals land; NULL: in a directory. */
static inline const struct apply_txn_codebase *lands_in(const struct world *w)
{
    return w->cb ? &w->lands : NULL;
}

static inline void codebase_setup(struct world *w)
{
    autofree char *root = xprintf("%s/codebases", w->f.dir);
    const char *id = CODEBASE;
    struct err err = ERR_NONE;

    if (!id)
        return;
    if (codebases_open(root, NULL, &w->all, &err) < 0 || codebase_create(w->all, id, &w->cb, &err) < 0)
        fail_msg("%s", err.text);
    w->lands = (struct apply_txn_codebase){ w->cb, "tester", "approve sb_0123456789abcdef" };
}

static inline int world_setup(void **state)
{
    struct world *w = xnew(struct world);

    fixture_init(&w->f);
    w->base = xprintf("%s/" BASE_DIR, w->f.dir);
    w->delta = xprintf("%s/delta", w->f.dir);
    codebase_setup(w);
    *state = w;
    return 0;
}

static inline int world_teardown(void **state)
{
    struct world *w = *state;

    fixture_close(&w->f);
    codebase_close(w->cb);
    codebases_close(w->all);
    close(w->f.fd);
    /* From the root, because the functions of base take no absolute path. */
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = file_remove_tree(root, w->f.dir + 1);
    free(w->base);
    free(w->delta);
    free(w);
    return r;
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* ---- the base, as its owner changes it ---- */

static inline void base_put_mode(struct world *w, const char *path, const char *text, mode_t mode)
{
    autofree char *full = xprintf(BASE_DIR "/%s", path);
    const char *slash = strrchr(path, '/');

    if (slash) {
        autofree char *dir = xprintf(BASE_DIR "/%.*s", (int) (slash - path), path);
        assert_int_equal(path_mkdirs_beneath(w->f.fd, dir, 0755), 0);
    }
    put_file(&w->f, full, text);
    assert_int_equal(fchmodat(w->f.fd, full, mode, 0), 0);
}

static inline void base_put(struct world *w, const char *path, const char *text)
{
    base_put_mode(w, path, text, 0644);
}

static inline bool base_has(struct world *w, const char *path)
{
    autofree char *full = xprintf(BASE_DIR "/%s", path);

    return is_there(&w->f, full);
}

static inline void base_remove(struct world *w, const char *path)
{
    autofree char *full = xprintf(BASE_DIR "/%s", path);

    assert_int_equal(unlinkat(w->f.fd, full, 0), 0);
}

static inline mode_t base_mode(struct world *w, const char *path)
{
    autofree char *full = xprintf(BASE_DIR "/%s", path);
    struct stat st;

    assert_int_equal(fstatat(w->f.fd, full, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode;
}

static inline void assert_base(struct world *w, const char *path, const char *text)
{
    autofree char *full = xprintf(BASE_DIR "/%s", path);
    autodone(buf) struct buf got = BUF_EMPTY;

    if (file_read(w->f.fd, full, 1 << 20, &got) < 0)
        fail_msg("%s is not there", path);
    assert_string_equal(got.data ? got.data : "", text);
}

/* ---- the agent ---- */

static inline void agent_start(struct world *w, const char *const *rules, bool is_live)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    autoptr(ruleset) set = NULL;
    struct err err = ERR_NONE;

    for (; *rules; rules++)
        assert_int_equal(rule_list_add_short(&list, *rules, &err), 0);
    assert_int_equal(ruleset_new(&list, NULL, &set, &err), 0);
    struct fence_config config = { .base_path = w->base, .delta_path = w->delta, .rules = set, .is_live = is_live };
    if (fence_new(&config, &w->f.fence, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void agent_begin(struct world *w)
{
    agent_start(w, (const char *const[]){ "**=write", NULL }, false);
}

static inline void agent_end(struct world *w)
{
    fixture_close(&w->f);
    umask(022); /* which a fence sets to nothing */
}

/* The directory of a path, which must be there, and where its name begins. */
static inline struct inode *agent_dir(struct world *w, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    autofree char *dir = slash ? xdupn(path, (size_t) (slash - path)) : xdup("");
    struct inode *inode = walk(&w->f, dir, NULL);

    assert_non_null(inode);
    *ret_name = slash ? slash + 1 : path;
    return inode;
}

static inline void agent_create(struct world *w, const char *path, const char *text, mode_t mode)
{
    struct entry_answer answer = { 0 };
    const char *name;
    struct inode *dir = agent_dir(w, path, &name);

    assert_int_equal(op_mknod(w->f.fence, &nobody, dir, name, S_IFREG | mode, &answer), 0);
    assert_int_equal(write_text(&w->f, answer.inode, text, 0), strlen(text));
}

/* Writes over what is there from the beginning, or makes it. */
static inline void agent_write(struct world *w, const char *path, const char *text)
{
    struct stat to = { 0 };
    struct entry_answer answer = { 0 };
    struct inode *inode = walk(&w->f, path, NULL);

    if (!inode) {
        agent_create(w, path, text, 0644);
        return;
    }
    assert_int_equal(op_setattr(w->f.fence, &nobody, inode, &to, SETATTR_SIZE, &answer), 0);
    assert_int_equal(write_text(&w->f, inode, text, 0), strlen(text));
}

static inline void agent_mkdir(struct world *w, const char *path)
{
    struct entry_answer answer = { 0 };
    const char *name;
    struct inode *dir = agent_dir(w, path, &name);

    assert_int_equal(op_mkdir(w->f.fence, &nobody, dir, name, 0755, &answer), 0);
}

static inline void agent_symlink(struct world *w, const char *target, const char *path)
{
    struct entry_answer answer = { 0 };
    const char *name;
    struct inode *dir = agent_dir(w, path, &name);

    assert_int_equal(op_symlink(w->f.fence, &nobody, dir, name, target, &answer), 0);
}

static inline void agent_unlink(struct world *w, const char *path)
{
    const char *name;
    struct inode *dir = agent_dir(w, path, &name);

    assert_int_equal(op_unlink(w->f.fence, &nobody, dir, name), 0);
}

static inline void agent_rmdir(struct world *w, const char *path)
{
    const char *name;
    struct inode *dir = agent_dir(w, path, &name);

    assert_int_equal(op_rmdir(w->f.fence, &nobody, dir, name), 0);
}

static inline void agent_rename(struct world *w, const char *from, const char *to)
{
    const char *from_name, *to_name;
    struct inode *from_dir = agent_dir(w, from, &from_name), *to_dir = agent_dir(w, to, &to_name);

    assert_int_equal(op_rename(w->f.fence, &nobody, from_dir, from_name, to_dir, to_name, 0), 0);
}

static inline void agent_chmod(struct world *w, const char *path, mode_t mode)
{
    struct stat to = { .st_mode = mode };
    struct entry_answer answer = { 0 };
    struct inode *inode = walk(&w->f, path, NULL);

    assert_non_null(inode);
    assert_int_equal(op_setattr(w->f.fence, &nobody, inode, &to, SETATTR_MODE, &answer), 0);
}

/* ---- what is expected ---- */

/* "modified a, deleted d/b, added n/": the edits, a directory with a slash. */
static inline void describe_edits(const struct edit_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++)
        buf_addf(out, "%s%s %s%s", i ? ", " : "", change_kind_name(list->items[i].kind), list->items[i].path,
                 edit_is_file(&list->items[i]) ? "" : "/");
}

static inline void load_edits(struct world *w, struct edit_list *ret)
{
    struct err err = ERR_NONE;

    if (edit_list_load(w->delta, NULL, 0, ret, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void assert_edits(struct world *w, const char *expected)
{
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;

    load_edits(w, &list);
    describe_edits(&list, &text);
    assert_string_equal(text.data ? text.data : "", expected);
}

/* ---- an agent that did all there is to do ---- */

static inline void a_busy_agent(struct world *w)
{
    base_put(w, "a", "a\n");
    base_put(w, "b", "b\n");
    base_put_mode(w, "script", "s\n", 0755);
    base_put(w, "d/e/f", "f\n");
    base_put(w, "d/g", "g\n");
    base_put(w, "kept", "kept\n");
    base_put(w, "was-dir/x", "x\n");
    base_put(w, "was-file", "x\n");
    base_put(w, "target", "t\n");
    base_put(w, "mv", "moved\n");
    base_put(w, "over", "old\n");
    agent_begin(w);
    agent_write(w, "a", "changed\n");
    agent_write(w, "script", "changed\n");
    agent_unlink(w, "b");
    agent_unlink(w, "d/e/f");
    agent_rmdir(w, "d/e");
    agent_mkdir(w, "n");
    agent_mkdir(w, "n/m");
    agent_create(w, "n/m/deep", "deep\n", 0600);
    agent_create(w, "n-beside", "beside\n", 0644);
    agent_symlink(w, "../a", "n/link");
    agent_unlink(w, "was-dir/x");
    agent_rmdir(w, "was-dir");
    agent_create(w, "was-dir", "file now\n", 0644);
    agent_unlink(w, "was-file");
    agent_mkdir(w, "was-file");
    agent_create(w, "was-file/in", "in\n", 0644);
    agent_chmod(w, "target", 0600);
    agent_rename(w, "mv", "d/moved");
    agent_create(w, "tmp", "new\n", 0644);
    agent_rename(w, "tmp", "over");
    agent_chmod(w, "d", 0750);
    agent_end(w);
}

static inline void assert_busy_work(struct world *w)
{
    char target[16] = "";

    assert_base(w, "a", "changed\n");
    assert_base(w, "script", "changed\n");
    assert_int_equal(base_mode(w, "script"), S_IFREG | 0755);
    assert_false(base_has(w, "b"));
    assert_false(base_has(w, "d/e"));
    assert_base(w, "d/g", "g\n");
    assert_base(w, "kept", "kept\n");
    assert_base(w, "n/m/deep", "deep\n");
    assert_int_equal(base_mode(w, "n/m/deep"), S_IFREG | 0600);
    assert_int_equal(base_mode(w, "n/m"), S_IFDIR | 0755);
    assert_int_equal(base_mode(w, "n"), S_IFDIR | 0755);
    assert_base(w, "n-beside", "beside\n");
    assert_int_equal(readlinkat(w->f.fd, BASE_DIR "/n/link", target, sizeof(target) - 1), 4);
    assert_string_equal(target, "../a");
    assert_base(w, "was-dir", "file now\n");
    assert_base(w, "was-file/in", "in\n");
    assert_int_equal(base_mode(w, "target"), S_IFREG | 0600);
    assert_false(base_has(w, "mv"));
    assert_base(w, "d/moved", "moved\n");
    assert_base(w, "over", "new\n");
    assert_int_equal(base_mode(w, "d"), S_IFDIR | 0755);
}
