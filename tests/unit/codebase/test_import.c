#include "codebase_fixture.h"

#include "codebase/codebase_export.h"

static void assert_link(struct world *w, const char *path, const char *target)
{
    char got[256] = "";

    assert_true(readlinkat(codebase_files_fd(w->cb), path, got, sizeof(got) - 1) > 0);
    assert_string_equal(got, target);
}

static void an_archive_is_one_version(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf tar = BUF_EMPTY;
    struct codebase_import_result result;

    tar_add(&tar, "./", '5', "", NULL, 0755);
    tar_add(&tar, "./run.sh", '0', "#!/bin/sh\n", NULL, 06755);
    tar_add(&tar, "src/a.c", '0', "int a;\n", NULL, 0600);
    tar_add(&tar, "src/same.c", '1', "", "src/a.c", 0644);
    tar_add(&tar, "link", '2', "", "/etc/passwd", 0777);
    tar_add(&tar, "empty/dir", '5', "", NULL, 0700);
    tar_add(&tar, "src/twice", '0', "first", NULL, 0644);
    tar_add(&tar, "src/twice", '0', "second", NULL, 0644);
    tar_end(&tar);
    assert_ok(try_import(w, &tar, NULL, &result, e_));
    assert_int_equal(result.version, 1);
    assert_int_equal(result.entries, 8);
    assert_file(w, "src/a.c", "int a;\n");
    assert_file(w, "src/same.c", "int a;\n");
    assert_file(w, "src/twice", "second");
    assert_link(w, "link", "/etc/passwd");
    assert_int_equal(mode_of(w, "run.sh") & 07777, 0755);
    assert_int_equal(mode_of(w, "src/a.c") & 07777, 0644);
    assert_true(S_ISDIR(mode_of(w, "empty/dir")));
    assert_counts(w);
    assert_int_equal(names_in(w, "stage"), 0);
    assert_int_equal(names_in(w, "versions/1"), 1);
}

static void an_archive_is_laid_over_what_is_there(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf tar = BUF_EMPTY;

    put(w, "src/a", "old a");
    put(w, "src/b", "old b");
    tar_add(&tar, "src/a", '0', "new a", NULL, 0644);
    tar_add(&tar, "src/new/c", '0', "new c", NULL, 0644);
    tar_end(&tar);
    assert_ok(try_import(w, &tar, NULL, NULL, e_));
    assert_file(w, "src/a", "new a");
    assert_file(w, "src/b", "old b");
    assert_file(w, "src/new/c", "new c");
    assert_file_at(w, 2, "src/a", "old a");
    assert_counts(w);
}

static void an_archive_may_replace_everything(void **state)
{
    struct world *w = *state;
    struct codebase_import_options options = { .is_replacing = true };
    autodone(buf) struct buf tar = BUF_EMPTY;

    put(w, "src/a", "old a");
    put(w, "was/a/dir", "x");
    put(w, "other", "x");
    tar_add(&tar, "src/b", '0', "new b", NULL, 0644);
    tar_add(&tar, "was", '0', "a file now", NULL, 0644);
    tar_end(&tar);
    assert_ok(try_import(w, &tar, &options, NULL, e_));
    assert_absent(w, "src/a");
    assert_absent(w, "other");
    assert_file(w, "src/b", "new b");
    assert_file(w, "was", "a file now");
    assert_counts(w);
    assert_ok(codebase_restore(w->cb, 3, NULL, NULL, NULL, e_));
    assert_file(w, "src/a", "old a");
    assert_file(w, "was/a/dir", "x");
    assert_absent(w, "src/b");
    assert_counts(w);
}

static void something_of_another_kind_in_the_way_refuses_all(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf tar = BUF_EMPTY;
    struct err err = ERR_NONE;

    put(w, "d/f", "1");
    tar_add(&tar, "new", '0', "x", NULL, 0644);
    tar_add(&tar, "d", '0', "x", NULL, 0644);
    tar_end(&tar);
    assert_int_equal(try_import(w, &tar, NULL, NULL, &err), -EISDIR);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_absent(w, "new");
    assert_int_equal(version_now(w), 1);
}

/* ---- hostile ones ---- */

