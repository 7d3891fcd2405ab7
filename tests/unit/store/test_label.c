#include "store/label.h"

#include "fixture.h"

#include <unistd.h>

static void whatever_goes_in_comes_out(void **state)
{
    static const char *const texts[] = { "", "a", "\033", "\036", "\037", "\033^", "[\\]^_", "a\036\037\033b", "\xc3\xa9" };
    autodone(label_list) struct label_list in = { 0 }, out = { 0 };
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        for (size_t j = 0; j < ARRAY_LEN(texts); j++)
            label_list_add(&in, texts[i], texts[j]);
    }
    label_list_add_text(&in, &text);
    assert_int_equal(label_list_parse(text.data, text.len, &out), 0);
    assert_int_equal(out.count, in.count);
    for (size_t i = 0; i < in.count; i++) {
        assert_string_equal(out.items[i].key, in.items[i].key);
        assert_string_equal(out.items[i].value, in.items[i].value);
    }
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const texts[] = { "a", "\036", "\036a", "\036a\037", "\036a\037b", "\036a\037b\036c" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        autodone(label_list) struct label_list out = { 0 };
        assert_int_equal(label_list_parse(texts[i], strlen(texts[i]), &out), -EUCLEAN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_goes_in_comes_out),
        cmocka_unit_test(what_is_no_list_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
