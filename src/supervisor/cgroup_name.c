#include "supervisor/cgroup_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* FNV-1a. Nobody gains by a collision: both homes are root's or the same user's. */
static uint32_t add(uint32_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *) bytes)[i]) * 16777619u;
    return hash;
}

/* Of the directory itself too: containers that share a cgroup tree have the same paths for different homes. */
static uint32_t mark_of(const char *home_path)
{
    uint32_t hash = add(2166136261u, home_path, strlen(home_path));
    struct stat st;

    if (stat(home_path, &st) < 0)
        return hash;
    hash = add(hash, &st.st_dev, sizeof(st.st_dev));
    return add(hash, &st.st_ino, sizeof(st.st_ino));
}

void cgroup_name_make(const char *home_path, const char *sandbox, char out[CGROUP_NAME_MAX])
{
    snprintf(out, CGROUP_NAME_MAX, "%08x-%s", mark_of(home_path), sandbox);
}

const char *cgroup_name_sandbox(const char *home_path, const char *name)
{
    char mark[CGROUP_NAME_MAX];

    cgroup_name_make(home_path, "", mark);
    if (strncmp(name, mark, CGROUP_NAME_MARK) != 0 || !sandbox_name_is_valid(name + CGROUP_NAME_MARK))
        return NULL;
    return name + CGROUP_NAME_MARK;
}
