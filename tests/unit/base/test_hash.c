#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

/* As published with the function. */
static void known_texts_have_known_hashes(void **state)
{
    (void) state;
    assert_true(hash_text("") == UINT64_C(0xcbf29ce484222325));
    assert_true(hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

static void pieces_are_as_the_whole(void **state)
{
    (void) state;
    assert_true(hash_add(hash_add(HASH_START, "foo", 3), "bar", 3) == hash_text("foobar"));
    assert_true(hash_add(HASH_START, "\0", 1) != HASH_START);
    assert_true(hash_add(HASH_START, "\377", 1) != hash_add(HASH_START, "\177", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_known_hashes),
        cmocka_unit_test(pieces_are_as_the_whole),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
