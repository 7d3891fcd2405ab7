#include "review/libgit.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define LIBRARY "libgit2.so." LIBGIT2_SOVERSION

static struct {
    pthread_once_t once;
    char *failure; /* why it could not be loaded */
    struct libgit functions;
} state = { .once = PTHREAD_ONCE_INIT };

/* POSIX has a function pointer fit into what dlsym() gives; C does not, so it is copied. */
static bool find_function(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);

    memcpy(ret_function, &found, sizeof(found));
    return found;
}

/* A repository's own configuration is read, because it says how its files are kept; nobody else's is. Whose it is does not matter:
 * that check is there for programs which run what a repository names, and nothing here does. */
static void forget_others(void)
{
    static const int levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_GLOBAL, GIT_CONFIG_LEVEL_XDG,
                                  GIT_CONFIG_LEVEL_PROGRAMDATA };

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        state.functions.git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    state.functions.git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
}

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool found = library;

#define X(name) found = found && find_function(library, #name, &state.functions.name);
    LIBGIT_FUNCTIONS(X)
#undef X
    if (found && state.functions.git_libgit2_init() >= 0) {
        forget_others();
        return;
    }
    const char *reason = dlerror();
    state.failure = xdup(reason ? reason : "it does not start");
}

int libgit_get(const struct libgit **ret, struct err *err)
{
    pthread_once(&state.once, load);
    if (state.failure)
        return err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "this needs the library %s: %s", LIBRARY, state.failure);
    *ret = &state.functions;
    return 0;
}

int libgit_failed(const struct libgit *git, const char *doing, struct err *err)
{
    const git_error *e = git->git_error_last();

    return err_set(err, ERR_INTERNAL, -EIO, "%s: %s", doing, e && e->message ? e->message : "libgit2 failed");
}
