#include "codebase_fixture.h"

#include "codebase/manifest.h"

static struct manifest_entry *add(struct manifest *m, enum manifest_op op, const char *path)
{
    struct manifest_entry *e = manifest_add(m);

    e->op = op;
    e->path = xdup(path);
    e->object = (unsigned) m->count;
    e->when_ns = -5;
    return e;
}

static void fill(struct manifest *m)
{
    struct manifest_entry *e;

    m->version = 7;
    m->time_ns = 1234567890123456789;
    m->by = xdup("sb_1 exec 2\n%");
    e = add(m, MANIFEST_PUT, "d/a b\n%\xff\xc3\xbc");
    e->new_kind = TREE_FILE;
    e->old_kind = TREE_LINK;
    e->new_bytes = 10;
    e->new_files = 1;
    e->old_bytes = 4;
    e->old_files = 1;
    e->is_conflict = true;
    e->sha256 = xdup("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    e->source = xdup("/some/delta dir/-");
    e->src_ino = 99;
    e->src_mtime_ns = 17;
    e = add(m, MANIFEST_REMOVE, "-");
    e->old_kind = TREE_DIR;
    e->old_bytes = 3;
    e->old_files = 2;
    e = add(m, MANIFEST_LOST, "..lost");
    e->new_kind = TREE_FILE;
    e->new_bytes = 100;
    e->is_conflict = true;
}

static void a_manifest_is_read_as_it_was_written(void **state)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY, got = MANIFEST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY, again = BUF_EMPTY;

    (void) state;
    fill(&m);
    manifest_format(&m, &text);
    assert_int_equal(manifest_parse(text.data, text.len, &got), 0);
    manifest_format(&got, &again);
    assert_string_equal(text.data, again.data);
    assert_string_equal(got.by, m.by);
    assert_null(got.reason);
    assert_string_equal(got.entries[0].path, m.entries[0].path);
    assert_string_equal(got.entries[0].source, m.entries[0].source);
    assert_string_equal(got.entries[1].path, "-");
    assert_int_equal(got.entries[0].when_ns, -5);
}

static void a_manifest_cut_anywhere_or_changed_is_refused(void **state)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    fill(&m);
    manifest_format(&m, &text);
    for (size_t len = 0; len < text.len; len++) {
        autodone(manifest) struct manifest got = MANIFEST_EMPTY;

        assert_int_equal(manifest_parse(text.data, len, &got), -EBADMSG);
    }
    buf_add_str(&text, "x\n");
    autodone(manifest) struct manifest got = MANIFEST_EMPTY;
    assert_int_equal(manifest_parse(text.data, text.len, &got), -EBADMSG);
}

static void paths_that_lead_out_are_refused(void **state)
{
    static const char *const bad[] = { "../x", "/x", "a//b", "a/", "a/../b", ".", "", "a/.wh.b" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY, got = MANIFEST_EMPTY;
        autodone(buf) struct buf text = BUF_EMPTY;

        m.version = 1;
        add(&m, MANIFEST_PUT, bad[i])->new_kind = TREE_FILE;
        manifest_format(&m, &text);
        assert_int_equal(manifest_parse(text.data, text.len, &got), -EBADMSG);
    }
}

static void counters_follow_the_entries(void **state)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    struct codebase_meta meta = { .size_bytes = 50, .file_count = 5, .undo_bytes = 1 };

    (void) state;
    fill(&m);
    manifest_count(&m, &meta);
    assert_int_equal(meta.size_bytes, 53);
    assert_int_equal(meta.file_count, 3);
    assert_int_equal(meta.undo_bytes, 108);
}

static void counters_are_read_as_they_were_written(void **state)
{
    struct codebase_meta meta = { 9, 3, 1000, 20, 300, 123456789 }, got;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    codebase_meta_format(&meta, &text);
    assert_int_equal(codebase_meta_parse(text.data, text.len, &got), 0);
    assert_memory_equal(&meta, &got, sizeof(meta));
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(codebase_meta_parse(text.data, len, &got), -EBADMSG);
    const char *const bad = "agentfense-codebase 1\nversion +9\noldest 3\nsize 1\nfiles 1\nundo 1\ntrimmed 1\nend\n";
    assert_int_equal(codebase_meta_parse(bad, strlen(bad), &got), -EBADMSG);
    const char *const odd = "agentfense-codebase 1\nversion 2\noldest 9\nsize 1\nfiles 1\nundo 1\ntrimmed 1\nend\n";
    assert_int_equal(codebase_meta_parse(odd, strlen(odd), &got), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_is_read_as_it_was_written),
        cmocka_unit_test(a_manifest_cut_anywhere_or_changed_is_refused),
        cmocka_unit_test(paths_that_lead_out_are_refused),
        cmocka_unit_test(counters_follow_the_entries),
        cmocka_unit_test(counters_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