static void assert_refused(struct world *w, struct buf *tar, const struct codebase_import_options *options, enum err_code code)
{
    struct err err = ERR_NONE;

    assert_true(try_import(w, tar, options, NULL, &err) < 0);
    if (err.code != code)
        fail_msg("refused by %d: %s", err.code, err.text);
    assert_int_equal(version_now(w), 1);
    assert_absent(w, "good");
    assert_int_equal(names_in(w, "stage"), 0);
    assert_int_equal(names_in(w, "files"), 1);
    buf_clear(tar);
}

static void hostile_entries_are_refused_and_nothing_is_changed(void **state)
{
    static const struct {
        const char *name;
        char type;
        const char *link;
    } bad[] = {
        { "/absolute", '0', NULL },
        { "../out", '0', NULL },
        { "a/../../out", '0', NULL },
        { "a/../b", '0', NULL },
        { "dir/.wh.x", '0', NULL },
        { ".wh..wh..opq", '0', NULL },
        { "device", '3', NULL },
        { "block", '4', NULL },
        { "pipe", '6', NULL },
        { "hard", '1', "/etc/passwd" },
        { "hard", '1', "../../etc/passwd" },
        { "hard", '1', "nowhere" },
        { "hard", '1', "link" },
        { "link/through", '0', NULL },
        { "link/sub/dir", '5', NULL },
        { "good/file", '0', NULL },
        { "sub", '0', NULL },
        { "", '0', NULL },
    };
    struct world *w = *state;
    autodone(buf) struct buf tar = BUF_EMPTY;

    put(w, "there", "1");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        tar_add(&tar, "good", '0', "x", NULL, 0644);
        tar_add(&tar, "sub/x", '0', "x", NULL, 0644);
        tar_add(&tar, "link", '2', "", "/tmp", 0777);
        tar_add(&tar, bad[i].name, bad[i].type, "evil", bad[i].link, 0644);
        tar_end(&tar);
        assert_refused(w, &tar, NULL, ERR_INVALID_ARGUMENT);
    }
}

static void limits_hold(void **state)
{
    struct world *w = *state;
    struct codebase_import_options few = { .max_entries = 3 }, small = { .max_bytes = 5 };
    autodone(buf) struct buf tar = BUF_EMPTY;

    put(w, "there", "1");
    for (int i = 0; i < 4; i++)
        tar_add(&tar, i ? "x" : "good", '0', "1", NULL, 0644);
    tar_end(&tar);
    assert_refused(w, &tar, &few, ERR_RESOURCE_EXHAUSTED);
    tar_add(&tar, "good", '0', "123", NULL, 0644);
    tar_add(&tar, "more", '0', "123", NULL, 0644);
    tar_end(&tar);
    assert_refused(w, &tar, &small, ERR_RESOURCE_EXHAUSTED);
    /* Names longer than a header's field come in an entry of their own. */
    autodone(buf) struct buf deep = BUF_EMPTY;
    for (int i = 0; i < 200; i++)
        buf_add_str(&deep, "d/");
    buf_add_str(&deep, "f");
    tar_add(&tar, "good", '0', "1", NULL, 0644);
    tar_add(&tar, "././@LongLink", 'L', deep.data, NULL, 0644);
    tar_add(&tar, "short", '0', "1", NULL, 0644);
    tar_end(&tar);
    assert_refused(w, &tar, NULL, ERR_INVALID_ARGUMENT);
}

static void rubbish_and_truncated_archives_are_refused(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf tar = BUF_EMPTY;

    put(w, "there", "1");
    buf_add_str(&tar, "this is no archive at all, but long enough to look at");
    assert_refused(w, &tar, NULL, ERR_INVALID_ARGUMENT);
    for (int i = 0; i < 5000; i++)
        buf_add_char(&tar, (char) (i * 7));
    assert_refused(w, &tar, NULL, ERR_INVALID_ARGUMENT);
    tar_add(&tar, "good", '0', "123", NULL, 0644);
    tar.len = 600;
    assert_refused(w, &tar, NULL, ERR_INVALID_ARGUMENT);
}

