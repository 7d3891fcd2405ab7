#include "review_fixture.h"

#include "fence/change_log.h"
#include "fence/change_log_compact.h"

static bool take(struct change_log_index *log_index, const char *line)
{
    return change_log_index_parse_line(log_index, line, strlen(line));
}

static void lines_are_read_as_they_were_written(void **state)
{
    struct world *w = *state;
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
    struct err err = ERR_NONE;
    const struct base_entry *entry;

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
    assert_int_equal(change_log_index_load(fd, &log_index, &err), 0);

    entry = change_log_index_find(&log_index, "a");
    assert_non_null(entry);
    assert_int_equal(entry->base, BASE_ENTRY_PRESENT);
    assert_true(entry->has_hash);
    assert_false(entry->has_moved_on);
    assert_int_equal(entry->size_bytes, 8);
    assert_int_equal(entry->mode, 0644);
    put_file(&w->f, "same", "content\n");
    autofd int same = openat(w->f.fd, "same", O_RDONLY | O_CLOEXEC);
    uint8_t hash[CHANGE_LOG_INDEX_HASH_BYTES];
    assert_int_equal(change_log_index_hash(same, hash), 0);
    assert_memory_equal(hash, entry->hash, sizeof(hash));

    entry = change_log_index_find(&log_index, "\xff\t\"\\\xc3\xa9");
    assert_non_null(entry);
    assert_int_equal(entry->base, BASE_ENTRY_PRESENT);
    entry = change_log_index_find(&log_index, "gone");
    assert_true(entry->was_removed);
    assert_int_equal(entry->base, BASE_ENTRY_UNKNOWN);
    entry = change_log_index_find(&log_index, "new");
    assert_false(entry->was_removed);
    assert_int_equal(entry->base, BASE_ENTRY_ABSENT);
    assert_null(change_log_index_find(&log_index, "never"));
}

static void the_first_word_about_the_base_counts(void **state)
{
    struct world *w = *state;
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
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
    assert_int_equal(change_log_index_load(w->f.fd, &log_index, &err), 0);
    assert_int_equal(change_log_index_find(&log_index, "a")->base, BASE_ENTRY_UNKNOWN);
    assert_int_equal(change_log_index_find(&log_index, "b")->base, BASE_ENTRY_ABSENT);
    assert_int_equal(change_log_index_find(&log_index, "c")->base, BASE_ENTRY_ABSENT);
    assert_true(change_log_index_find(&log_index, "c")->was_removed);
    assert_int_equal(change_log_index_find(&log_index, "d")->base, BASE_ENTRY_UNKNOWN);
    assert_int_equal(change_log_index_find(&log_index, "e")->base, BASE_ENTRY_PRESENT);
    assert_int_equal(change_log_index_find(&log_index, "e")->size_bytes, 1);
    assert_null(change_log_index_find(&log_index, "torn"));
    assert_int_equal(change_log_index_find(&log_index, "f")->base, BASE_ENTRY_UNKNOWN);
    assert_false(change_log_index_find(&log_index, "f")->was_removed);
    assert_int_equal(change_log_index_find(&log_index, "g")->base, BASE_ENTRY_ABSENT);
    assert_false(change_log_index_find(&log_index, "g")->was_removed);
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
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (take(&log_index, lines[i]))
            fail_msg("line %zu was taken", i);
    }
    assert_int_equal(log_index.count, 0);
    assert_true(take(&log_index, "{\"change\":\"created\",\"path\":\"a\"}"));
    assert_int_equal(log_index.count, 1);
}

