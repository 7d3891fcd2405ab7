#include "review_fixture.h"

static bool take(struct diary *diary, const char *line)
{
    return diary_take_line(diary, line, strlen(line));
}

static void lines_are_read_as_they_were_written(void **state)
{
    struct world *w = *state;
    autodone(diary) struct diary diary = DIARY_EMPTY;
    struct err err = ERR_NONE;
    const struct diary_page *page;

    base_put(w, "a", "content\n");
    base_put(w, "\xff\t\"\\\xc3\xa9", "odd\n");
    base_put(w, "gone", "g\n");
    agent_begin(w);
    agent_write(w, "a", "x\n");
    agent_write(w, "\xff\t\"\\\xc3\xa9", "x\n");
    agent_unlink(w, "gone");
    agent_create(w, "new", "n\n", 0644);
    agent_end(w);
    autofree char *meta = xprintf("%s/meta", w->delta);
    autofd int fd = open(meta, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(diary_load(fd, &diary, &err), 0);

    page = diary_find(&diary, "a");
    assert_non_null(page);
    assert_int_equal(page->base, DIARY_BASE_PRESENT);
    assert_true(page->has_hash);
    assert_false(page->has_moved_on);
    assert_int_equal(page->size_bytes, 8);
    assert_int_equal(page->mode, 0644);
    put_file(&w->f, "same", "content\n");
    autofd int same = openat(w->f.fd, "same", O_RDONLY | O_CLOEXEC);
    uint8_t hash[DIARY_HASH_BYTES];
    assert_int_equal(diary_hash(same, hash), 0);
    assert_memory_equal(hash, page->hash, sizeof(hash));

    page = diary_find(&diary, "\xff\t\"\\\xc3\xa9");
    assert_non_null(page);
    assert_int_equal(page->base, DIARY_BASE_PRESENT);
    page = diary_find(&diary, "gone");
    assert_true(page->was_removed);
    assert_int_equal(page->base, DIARY_BASE_UNKNOWN);
    page = diary_find(&diary, "new");
    assert_false(page->was_removed);
    assert_int_equal(page->base, DIARY_BASE_ABSENT);
    assert_null(diary_find(&diary, "never"));
}

static void the_first_word_about_the_base_counts(void **state)
{
    struct world *w = *state;
    autodone(diary) struct diary diary = DIARY_EMPTY;
    struct err err = ERR_NONE;

    put_file(
        &w->f, "changes",
        "{\"time_ns\":1,\"change\":\"deleted\",\"path\":\"a\"}\n"
        "{\"time_ns\":2,\"change\":\"created\",\"path\":\"a\"}\n"
        "{\"time_ns\":1,\"change\":\"created\",\"path\":\"b\"}\n"
        "{\"time_ns\":1,\"change\":\"copied-up\",\"path\":\"c\",\"base\":{\"ino\":7,\"size\":3,\"mtime_ns\":-5,\"mode\":420,"
        "\"moved_on\":true}}\n"
        "{\"time_ns\":2,\"change\":\"written\",\"path\":\"c\",\"exec\":\"e1\"}\n"
        "{\"time_ns\":2,\"change\":\"renamed\",\"path\":\"c\",\"to\":\"d\"}\n"
        "{\"time_ns\":1,\"change\":\"created\",\"path\":\"e\"}\n"
        "{\"time_ns\":2,\"change\":\"applied\",\"path\":\"e\",\"base\":{\"size\":1,\"mtime_ns\":2,\"mode\":420}}\n"
        "{\"time_ns\":3,\"change\":\"applied\",\"path\":\"c\"}\n"
        "{\"time_ns\":1,\"change\":\"copied-up\",\"path\":\"f\",\"base\":{\"size\":1,\"mtime_ns\":2,\"mode\":420}}\n"
        "{\"time_ns\":2,\"change\":\"dropped\",\"path\":\"f\"}\n"
        "{\"time_ns\":1,\"change\":\"deleted\",\"path\":\"g\"}\n"
        "{\"time_ns\":2,\"change\":\"dropped\",\"path\":\"g\"}\n"
        "{\"time_ns\":3,\"change\":\"created\",\"path\":\"g\"}\n"
        "{\"time_ns\":1,\"change\":\"copied-up\",\"path\":\"torn");
    assert_int_equal(diary_load(w->f.fd, &diary, &err), 0);
    assert_int_equal(diary_find(&diary, "a")->base, DIARY_BASE_UNKNOWN);
    assert_int_equal(diary_find(&diary, "b")->base, DIARY_BASE_ABSENT);
    assert_int_equal(diary_find(&diary, "c")->base, DIARY_BASE_ABSENT);
    assert_true(diary_find(&diary, "c")->was_removed);
    assert_int_equal(diary_find(&diary, "d")->base, DIARY_BASE_UNKNOWN);
    assert_int_equal(diary_find(&diary, "e")->base, DIARY_BASE_PRESENT);
    assert_int_equal(diary_find(&diary, "e")->size_bytes, 1);
    assert_null(diary_find(&diary, "torn"));
    assert_int_equal(diary_find(&diary, "f")->base, DIARY_BASE_UNKNOWN);
    assert_false(diary_find(&diary, "f")->was_removed);
    assert_int_equal(diary_find(&diary, "g")->base, DIARY_BASE_ABSENT);
    assert_false(diary_find(&diary, "g")->was_removed);
}

static void what_is_no_line_is_passed_over(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "{}",
        "[]",
        "{\"change\":\"created\"}",
        "{\"path\":\"a\"}",
        "{\"change\":\"created\",\"path\":\"\"}",
        "{\"change\":\"created\",\"path\":\"a\"",
        "{\"change\":\"created\",\"path\":\"a\"}}",
        "{\"change\":\"created\",\"path\":\"a\"}{\"change\":\"created\",\"path\":\"b\"}",
        "{\"change\":\"created\",\"path\":\"a\\u0000b\"}",
        "{\"change\":\"created\",\"path\":\"a\\ud800\"}",
        "{\"change\":\"created\",\"path\":\"a\\x\"}",
        "{\"change\":\"invented\",\"path\":\"a\"}",
        "{\"change\":\"copied-up\",\"path\":\"a\"}",
        "{\"change\":\"copied-up\",\"path\":\"a\",\"base\":{\"base\":{\"size\":1}}}",
        "{\"change\":\"copied-up\",\"path\":\"a\",\"base\":{\"size\":99999999999999999999}}",
        "{\"change\":\"created\",\"path\":\"a\",\"time_ns\":}",
    };
    autodone(diary) struct diary diary = DIARY_EMPTY;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (take(&diary, lines[i]))
            fail_msg("line %zu was taken", i);
    }
    assert_int_equal(diary.count, 0);
    assert_true(take(&diary, "{\"change\":\"created\",\"path\":\"a\"}"));
    assert_int_equal(diary.count, 1);
}

