#include "fence_fixture.h"

#include "fence/whiteout.h"

static void markers_are_reserved_names(void **state)
{
    (void) state;
    assert_true(whiteout_is_reserved(".wh.a"));
    assert_true(whiteout_is_reserved(".wh."));
    assert_true(whiteout_is_reserved(WHITEOUT_OPAQUE));
    assert_false(whiteout_is_reserved(".wh"));
    assert_false(whiteout_is_reserved("a.wh.b"));
}

static void a_name_comes_back_from_its_marker(void **state)
{
    struct fixture x;
    char marker[NAME_MAX + 1], back[NAME_MAX + 1], name[NAME_MAX + 1];
    const char *const rules[] = { "/**=write", NULL };

    (void) state;
    fixture_init(&x);
    fixture_open(&x, rules, 0);
    for (size_t len = 1; len <= NAME_MAX; len++) {
        memset(name, 'n', len);
        name[0] = (char) 0xff;
        name[len] = 0;
        assert_int_equal(whiteout_create(x.fence, x.fence->data_fd, name), 0);
        assert_int_equal(whiteout_create(x.fence, x.fence->data_fd, name), 0);
        whiteout_name(name, marker);
        assert_true(strlen(marker) <= NAME_MAX && whiteout_is_reserved(marker));
        assert_true(whiteout_target(x.fence->data_fd, marker, back));
        assert_string_equal(back, name);
        assert_int_equal(whiteout_remove(x.fence->data_fd, name), 0);
        assert_int_equal(whiteout_remove(x.fence->data_fd, name), 0);
    }
    fixture_done(&x);
}

static void other_files_are_no_markers(void **state)
{
    struct fixture x;
    char back[NAME_MAX + 1];

    (void) state;
    fixture_init(&x);
    put_file(&x, WHITEOUT_OPAQUE, "");
    put_file(&x, WHITEOUT_HASHED "0000", "a name that does not belong to this hash");
    assert_false(whiteout_target(x.fd, WHITEOUT_OPAQUE, back));
    assert_false(whiteout_target(x.fd, WHITEOUT_HASHED "0000", back));
    assert_false(whiteout_target(x.fd, "plain", back));
    assert_false(whiteout_target(x.fd, ".wh.", back));
    assert_false(whiteout_target(x.fd, ".wh..", back));
    assert_false(whiteout_target(x.fd, ".wh...", back));
    assert_true(whiteout_is_opaque(x.fd));
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markers_are_reserved_names),
        cmocka_unit_test(a_name_comes_back_from_its_marker),
        cmocka_unit_test(other_files_are_no_markers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
