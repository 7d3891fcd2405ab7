#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int library_load(const char *file, const char *package, const struct library_symbol *symbols, size_t count, struct err *err)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "cannot load %s (%s); install the package %s", file, dlerror(),
                       package);
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found)
            return err_set(err, ERR_FAILED_PRECONDITION, -ENOSYS, "%s is too old: it has no %s; install a newer package %s",
                           file, symbols[i].name, package);
        /* POSIX guarantees that a function pointer fits into the result of dlsym(); C does not allow the cast, so the bytes are
         * copied. */
        memcpy(symbols[i].ret, &found, sizeof(found));
    }
    return 0;
}