static void what_was_applied_is_written_so_that_it_can_be_read(void **state)
{
    struct world *w = *state;
    autodone(diary) struct diary diary = DIARY_EMPTY;
    struct err err = ERR_NONE;
    struct stat st = { .st_size = 5, .st_mode = S_IFREG | 0640, .st_mtim = { 3, 4 } };
    uint8_t hash[DIARY_HASH_BYTES] = { 1, 2, 0xfe };
    autofd int fd = openat(w->f.fd, "changes", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_int_equal(diary_note_applied(fd, "x\n\xfe", &st, hash), 0);
    assert_int_equal(diary_note_applied(fd, "y", NULL, NULL), 0);
    assert_int_equal(diary_load(w->f.fd, &diary, &err), 0);
    const struct diary_page *page = diary_find(&diary, "x\n\xfe");
    assert_non_null(page);
    assert_int_equal(page->size_bytes, 5);
    assert_int_equal(page->mode, 0640);
    assert_int_equal(page->mtime_ns, 3000000004LL);
    assert_true(page->has_hash);
    assert_memory_equal(page->hash, hash, sizeof(hash));
    assert_int_equal(diary_find(&diary, "y")->base, DIARY_BASE_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(lines_are_read_as_they_were_written),
        world_test(the_first_word_about_the_base_counts),
        world_test(what_is_no_line_is_passed_over),
        world_test(what_was_applied_is_written_so_that_it_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
