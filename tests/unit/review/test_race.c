/* Somebody who changes the delta and the base while they are read: whatever they do, nothing outside is read, nothing waits, and the hash
 * is of the bytes that are shown. */
#include "review/file_diff.h"

#include "review_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "review/patch.h"

#define SECRET "secret of the host"

struct racer {
    struct world *w;
    atomic_bool is_over;
    atomic_ulong swaps;
};

static void exchange(struct world *w, const char *a, const char *b)
{
    (void) renameat2(w->f.fd, a, w->f.fd, b, RENAME_EXCHANGE);
}

static void scribble(struct world *w, const char *path, unsigned long round)
{
    autofd int fd = openat(w->f.fd, path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[512];

    if (fd < 0)
        return;
    memset(text, 'a' + (int) (round % 26), sizeof(text));
    for (size_t i = 0; i < sizeof(text); i += 16)
        text[i] = '\n';
    if (ftruncate(fd, round % 3 == 0 ? 0 : (off_t) (round % 9000)) == 0)
        (void) !pwrite(fd, text, sizeof(text), (off_t) (round % 700));
}

static void *race(void *cookie)
{
    struct racer *racer = cookie;
    struct world *w = racer->w;

    for (unsigned long round = 0; !atomic_load(&racer->is_over); round++) {
        exchange(w, "delta/data/d", "hostile-dir");     /* a directory becomes a link to one outside */
        exchange(w, "delta/data/f", "hostile-link");    /* a file becomes a link to one outside */
        exchange(w, "delta/data/pipe", "hostile-pipe"); /* or something that whoever opens it waits for */
        exchange(w, "base/d", "hostile-base");
        exchange(w, "base/f", "hostile-base-link");
        exchange(w, "delta/data/gone", "hostile-gone");
        scribble(w, "delta/data/grows", round);
        scribble(w, "base/grows", round * 7);
        exchange(w, "delta/data/f", "delta/data/grows");
        (void) renameat(w->f.fd, "delta/data/moves", w->f.fd, "delta/data/d/moves");
        (void) renameat(w->f.fd, "delta/data/d/moves", w->f.fd, "delta/data/moves");
        atomic_fetch_add(&racer->swaps, 1);
    }
    return NULL;
}

static void set_up(struct world *w)
{
    static const char *const files[] = { "d/in", "f", "pipe", "gone/a", "grows", "moves", "gone/deleted" };

    assert_int_equal(mkdirat(w->f.fd, "outside", 0755), 0);
    put_file(&w->f, "outside/in", SECRET);
    put_file(&w->f, "outside/file", SECRET);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        base_put(w, files[i], "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    agent_begin(w);
    for (size_t i = 0; i + 1 < ARRAY_LEN(files); i++)
        agent_write(w, files[i], "1\n2\nthree\n4\n5\n6\n7\n8\n9\nten\n");
    agent_unlink(w, "gone/deleted");
    agent_create(w, "added", "added\n", 0644);
    agent_end(w);
    assert_int_equal(symlinkat("../../outside", w->f.fd, "hostile-dir"), 0);
    assert_int_equal(symlinkat("../../outside/file", w->f.fd, "hostile-link"), 0);
    assert_int_equal(symlinkat("../outside", w->f.fd, "hostile-base"), 0);
    assert_int_equal(symlinkat("../outside/file", w->f.fd, "hostile-base-link"), 0);
    assert_int_equal(mkfifoat(w->f.fd, "hostile-pipe", 0644), 0);
    put_file(&w->f, "hostile-gone", "a file where a directory was\n");
}

static void assert_no_secret(const void *bytes, size_t len)
{
    if (len > 0 && memmem(bytes, len, SECRET, strlen(SECRET)))
        fail_msg("something outside was read");
}

static void assert_hash_is_of(const struct file_change *change, const struct blob *now)
{
    uint8_t expected[CHANGE_HASH_BYTES];
    struct sha256_ctx sha;
    char head[16] = { 0 };

    if (!S_ISREG(now->mode) || !change->is_hashed)
        return;
    snprintf(head, sizeof(head), "1 f %04o", (unsigned) change->new_mode & 0777);
    sha256_init(&sha);
    sha256_update(&sha, sizeof(head), (const uint8_t *) head);
    sha256_update(&sha, now->bytes.len, (const uint8_t *) now->bytes.data);
    sha256_digest(&sha, sizeof(expected), expected);
    assert_memory_equal(expected, change->hash, sizeof(expected));
}

static void assert_hunks_make(const struct file_diff *diff)
{
    bool chosen[64];
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;

    if (diff->hunks.count == 0)
        return;
    assert_true(diff->hunks.count <= ARRAY_LEN(chosen));
    memset(chosen, true, sizeof(chosen));
    assert_int_equal(hunk_list_pick(diff->was.bytes.data, diff->was.bytes.len, diff->now.bytes.data, diff->now.bytes.len,
                                    &diff->hunks, chosen, &out, &err),
                     0);
    assert_int_equal(out.len, diff->now.bytes.len);
    if (out.len > 0)
        assert_memory_equal(out.data, diff->now.bytes.data, out.len);
}

static int look(const void *bytes, size_t len, void *cookie)
{
    (void) cookie;
    assert_no_secret(bytes, len);
    return 0;
}

static void attempt(struct world *w, bool with_patch, size_t *shown, size_t *failed)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct change_set_options options = { 0 };
    struct err err = ERR_NONE;

    if (change_set_load(w->delta, &options, &set, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < set.count; i++) {
        autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
        if (file_diff_make(&set, &set.items[i], &diff, &err) < 0)
            fail_msg("%s", err.text);
        assert_no_secret(diff.now.bytes.data, diff.now.bytes.len);
        assert_no_secret(diff.was.bytes.data, diff.was.bytes.len);
        assert_hash_is_of(&set.items[i], &diff.now);
        assert_hunks_make(&diff);
        *failed += set.items[i].failure != 0;
        *shown += set.items[i].failure == 0;
    }
    if (with_patch) {
        int r = patch_write(&set, NULL, 0, look, NULL, NULL, &err);
        assert_true(r == 0 || r == -ESTALE);
    }
}

static void nothing_outside_is_read_whatever_is_swapped(void **state)
{
    struct world *w = *state;
    struct racer racer = { .w = w };
    size_t attempts = full_or_share(100000, 2000), shown = 0, failed = 0;
    pthread_t thread;

    set_up(w);
    assert_int_equal(pthread_create(&thread, NULL, race, &racer), 0);
    for (size_t i = 0; i < attempts; i++)
        attempt(w, i % 8 == 0, &shown, &failed);
    atomic_store(&racer.is_over, true);
    pthread_join(thread, NULL);
    print_message("%zu attempts, %lu rounds of the other, %zu files shown, %zu not\n", attempts, atomic_load(&racer.swaps),
                  shown, failed);
    /* Both happened, or it was no race. */
    assert_true(shown > 0);
    assert_true(failed > 0);
    assert_true(atomic_load(&racer.swaps) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(nothing_outside_is_read_whatever_is_swapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
