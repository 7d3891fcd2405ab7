/* Large texts: what is shown of where they differ is what comparing all of them would show. */
#include "review/diff_range.h"

#include "review_fixture.h"

#include <sys/mman.h>

#include "base/fd.h"
#include "review/approve.h"
#include "review/blob.h"
#include "review/change_set.h"
#include "review/file_diff.h"

#define PIECE ((size_t) 256 << 10) /* as diff_range.c reads */
#define MOST ((uint64_t) 64 << 20)

static uint64_t state_of_random = 1;

static unsigned pick(unsigned below)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (unsigned) (state_of_random >> 33) % below;
}

static int file_of(const struct buf *text)
{
    int fd = memfd_create("text", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_full(fd, text->data ? text->data : "", text->len), 0);
    return fd;
}

static void assert_same_hunks(const struct hunk_list *got, const struct hunk_list *expected)
{
    assert_int_equal(got->count, expected->count);
    for (size_t i = 0; i < got->count; i++) {
        assert_string_equal(got->items[i].id, expected->items[i].id);
        assert_string_equal(got->items[i].header, expected->items[i].header);
        assert_int_equal(got->items[i].lines.len, expected->items[i].lines.len);
        assert_memory_equal(got->items[i].lines.data, expected->items[i].lines.data, got->items[i].lines.len);
    }
}

static void assert_same_hash(const struct diff_range *range, int was, const struct buf *now)
{
    uint8_t got[32], expected[32];
    struct sha256_ctx sha;

    sha256_init(&sha);
    blob_hash(S_IFREG, now, &sha);
    sha256_digest(&sha, sizeof(expected), expected);
    sha256_init(&sha);
    assert_int_equal(diff_range_hash(range, was, &sha), 0);
    sha256_digest(&sha, sizeof(got), got);
    assert_memory_equal(got, expected, sizeof(got));
}

/* Taken from the whole texts they are one and the other: their numbers are right. */
static void assert_apply(const struct hunk_list *hunks, const struct buf *was, const struct buf *now)
{
    autofree bool *chosen = xalloc(hunks->count + 1);
    struct err err = ERR_NONE;

    for (unsigned all = 0; all < 2; all++) {
        autodone(buf) struct buf got = BUF_EMPTY;
        const struct buf *expected = all ? now : was;
        for (size_t i = 0; i < hunks->count; i++)
            chosen[i] = all;
        assert_int_equal(hunk_list_pick(was->data, was->len, now->data, now->len, hunks, chosen, &got, &err), 0);
        assert_int_equal(got.len, expected->len);
        assert_memory_equal(got.data, expected->data, got.len);
    }
}

/* Where lines are alike, texts can be told apart in several ways, and the middles may be in another than the whole. */
static void check(const struct buf *was, const struct buf *now, bool is_plain)
{
    autodone(diff_range) struct diff_range range = DIFF_RANGE_NONE;
    autodone(hunk_list) struct hunk_list got = HUNK_LIST_EMPTY, expected = HUNK_LIST_EMPTY;
    autofd int was_fd = file_of(was), now_fd = file_of(now);
    struct err err = ERR_NONE;

    assert_int_equal(diff_range_find(was_fd, now_fd, MOST, &range), 0);
    assert_int_equal(hunk_list_make(was->data, was->len, now->data, now->len, &expected, &err), 0);
    assert_int_equal(hunk_list_make(range.was.data, range.was.len, range.now.data, range.now.len, &got, &err), 0);
    assert_int_equal(hunk_list_shift(&got, range.lines_before), 0);
    if (is_plain)
        assert_same_hunks(&got, &expected);
    assert_apply(&got, was, now);
    assert_same_hash(&range, was_fd, now);
}

/* Lines of few kinds, so that much is alike; perhaps none at the end. */
static void make_text(struct buf *out, unsigned lines)
{
    buf_clear(out);
    buf_add(out, "", 0);
    for (unsigned i = 0; i < lines; i++)
        buf_addf(out, "%s%s", (const char *const[]){ "", "a", "b", "longer line" }[pick(4)],
                 i + 1 < lines || pick(3) ? "\n" : "");
}

static void edit_text(const struct buf *from, struct buf *out)
{
    size_t at = from->len ? pick((unsigned) from->len + 1) : 0, gone = pick(4);

    buf_clear(out);
    gone = from->len - at < gone ? from->len - at : gone;
    buf_add(out, from->len ? from->data : "", at);
    buf_addf(out, "%s", (const char *const[]){ "", "x", "\n", "a\n", "new\nlines\n" }[pick(5)]);
    buf_add(out, from->data + at + gone, from->len - at - gone);
}

static void hunks_of_random_texts_have_the_right_numbers(void **state)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY, again = BUF_EMPTY;

    (void) state;
    for (unsigned i = 0; i < full_or_share(5000, 1000); i++) {
        make_text(&was, pick(30));
        edit_text(&was, &now);
        if (pick(2)) {
            edit_text(&now, &again);
            check(&was, &again, false);
        } else {
            check(&was, &now, false);
        }
    }
}

