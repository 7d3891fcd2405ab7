#include "codebase/archive_library.h"

#include <errno.h>
#include <pthread.h>

#include "base/library.h"
#include "base/mem.h"

static struct {
    pthread_once_t once;
    int r; /* result of loading; on failure `err` has the reason */
    struct err err;
    struct archive_library functions;
} state = { .once = PTHREAD_ONCE_INIT };

static void load_archive_library(void)
{
    const struct library_symbol symbols[] = {
#define X(name) { #name, &state.functions.name },
        ARCHIVE_FUNCTIONS(X)
#undef X
    };

    state.r = library_load("libarchive.so.13", "libarchive13", symbols, ARRAY_LEN(symbols), &state.err);
}

const struct archive_library *archive_library_get(struct err *err)
{
    pthread_once(&state.once, load_archive_library);
    if (state.r == 0)
        return &state.functions;
    err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "%s", state.err.text);
    return NULL;
}
