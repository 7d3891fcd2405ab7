#include "codebase_fixture.h"

#include <sys/file.h>

#include "base/coverage.h"

static void only_ids_of_codebases_are_taken(void **state)
{
    static const char *const bad[] = { "",       "cb_",  "cb_0123456789ABCDEF", "cb_0123456789abcde", "cb_0123456789abcdef0",
                                       "../etc", "cb_/", "sb_0123456789abcdef", "cb_0123456789abcde/" };
    struct world *w = *state;
    struct codebase *cb = NULL;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;

        assert_int_equal(codebase_open(w->all, bad[i], &cb, &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        assert_int_equal(codebase_create(w->all, bad[i], &cb, &err), -EINVAL);
        assert_int_equal(codebase_delete(w->all, bad[i], &err), -EINVAL);
    }
}

static void a_codebase_is_made_once_and_found_again(void **state)
{
    struct world *w = *state;
    struct codebase *cb = NULL;
    struct err err = ERR_NONE;
    struct codebase_info info;

    assert_int_equal(codebase_create(w->all, ID, &cb, &err), -EEXIST);
    assert_int_equal(err.code, ERR_ALREADY_EXISTS);
    assert_int_equal(codebase_open(w->all, "cb_ffffffffffffffff", &cb, &err), -ENOENT);
    assert_string_equal(err.text, "codebase not found");
    put(w, "f", "12345");
    world_reopen(w);
    assert_ok(codebase_info(w->cb, &info, e_));
    assert_int_equal(info.version, 1);
    assert_int_equal(info.size_bytes, 5);
    assert_int_equal(info.file_count, 1);
    assert_string_equal(codebase_id(w->cb), ID);
}

static int count_id(const char *id, void *cookie)
{
    assert_string_equal(id, ID);
    ++*(int *) cookie;
    return 0;
}

static void a_deleted_codebase_is_gone_for_all(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;
    struct codebase *cb = NULL;
    int count = 0;

    put(w, "d/f", "1");
    assert_ok(codebases_each(w->all, count_id, &count, e_));
    assert_int_equal(count, 1);
    assert_ok(codebase_delete(w->all, ID, e_));
    assert_int_equal(codebase_open(w->all, ID, &cb, &err), -ENOENT);
    assert_int_equal(codebase_delete(w->all, ID, &err), -ENOENT);
    /* One who has it open finds out, also when there is a new one of that name. */
    assert_int_equal(try_put(w, "g", "x", 0644, NULL, &err), -ENOENT);
    assert_ok(codebase_create(w->all, ID, &cb, e_));
    assert_int_equal(try_put(w, "g", "x", 0644, NULL, &err), -ENOENT);
    codebase_close(cb);
    assert_ok(codebases_each(w->all, count_id, &count, e_));
    assert_int_equal(count, 2);
}

/* Between the two steps of a deletion, all that a writer has open is still there. */
static void nothing_is_acknowledged_that_goes_into_a_deleted_codebase(void **state)
{
    struct world *w = *state;
    autofd int root = path_open_beneath(w->fd, "codebases", O_RDONLY | O_DIRECTORY, 0);
    struct codebase *another = NULL;
    struct err err = ERR_NONE;

    assert_int_equal(renameat(root, ID, root, "del_0123456789abcdef"), 0);
    assert_int_equal(try_put(w, "f", "x", 0644, NULL, &err), -ENOENT);
    assert_ok(codebase_create(w->all, ID, &another, e_));
    assert_int_equal(try_put(w, "f", "x", 0644, NULL, &err), -ENOENT);
    assert_string_equal(err.text, "codebase not found");
    codebase_close(another);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, ""), 1);
}

