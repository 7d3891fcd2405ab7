#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "rpc/gzip.h"

static size_t pack(const void *bytes, size_t len, uint8_t *out, size_t cap)
{
    z_stream z = { .next_in = (Bytef *) (uintptr_t) bytes, .avail_in = (uInt) len, .next_out = out, .avail_out = (uInt) cap };

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void what_was_packed_comes_out_up_to_the_limit(void **state)
{
    const size_t len = 1000000;
    uint8_t *bytes = malloc(len), *packed = malloc(len + 1000);
    (void) state;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t) (i >> 5);
    size_t packed_len = pack(bytes, len, packed, len + 1000);
    for (int more = -1; more <= 1; more++) {
        autodone(buf) struct buf out = BUF_EMPTY;
        int r = gzip_unpack(packed, packed_len, len + (size_t) more, &out);
        assert_int_equal(r, more < 0 ? -EMSGSIZE : 0);
        if (r == 0) {
            assert_int_equal(out.len, len);
            assert_memory_equal(out.data, bytes, len);
        }
    }
    free(bytes);
    free(packed);
}

static void a_bomb_takes_no_more_than_the_limit(void **state)
{
    const size_t len = 64u << 20;
    uint8_t *bytes = calloc(1, len), packed[100000];
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    size_t packed_len = pack(bytes, len, packed, sizeof(packed));
    assert_int_equal(gzip_unpack(packed, packed_len, 1u << 20, &out), -EMSGSIZE);
    assert_true(out.cap < 4u << 20);
    free(bytes);
}

static void what_is_cut_or_followed_is_refused(void **state)
{
    uint8_t packed[200];
    size_t len = pack("hello hello hello", 17, packed, sizeof(packed));
    (void) state;

    for (size_t cut = 0; cut < len; cut++) {
        autodone(buf) struct buf out = BUF_EMPTY;
        assert_int_equal(gzip_unpack(packed, cut, 100, &out), -EBADMSG);
    }
    autodone(buf) struct buf out = BUF_EMPTY;
    packed[len] = 'x';
    assert_int_equal(gzip_unpack(packed, len + 1, 100, &out), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_out_up_to_the_limit),
        cmocka_unit_test(a_bomb_takes_no_more_than_the_limit),
        cmocka_unit_test(what_is_cut_or_followed_is_refused),
    };
    return cmocka_run_group_tests_name("gzip", tests, NULL, NULL);
}
