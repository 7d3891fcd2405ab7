#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

/* Relative to the directory of the running program. In a build tree each program is in the directory of its module. */
static const char *const places[] = { ".",      "../libexec/agentfense", "../supervisor", "../init", "../server",
                                      "../cli", "../container" };

int program_find(const char *name, char **ret_path, struct err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n < 0)
        return err_errno(err, -errno, "finding our own program");
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i <= ARRAY_LEN(places); i++) {
        autofree char *path =
            i < ARRAY_LEN(places) ? xprintf("%s/%s/%s", self, places[i], name) : xprintf("%s/%s", AGENTFENSE_LIBEXEC, name);
        if (access(path, X_OK) == 0) {
            *ret_path = realpath(path, NULL);
            return *ret_path ? 0 : err_errno(err, -errno, "'%s'", path);
        }
    }
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "the program '%s' is not installed; 'make install' installs it", name);
}