static void add_lines(struct buf *out, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        buf_addf(out, "this is line %u\n", i);
}

/* Wherever the pieces end in which they are read. */
static void a_change_at_the_edge_of_a_piece(void **state)
{
    (void) state;
    for (int off = -3; off <= 3; off++) {
        for (unsigned what = 0; what < 3; what++) {
            autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY;
            size_t at = (size_t) ((ssize_t) (2 * PIECE) + off);
            add_lines(&was, 0, 60000);
            buf_add(&now, was.data, at);
            buf_add_str(&now, what == 0 ? "X" : what == 1 ? "new\n" : "");
            buf_add(&now, was.data + at + (what != 1), was.len - at - (what != 1));
            check(&was, &now, true);
            check(&now, &was, true);
        }
    }
}

static void ends_and_nothings(void **state)
{
    autodone(buf) struct buf empty = BUF_EMPTY, text = BUF_EMPTY, more = BUF_EMPTY;
    autodone(diff_range) struct diff_range range = DIFF_RANGE_NONE;

    (void) state;
    buf_add(&empty, "", 0);
    add_lines(&text, 0, 30000);
    add_lines(&more, 0, 30001);
    check(&empty, &text, true);
    check(&text, &empty, true);
    check(&text, &text, true);
    check(&text, &more, true);
    check(&more, &text, true);
    /* The middle is all of it. */
    autofd int was = file_of(&empty), now = file_of(&text);
    assert_int_equal(diff_range_find(was, now, 1000, &range), 1);
}

/* ---- as a review shows it ---- */

#define MANY 2000000

static void put_many(struct world *w, const char *path, const struct buf *text)
{
    autofree char *full = xprintf("base/%s", path);

    assert_int_equal(file_put(w->f.fd, full, text->data, text->len, 0644), 0);
}

static void write_at(struct world *w, const char *path, const char *text, size_t at)
{
    struct inode *inode = walk(&w->f, path, NULL);

    assert_int_equal(op_write(w->f.fence, &nobody, inode, strlen(text), (off_t) at, write_from, (void *) (uintptr_t) text),
                     strlen(text));
}

static void one_line_of_two_millions_is_shown(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    uint8_t hash[CHANGE_HASH_BYTES];
    struct err err = ERR_NONE;

    add_lines(&text, 1, MANY + 1);
    put_many(w, "big", &text);
    size_t at = (size_t) (strstr(text.data, "this is line 1234567\n") - text.data);
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    write_at(w, "big", "THIS", at);
    agent_end(w);
    assert_int_equal(change_set_load(w->delta, &(struct change_set_options){ 0 }, &set, &err), 0);
    assert_int_equal(file_diff_make(&set, &set.items[0], &diff, &err), 0);
    assert_int_equal(diff.hunks.count, 1);
    assert_string_equal(diff.hunks.items[0].header, "@@ -1234564,7 +1234564,7 @@");
    assert_non_null(strstr(diff.hunks.items[0].lines.data, "-this is line 1234567\n+THIS is line 1234567\n"));
    assert_false(set.items[0].is_too_large);
    assert_true(set.items[0].is_whole_only);
    assert_int_equal(set.items[0].added, 1);
    /* The hash is that of the file. */
    memcpy(hash, set.items[0].hash, sizeof(hash));
    assert_int_equal(file_diff_hash(&set, &set.items[0], &err), 0);
    assert_memory_equal(hash, set.items[0].hash, sizeof(hash));
    /* By hunks it cannot be taken, and that is said. */
    autodone(approve) struct approve approve = APPROVE_NONE;
    const char *ids[] = { diff.hunks.items[0].id };
    struct selection_file file = { .path = "big", .hunk_ids = ids, .hunk_id_count = 1 };
    struct selection selection = { &file, 1 };
    assert_true(approve_run(w->delta, &decided_all, &(struct approve_options){ .selection = &selection }, &approve, &err) < 0);
    assert_non_null(strstr(err.text, "take it whole"));
}

/* Its first line and its last: the middle is all of it. */
static void what_differs_everywhere_is_too_large(void **state)
{
    struct world *w = *state;
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err err = ERR_NONE;

    add_lines(&text, 1, MANY / 2);
    put_many(w, "big", &text);
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    write_at(w, "big", "THIS", 0);
    write_at(w, "big", "THE END", text.len - 8);
    agent_end(w);
    assert_int_equal(change_set_load(w->delta, &(struct change_set_options){ 0 }, &set, &err), 0);
    assert_int_equal(file_diff_make(&set, &set.items[0], &diff, &err), 0);
    assert_int_equal(diff.hunks.count, 0);
    assert_true(set.items[0].is_too_large);
    assert_false(set.items[0].is_binary);
    assert_true(set.items[0].is_hashed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hunks_of_random_texts_have_the_right_numbers),
        cmocka_unit_test(a_change_at_the_edge_of_a_piece),
        cmocka_unit_test(ends_and_nothings),
        world_test(one_line_of_two_millions_is_shown),
        world_test(what_differs_everywhere_is_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