static void counters_that_are_lost_are_counted_anew(void **state)
{
    struct world *w = *state;
    autofree char *meta = xprintf("%s/%s/meta", w->root, ID);

    put(w, "f", "12345");
    put(w, "f", "123");
    assert_int_equal(truncate(meta, 10), 0);
    world_reopen(w);
    assert_counts(w);
    assert_int_equal(version_now(w), 2);
    assert_file_at(w, 1, "f", "12345");
    assert_int_equal(unlink(meta), 0);
    put(w, "f", "1");
    assert_int_equal(version_now(w), 3);
    assert_counts(w);
}

/* ---- several processes ---- */

static void wait_for(pid_t pid, int expected)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void recovery_spares_the_living_and_collects_from_the_dead(void **state)
{
    struct world *w = *state;
    int ready[2], go[2];
    char byte = 0;
    pid_t living, dead;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            struct codebase_put *p = NULL;
            struct codebase_put_result result;

            if (codebase_put_begin(w->cb, i ? "living" : "dead", -1, NULL, &p, NULL) < 0 ||
                codebase_put_write(p, "text", 4, NULL) < 0 || write(ready[1], "x", 1) != 1)
                _exit(1);
            if (i == 0)
                _exit(0);
            if (read(go[0], &byte, 1) != 1 || codebase_put_commit(p, &result, NULL, NULL) < 0)
                _exit(1);
            _exit(0);
        }
        *(i ? &living : &dead) = pid;
        assert_int_equal(read(ready[0], &byte, 1), 1);
    }
    wait_for(dead, 0);
    assert_int_equal(names_in(w, "stage"), 2);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, "stage"), 1);
    assert_int_equal(write(go[1], "x", 1), 1);
    wait_for(living, 0);
    assert_file(w, "living", "text");
    assert_absent(w, "dead");
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, "stage"), 0);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

static void recovery_spares_a_codebase_in_the_making(void **state)
{
    struct world *w = *state;
    autofree char *path = xprintf("%s/new_0123456789abcdef", w->root);
    int fd;

    assert_int_equal(mkdir(path, 0755), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, ""), 2);
    close(fd);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, ""), 1);
}

#define WRITERS 4
#define ROUNDS 25

static int write_much(struct world *w, int who)
{
    for (int i = 0; i < ROUNDS; i++) {
        char own[32], text[32];

        snprintf(own, sizeof(own), "w%d/f%d", who, i % 7);
        snprintf(text, sizeof(text), "%d-%d", who, i);
        if (try_put(w, i % 2 ? "shared/f" : own, text, 0644, NULL, NULL) < 0)
            return 1;
        if (i % 5 == 0 && codebases_recover(w->all, NULL) < 0)
            return 2;
    }
    return 0;
}

static void processes_at_once_make_their_versions_one_by_one(void **state)
{
    struct world *w = *state;
    pid_t pids[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            coverage_exit(write_much(w, i));
    }
    for (int i = 0; i < WRITERS; i++)
        wait_for(pids[i], 0);
    assert_int_equal(version_now(w), WRITERS * ROUNDS);
    assert_counts(w);
    for (int i = 0; i < WRITERS; i++) {
        char path[32], text[32];

        snprintf(path, sizeof(path), "w%d/f%d", i, (ROUNDS - 1) % 7);
        snprintf(text, sizeof(text), "%d-%d", i, ROUNDS - 1);
        assert_file(w, path, text);
    }
    assert_int_equal(names_in(w, "stage"), 0);
}

/* ---- listing ---- */

static int add_line(const struct codebase_file *file, void *cookie)
{
    buf_addf(cookie, "%s%s ", file->path, file->kind == CODEBASE_DIRECTORY ? "/" : file->kind == CODEBASE_SYMLINK ? "@" : "");
    return 0;
}

static void assert_list(struct world *w, struct codebase_list_options options, int result, const char *expected)
{
    autodone(buf) struct buf got = BUF_EMPTY;

    buf_add(&got, "", 0);
    assert_int_equal(codebase_list(w->cb, &options, add_line, &got, NULL), result);
    assert_string_equal(got.data, expected);
}