static void an_import_given_up_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct codebase_import_options options = { 0 };
    struct codebase_import *import = NULL;
    autodone(buf) struct buf tar = BUF_EMPTY;

    tar_add(&tar, "good", '0', "123", NULL, 0644);
    assert_ok(codebase_import_begin(w->cb, &options, &import, e_));
    assert_ok(codebase_import_write(import, tar.data, tar.len, e_));
    codebase_import_free(import);
    assert_absent(w, "good");
    assert_int_equal(names_in(w, "stage"), 0);
}

/* ---- out and in again ---- */

static int collect(const void *bytes, size_t len, void *cookie)
{
    buf_add(cookie, bytes, len);
    return 0;
}

static int refuse(const void *bytes, size_t len, void *cookie)
{
    (void) bytes;
    (void) len;
    (void) cookie;
    return -ECONNRESET;
}

static void an_export_can_be_imported_again(void **state)
{
    static const enum codebase_export_filter filters[] = { CODEBASE_EXPORT_PLAIN, CODEBASE_EXPORT_GZIP, CODEBASE_EXPORT_ZSTD };
    struct codebase_import_options options = { .is_replacing = true };
    struct world *w = *state;
    autofree char *long_name = xalloc(300);
    char deep[700] = "";

    memset(long_name, 'n', 255);
    for (int i = 0; i < 60; i++)
        strcat(deep, "directory/");
    strcat(deep, "f");
    put(w, deep, "deep");
    put(w, long_name, "long");
    put(w, "d/\xc3\xbcml\xc3\xa4ut", "utf8");
    put(w, "d/\xff\xfe", "bytes");
    assert_ok(try_put(w, "d/run", "x", 0755, NULL, e_));
    struct codebase_txn *txn = begin(w);
    struct codebase_change link = { "d/link", clock_wall_ns(), CODEBASE_UNSEEN },
                           dir = { "e/mpty", clock_wall_ns(), CODEBASE_UNSEEN };
    assert_ok(codebase_txn_symlink(txn, &link, "../\xc3\xbc", e_));
    assert_ok(codebase_txn_mkdir(txn, &dir, 0755, e_));
    commit(txn, NULL);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        autodone(buf) struct buf tar = BUF_EMPTY;

        assert_ok(codebase_export(w->cb, NULL, filters[i], collect, &tar, e_));
        put(w, "to be replaced", "x");
        assert_ok(try_import(w, &tar, &options, NULL, e_));
        assert_absent(w, "to be replaced");
        assert_file(w, deep, "deep");
        assert_file(w, long_name, "long");
        assert_file(w, "d/\xc3\xbcml\xc3\xa4ut", "utf8");
        assert_file(w, "d/\xff\xfe", "bytes");
        assert_link(w, "d/link", "../\xc3\xbc");
        assert_int_equal(mode_of(w, "d/run") & 0777, 0755);
        assert_true(S_ISDIR(mode_of(w, "e/mpty")));
        assert_counts(w);
    }
}

static void a_directory_is_exported_by_itself(void **state)
{
    struct world *w = *state;
    struct codebase_import_options options = { .is_replacing = true };
    autodone(buf) struct buf tar = BUF_EMPTY;
    struct err err = ERR_NONE;

    put(w, "a/b/f", "1");
    put(w, "a/c", "2");
    assert_ok(codebase_export(w->cb, "/a/b", CODEBASE_EXPORT_PLAIN, collect, &tar, e_));
    assert_ok(try_import(w, &tar, &options, NULL, e_));
    assert_file(w, "f", "1");
    assert_int_equal(names_in(w, "files"), 1);
    assert_true(codebase_export(w->cb, "nowhere", CODEBASE_EXPORT_PLAIN, collect, &tar, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(codebase_export(w->cb, NULL, CODEBASE_EXPORT_PLAIN, refuse, NULL, &err), -ECONNRESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(an_archive_is_one_version),
        world_test(an_archive_is_laid_over_what_is_there),
        world_test(an_archive_may_replace_everything),
        world_test(something_of_another_kind_in_the_way_refuses_all),
        world_test(hostile_entries_are_refused_and_nothing_is_changed),
        world_test(limits_hold),
        world_test(rubbish_and_truncated_archives_are_refused),
        world_test(an_import_given_up_leaves_nothing),
        world_test(an_export_can_be_imported_again),
        world_test(a_directory_is_exported_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