static void what_was_applied_is_written_so_that_it_can_be_read(void **state)
{
    struct world *w = *state;
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
    struct err err = ERR_NONE;
    struct stat st = { .st_size = 5, .st_mode = S_IFREG | 0640, .st_mtim = { 3, 4 } };
    uint8_t hash[CHANGE_LOG_INDEX_HASH_BYTES] = { 1, 2, 0xfe };
    autofd int fd = openat(w->f.fd, "changes", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_int_equal(change_log_index_note_applied(fd, "x\n\xfe", &st, hash), 0);
    assert_int_equal(change_log_index_note_applied(fd, "y", NULL, NULL), 0);
    assert_int_equal(change_log_index_load(w->f.fd, &log_index, &err), 0);
    const struct base_entry *entry = change_log_index_find(&log_index, "x\n\xfe");
    assert_non_null(entry);
    assert_int_equal(entry->size_bytes, 5);
    assert_int_equal(entry->mode, 0640);
    assert_int_equal(entry->mtime_ns, 3000000004LL);
    assert_true(entry->has_hash);
    assert_memory_equal(entry->hash, hash, sizeof(hash));
    assert_int_equal(change_log_index_find(&log_index, "y")->base, BASE_ENTRY_ABSENT);
}

/* ---- the gist of a diary (fence/change_log_compact.h) tells the same ---- */

static const char *const gist_paths[] = { "a", "d/b", "c\xff", "gone", "lost/x" };

static bool is_not_lost(const char *path, void *cookie)
{
    (void) cookie;
    return strcmp(path, "gone") != 0 && strncmp(path, "lost", 4) != 0;
}

static void add_random_line(struct buf *text, unsigned *seed)
{
    static const char *const kinds[] = { "created", "linked",    "deleted", "renamed", "written",
                                         "attrs",   "copied-up", "applied", "dropped", "applied" };
    const char *path = gist_paths[(unsigned) rand_r(seed) % ARRAY_LEN(gist_paths)];
    unsigned kind = (unsigned) rand_r(seed) % (ARRAY_LEN(kinds) + 1), number = (unsigned) rand_r(seed) % 1000;

    if (kind == ARRAY_LEN(kinds)) {
        buf_add_str(text, "{\"torn\n");
        return;
    }
    buf_addf(text, "{\"time_ns\":%u,\"change\":\"%s\",\"path\":", 1000 + number, kinds[kind]);
    change_log_format_string(text, path);
    if (strcmp(kinds[kind], "renamed") == 0) {
        buf_add_str(text, ",\"to\":");
        change_log_format_string(text, gist_paths[(unsigned) rand_r(seed) % ARRAY_LEN(gist_paths)]);
    }
    if (strcmp(kinds[kind], "copied-up") == 0 || kind == 7)
        buf_addf(text, ",\"base\":{\"ino\":7,\"size\":%u,\"mtime_ns\":5,\"mode\":420%s}", number,
                 number % 2 ? ",\"moved_on\":true" : ",\"kept\":\"copy\"");
    buf_add_str(text, "}\n");
}

static void read_text(struct world *w, const struct buf *text, struct change_log_index *ret)
{
    struct err err = ERR_NONE;

    assert_int_equal(file_put(w->f.fd, "changes", text->len ? text->data : "", text->len, 0600), 0);
    assert_int_equal(change_log_index_load(w->f.fd, ret, &err), 0);
}

static void check_same_page(const struct base_entry *x, const struct base_entry *y, const struct buf *text)
{
    if (!x != !y)
        fail_msg("one knows nothing, of:\n%s", text->data);
    if (x &&
        (x->base != y->base || x->was_removed != y->was_removed || x->is_reset != y->is_reset || x->since_ns != y->since_ns ||
         x->has_moved_on != y->has_moved_on || x->size_bytes != y->size_bytes || !x->kept != !y->kept))
        fail_msg("'%s' differs, of:\n%s", x->path, text->data);
}

static void the_gist_of_a_diary_tells_the_same(void **state)
{
    struct world *w = *state;

    for (unsigned round = 0; round < 2000; round++) {
        autodone(buf) struct buf text = BUF_EMPTY, gist = BUF_EMPTY, again = BUF_EMPTY;
        autodone(change_log_index) struct change_log_index whole = CHANGE_LOG_INDEX_EMPTY, brief = CHANGE_LOG_INDEX_EMPTY;
        unsigned seed = round, lines = (unsigned) rand_r(&seed) % 60;

        for (unsigned i = 0; i < lines; i++)
            add_random_line(&text, &seed);
        change_log_compact(text.data, text.len, INT64_MAX - 1, is_not_lost, NULL, &gist);
        /* Its own gist is itself; and what is told later is read as if all had stayed. */
        change_log_compact(gist.data, gist.len, INT64_MAX - 1, is_not_lost, NULL, &again);
        assert_int_equal(again.len, gist.len);
        for (unsigned i = 0; i < lines / 2; i++) {
            size_t at = text.len;
            add_random_line(&text, &seed);
            buf_add(&gist, text.data + at, text.len - at);
        }
        read_text(w, &text, &whole);
        read_text(w, &gist, &brief);
        for (size_t i = 0; i < ARRAY_LEN(gist_paths); i++) {
            if (is_not_lost(gist_paths[i], NULL))
                check_same_page(change_log_index_find(&whole, gist_paths[i]), change_log_index_find(&brief, gist_paths[i]),
                                &text);
        }
    }
}

/* Without what is told once, or decided, which stays. */
static void the_gist_of_much_about_little_is_short(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY, gist = BUF_EMPTY;
    unsigned seed = 1;

    (void) state;
    for (int i = 0; i < 20000; i++) {
        size_t at = text.len;
        add_random_line(&text, &seed);
        if (strstr(text.data + at, "copied-up") || strstr(text.data + at, "applied") || strstr(text.data + at, "dropped"))
            text.len = at;
    }
    change_log_compact(text.data, text.len, INT64_MAX - 1, is_not_lost, NULL, &gist);
    assert_in_range(gist.len, 100, 6000);
}

/* Written, approved, and out of the delta: again and again. */
static void the_gist_of_many_approvals_is_that_of_one(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY, gist = BUF_EMPTY;

    (void) state;
    for (int i = 0; i < 5000; i++) {
        for (int k = 0; k < 3; k++) {
            static const char *const lines[] = { "\"copied-up\"", "\"applied\"", "\"dropped\"" };
            buf_addf(&text, "{\"time_ns\":%d,\"change\":%s,\"path\":\"a\"%s}\n", 10 * i + k, lines[k],
                     k < 2 ? ",\"base\":{\"ino\":7,\"size\":1,\"mtime_ns\":5,\"mode\":420}" : "");
        }
    }
    change_log_compact(text.data, text.len, INT64_MAX - 1, is_not_lost, NULL, &gist);
    assert_string_equal(gist.data, "{\"time_ns\":49992,\"change\":\"dropped\",\"path\":\"a\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(lines_are_read_as_they_were_written),
        world_test(the_first_word_about_the_base_counts),
        world_test(what_is_no_line_is_passed_over),
        world_test(what_was_applied_is_written_so_that_it_can_be_read),
        world_test(the_gist_of_a_diary_tells_the_same),
        cmocka_unit_test(the_gist_of_much_about_little_is_short),
        cmocka_unit_test(the_gist_of_many_approvals_is_that_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
