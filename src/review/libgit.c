#include "review/libgit.h"

#include <errno.h>
#include <pthread.h>

#include "base/library.h"
#include "base/mem.h"

#define LIBRARY "libgit2.so." LIBGIT2_SOVERSION

static struct {
    pthread_once_t once;
    int r; /* the result of loading; `err` has the reason of a failure */
    struct err err;
    struct libgit functions;
} state = { .once = PTHREAD_ONCE_INIT };

/* Only the repository's own configuration is read, because it defines how its files are stored. The ownership check is off:
 * it protects programs that run commands from a repository's configuration, and we run none. */
static void forget_other_configs(void)
{
    static const int levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_GLOBAL, GIT_CONFIG_LEVEL_XDG,
                                  GIT_CONFIG_LEVEL_PROGRAMDATA };

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        state.functions.git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    state.functions.git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
}

static void load_libgit(void)
{
    const struct library_symbol symbols[] = {
#define X(name) { #name, &state.functions.name },
        LIBGIT_FUNCTIONS(X)
#undef X
    };

    state.r = library_load(LIBRARY, "libgit2-" LIBGIT2_SOVERSION, symbols, ARRAY_LEN(symbols), &state.err);
    if (state.r == 0 && state.functions.git_libgit2_init() < 0)
        state.r = err_set(&state.err, ERR_UNIMPLEMENTED, -ENOSYS, "%s does not start", LIBRARY);
    if (state.r == 0)
        forget_other_configs();
}

int libgit_get(const struct libgit **ret, struct err *err)
{
    pthread_once(&state.once, load_libgit);
    if (state.r < 0)
        return err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "%s", state.err.text);
    *ret = &state.functions;
    return 0;
}

int libgit_failed(const struct libgit *git, const char *doing, struct err *err)
{
    const git_error *e = git->git_error_last();

    return err_set(err, ERR_INTERNAL, -EIO, "%s: %s", doing, e && e->message ? e->message : "libgit2 failed");
}