static void listings_are_in_the_order_of_names(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;

    put(w, "b/c", "1");
    put(w, "b/a/x", "1");
    put(w, "b.txt", "1");
    put(w, "a", "1");
    assert_int_equal(symlinkat("b", codebase_files_fd(w->cb), "l"), 0);
    assert_list(w, (struct codebase_list_options){ 0 }, 0, "a b/ b.txt l@ ");
    assert_list(w, (struct codebase_list_options){ .path = "/b/" }, 0, "b/a/ b/c ");
    assert_list(w, (struct codebase_list_options){ .is_recursive = true }, 0, "a b/ b/a/ b/a/x b/c b.txt l@ ");
    assert_list(w, (struct codebase_list_options){ .path = "nowhere" }, 0, "");
    assert_list(w, (struct codebase_list_options){ .path = "nowhere", .is_recursive = true }, -ENOENT, "");
    assert_list(w, (struct codebase_list_options){ .path = "a" }, -ENOTDIR, "");
    assert_true(codebase_list(w->cb, &(struct codebase_list_options){ .path = "l" }, add_line, NULL, &err) < 0);
    assert_true(codebase_list(w->cb, &(struct codebase_list_options){ .path = "../x" }, add_line, NULL, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_list(w, (struct codebase_list_options){ .is_recursive = true, .limit = 3 }, 1, "a b/ b/a/ ");
    assert_list(w, (struct codebase_list_options){ .is_recursive = true, .limit = 3, .after = "b/a" }, 1, "b/a/x b/c b.txt ");
    assert_list(w, (struct codebase_list_options){ .is_recursive = true, .limit = 3, .after = "b.txt" }, 0, "l@ ");
    /* Also when the last one told is gone. */
    assert_list(w, (struct codebase_list_options){ .is_recursive = true, .after = "b/b/gone" }, 0, "b/c b.txt l@ ");
    assert_list(w, (struct codebase_list_options){ .path = "b", .after = "b/a" }, 0, "b/c ");
}

static void a_listing_in_pages_is_the_whole_listing(void **state)
{
    struct world *w = *state;
    autodone(buf) struct buf whole = BUF_EMPTY, paged = BUF_EMPTY;
    autofd int dir = -1;

    put(w, "d/e/f", "1");
    dir = path_open_beneath(codebase_files_fd(w->cb), "d/e", O_PATH | O_DIRECTORY, 0);
    for (int i = 0; i < 300; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i * 7919 % 1000);
        assert_int_equal(file_put(i % 3 ? dir : codebase_files_fd(w->cb), name, "", 0, 0644), 0);
    }
    assert_ok(codebase_list(w->cb, &(struct codebase_list_options){ .is_recursive = true }, add_line, &whole, e_));
    for (size_t limit = 1; limit < 400; limit = limit * 3 + 1) {
        autofree char *last = NULL;
        int r;

        buf_clear(&paged);
        do {
            size_t before = paged.len;

            r = codebase_list(w->cb, &(struct codebase_list_options){ .is_recursive = true, .limit = limit, .after = last },
                              add_line, &paged, NULL);
            assert_true(r >= 0);
            if (paged.len == before)
                break;
            free(last);
            paged.data[--paged.len] = 0;
            last = xdup(strrchr(paged.data, ' ') ? strrchr(paged.data, ' ') + 1 : paged.data);
            buf_add_char(&paged, ' ');
        } while (r == 1);
        assert_string_equal(paged.data, whole.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(only_ids_of_codebases_are_taken),
        world_test(a_codebase_is_made_once_and_found_again),
        world_test(a_deleted_codebase_is_gone_for_all),
        world_test(nothing_is_acknowledged_that_goes_into_a_deleted_codebase),
        world_test(counters_that_are_lost_are_counted_anew),
        world_test(recovery_spares_the_living_and_collects_from_the_dead),
        world_test(recovery_spares_a_codebase_in_the_making),
        world_test(processes_at_once_make_their_versions_one_by_one),
        world_test(listings_are_in_the_order_of_names),
        world_test(a_listing_in_pages_is_the_whole_listing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
