#include "codebase_fixture.h"

static int add_line(const struct codebase_version *v, void *cookie)
{
    buf_addf(cookie, "%d:%s/%s +%zu -%zu !%zu; ", (int) v->number, v->by, v->reason, v->put_count, v->removed_count,
             v->conflict_count);
    return 0;
}

static void remove_path(struct world *w, const char *path)
{
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { path, clock_wall_ns(), CODEBASE_UNSEEN };

    assert_ok(codebase_txn_remove(txn, &change, e_));
    commit(txn, NULL);
}

static void versions_are_listed_newest_first(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf list = BUF_EMPTY;

    put(w, "d/f", "1");
    put(w, "d/f", "2");
    remove_path(w, "d/f");
    assert_ok(codebase_versions(w->cb, add_line, &list, e_));
    assert_string_equal(list.data, "3:sb_1/exec_1/sync +0 -1 !0; 2:tester/upload +1 -0 !0; 1:tester/upload +2 -0 !0; ");
}

static int add_entry(const struct codebase_version_entry *e, void *cookie)
{
    buf_addf(cookie, "%s%s %d %s; ", e->path, e->is_tree ? "/" : "", (int) e->size_bytes, e->sha256 ? e->sha256 : "-");
    return 0;
}

static void a_version_tells_what_it_changed(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf list = BUF_EMPTY;
    struct err err = ERR_NONE;

    put(w, "d/f", "hello");
    assert_ok(codebase_version_entries(w->cb, 1, add_entry, &list, e_));
    assert_string_equal(list.data, "d/ 0 -; d/f 5 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824; ");
    assert_int_equal(codebase_version_entries(w->cb, 2, add_entry, &list, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void any_kept_version_can_be_read_and_restored(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct err err = ERR_NONE;
    struct stat st;
    int fd;

    put(w, "f", "1");
    put(w, "d/g", "1");
    put(w, "f", "2");
    remove_path(w, "d/g");
    assert_file_at(w, 2, "f", "1");
    assert_file_at(w, 3, "/d/g", "1");
    assert_int_equal(codebase_get_open_at(w->cb, 1, "d/g", &fd, &st, &err), -ENOENT);
    assert_int_equal(codebase_get_open_at(w->cb, 0, "f", &fd, &st, &err), -ENOENT);
    assert_int_equal(codebase_get_open_at(w->cb, 9, "f", &fd, &st, &err), -ERANGE);
    assert_ok(codebase_restore(w->cb, 2, NULL, "tester", &done, e_));
    assert_int_equal(done.version, 5);
    assert_file(w, "f", "1");
    assert_file(w, "d/g", "1");
    assert_counts(w);
    /* The restoring can be taken back as any other change. */
    assert_ok(codebase_restore(w->cb, 4, NULL, "tester", NULL, e_));
    assert_file(w, "f", "2");
    assert_absent(w, "d/g");
    assert_ok(codebase_restore(w->cb, 0, NULL, "tester", NULL, e_));
    assert_int_equal(names_in(w, "files"), 0);
    assert_counts(w);
}

static void restoring_what_is_there_is_no_version(void **state)
{
    struct world *w = *state;

    put(w, "f", "1");
    assert_ok(codebase_restore(w->cb, 1, NULL, NULL, NULL, e_));
    assert_int_equal(version_now(w), 1);
}

static void one_path_can_be_restored_by_itself(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;

    put(w, "d/e/f", "1");
    put(w, "g", "1");
    put(w, "d/e/f", "2");
    put(w, "g", "2");
    remove_path(w, "d/e/f");
    remove_path(w, "d/e");
    assert_ok(codebase_restore(w->cb, 2, "/d/e/f", NULL, NULL, e_));
    assert_file(w, "d/e/f", "1");
    assert_file(w, "g", "2");
    assert_ok(codebase_restore(w->cb, 4, "d", NULL, NULL, e_));
    assert_file(w, "d/e/f", "2");
    assert_counts(w);
    assert_true(codebase_restore(w->cb, 1, "../x", NULL, NULL, &err) < 0);
}

static void only_so_many_versions_are_kept(void **state)
{
    struct world *w = *state;
    struct codebase_info info;
    struct err err = ERR_NONE;
    struct stat st;
    int fd;

    w->options.keep_versions = 3;
    world_reopen(w);
    for (int i = 1; i <= 6; i++) {
        char text[4];
        snprintf(text, sizeof(text), "%d", i);
        put(w, "f", text);
    }
    assert_ok(codebase_info(w->cb, &info, e_));
    assert_int_equal(info.version, 6);
    assert_int_equal(info.oldest_version, 3);
    assert_int_equal(names_in(w, "versions"), 3);
    assert_int_equal(names_in(w, "stage"), 0);
    assert_file_at(w, 3, "f", "3");
    assert_int_equal(codebase_get_open_at(w->cb, 2, "f", &fd, &st, &err), -ERANGE);
    assert_int_equal(codebase_restore(w->cb, 2, NULL, NULL, NULL, &err), -ERANGE);
    assert_counts(w);
}

static void versions_are_kept_for_so_long(void **state)
{
    struct world *w = *state;
    struct codebase_info info;
    autofree char *manifest = xprintf("%s/%s/versions/1/manifest", w->root, ID);
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

    put(w, "f", "1");
    put(w, "f", "2");
    assert_int_equal(utimensat(AT_FDCWD, manifest, old, 0), 0);
    assert_ok(codebases_recover(w->all, e_));
    assert_ok(codebase_info(w->cb, &info, e_));
    assert_int_equal(info.oldest_version, 1);
    assert_int_equal(names_in(w, "versions"), 1);
    assert_file_at(w, 1, "f", "1");
    assert_counts(w);
}

static void a_damaged_manifest_is_an_error_and_not_a_guess(void **state)
{
    struct world *w = *state;
    autofree char *manifest = xprintf("%s/%s/versions/2/manifest", w->root, ID);
    struct err err = ERR_NONE;
    struct stat st;
    int fd;

    put(w, "f", "1");
    put(w, "f", "2");
    assert_int_equal(truncate(manifest, 60), 0);
    assert_int_equal(codebase_get_open_at(w->cb, 1, "f", &fd, &st, &err), -EBADMSG);
    assert_int_equal(codebase_restore(w->cb, 1, NULL, NULL, NULL, &err), -EBADMSG);
    assert_file(w, "f", "2");
    put(w, "g", "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(versions_are_listed_newest_first),
        world_test(a_version_tells_what_it_changed),
        world_test(any_kept_version_can_be_read_and_restored),
        world_test(restoring_what_is_there_is_no_version),
        world_test(one_path_can_be_restored_by_itself),
        world_test(only_so_many_versions_are_kept),
        world_test(versions_are_kept_for_so_long),
        world_test(a_damaged_manifest_is_an_error_and_not_a_guess),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
