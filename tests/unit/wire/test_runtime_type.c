/* Every row of the table, by its name, by its number, and in the file that describes a sandbox. */
#include "fixture.h"

#include "base/mem.h"
#include "wire/runtime_type.h"
#include "wire/sandbox_spec.h"

#define ROW(type_name, number, scope, ...) { .name = #type_name, .api_number = (number), .mount_scope = (scope), __VA_ARGS__ },

static const struct runtime_type rows[] = { RUNTIME_TYPES(ROW) };

static void a_row_is_found_by_its_name_and_its_number(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct runtime_type *type = runtime_type_find(rows[i].name);

        assert_non_null(type);
        assert_string_equal(type->name, rows[i].name);
        assert_int_equal(type->mount_scope, rows[i].mount_scope);
        assert_int_not_equal(type->api_number, 0);
        assert_ptr_equal(runtime_type_of_number(rows[i].api_number), type);
        assert_int_equal(runtime_type_is_offered(rows[i].api_number), !rows[i].is_for_tests);
    }
    assert_null(runtime_type_find("chroot"));
    assert_null(runtime_type_find(""));
}

static void people_choose_among_those_that_are_not_for_tests(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct runtime_type *type = NULL;
        struct err err = ERR_NONE;
        int r = runtime_type_parse(rows[i].name, &type, &err);

        assert_int_equal(r, rows[i].is_for_tests ? -EINVAL : 0);
        assert_ptr_equal(type, r == 0 ? runtime_type_find(rows[i].name) : NULL);
    }
}

static void what_is_not_known_is_the_default_and_not_offered(void **state)
{
    const struct runtime_type *usual = runtime_type_default(false);

    (void) state;
    assert_string_equal(usual->name, RUNTIME_TYPE_DEFAULT);
    assert_false(usual->needs_image || usual->is_for_tests);
    assert_true(runtime_type_default(true)->needs_image);
    assert_ptr_equal(runtime_type_of_number(0), usual);
    assert_ptr_equal(runtime_type_of_number(-1), usual);
    assert_true(runtime_type_is_offered(0));
    assert_false(runtime_type_is_offered(-1));
    assert_false(runtime_type_is_offered(99));
}

static void a_spec_of_each_survives_and_needs_an_image_if_its_row_says_so(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int has_image = 0; has_image < 2; has_image++) {
            struct sandbox_spec spec = { .name = (char[]){ "shop" },
                                         .base_path = (char[]){ "/srv/shop" },
                                         .runtime = (char *) rows[i].name,
                                         .image = has_image ? (char[]){ "debian:12" } : (char[]){ "" } };
            autoptr(sandbox_spec) got = NULL;
            autodone(buf) struct buf bytes = BUF_EMPTY;
            struct err err = ERR_NONE;
            int r;

            sandbox_spec_encode(&spec, &bytes);
            r = sandbox_spec_decode(bytes.data, bytes.len, &got, &err);
            assert_int_equal(r == 0, has_image || !rows[i].needs_image);
            assert_int_equal(sandbox_spec_is_container(&spec), rows[i].needs_image);
            if (r == 0)
                assert_ptr_equal(runtime_type_find(got->runtime), runtime_type_find(rows[i].name));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_found_by_its_name_and_its_number),
        cmocka_unit_test(people_choose_among_those_that_are_not_for_tests),
        cmocka_unit_test(what_is_not_known_is_the_default_and_not_offered),
        cmocka_unit_test(a_spec_of_each_survives_and_needs_an_image_if_its_row_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
