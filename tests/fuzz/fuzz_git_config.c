/* A git configuration that an agent wrote. What is taken of it has only keys that may be taken: taken once more, it is the same, and nothing
 * of it is dropped. */
#include "fuzz.h"

#include "base/buf.h"
#include "codebase/git_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf first = BUF_EMPTY, second = BUF_EMPTY, dropped = BUF_EMPTY;

    git_filter_config((const char *) data, size, &first, &dropped);
    buf_clear(&dropped);
    git_filter_config(first.data ? first.data : "", first.len, &second, &dropped);
    require(dropped.len == 0);
    require(first.len == second.len && (first.len == 0 || memcmp(first.data, second.data, first.len) == 0));
    return 0;
}
