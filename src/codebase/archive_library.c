#include "codebase/archive_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define LIBRARY "libarchive.so.13"

static struct {
    pthread_once_t once;
    char *failure; /* why it could not be loaded */
    struct archive_library functions;
} library = { .once = PTHREAD_ONCE_INIT };

/* POSIX has a function pointer fit into what dlsym() gives; C does not, so it is copied. */
static bool find_function(void *handle, const char *name, void *ret_function)
{
    void *found = dlsym(handle, name);

    memcpy(ret_function, &found, sizeof(found));
    return found;
}

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool found = handle;

#define X(name) found = found && find_function(handle, #name, &library.functions.name);
    ARCHIVE_FUNCTIONS(X)
#undef X
    if (found)
        return;
    const char *reason = dlerror();
    library.failure = xdup(reason ? reason : "it lacks a function");
}

const struct archive_library *archive_library_get(struct err *err)
{
    pthread_once(&library.once, load);
    if (!library.failure)
        return &library.functions;
    err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "archives need the library %s: %s", LIBRARY, library.failure);
    return NULL;
}
