/*
 * Directories that are gone when the program ends, also when an assertion ended the test before it could remove them itself.
 */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"

static struct {
    char **dirs; /* owned, each absolute */
    size_t count;
    pid_t pid;
} leftovers;

/* A forked child may end by exit() too; what there is belongs to its parent. */
static inline void leftover_remove_all(void)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < leftovers.count; i++) {
        if (getpid() == leftovers.pid)
            file_remove_tree(root, leftovers.dirs[i] + 1);
        free(leftovers.dirs[i]);
    }
    free(leftovers.dirs);
}

static inline void leftover_add(const char *dir)
{
    if (leftovers.count == 0)
        atexit(leftover_remove_all);
    leftovers.pid = getpid();
    leftovers.dirs = xgrow(leftovers.dirs, leftovers.count + 1, sizeof(*leftovers.dirs));
    leftovers.dirs[leftovers.count++] = xdup(dir);
}
