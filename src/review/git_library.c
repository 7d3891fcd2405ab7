#include "review/git_library.h"

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
    struct git_library functions;
} loaded = { .once = PTHREAD_ONCE_INIT };

/* POSIX has a function pointer fit into what dlsym() gives; C does not, so it is copied. */
static bool find_function(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);

    memcpy(ret_function, &found, sizeof(found));
    return found;
}

static void load(void)
{
    struct git_library *git = &loaded.functions;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool found = library;

    found = found && find_function(library, "git_libgit2_init", &git->git_libgit2_init);
    found = found && find_function(library, "git_error_last", &git->git_error_last);
    found = found && find_function(library, "git_diff_options_init", &git->git_diff_options_init);
    found = found && find_function(library, "git_diff_buffers", &git->git_diff_buffers);
    if (found && git->git_libgit2_init() >= 0)
        return;
    const char *reason = dlerror();
    loaded.failure = xdup(reason ? reason : "it does not start");
}

const struct git_library *git_library_get(struct err *err)
{
    pthread_once(&loaded.once, load);
    if (!loaded.failure)
        return &loaded.functions;
    err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "comparing needs the library %s: %s", LIBRARY, loaded.failure);
    return NULL;
}

int git_library_failed(const struct git_library *git, struct err *err)
{
    const git_error *e = git->git_error_last();

    return err_set(err, ERR_INTERNAL, -EIO, "comparing: %s", e ? e->message : "libgit2 failed");
}
