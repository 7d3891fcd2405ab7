#include "supervisor/cgroup_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"

/* Hashes the directory itself besides its path, because containers that share a cgroup tree have the same paths for
 * different directories. A collision is no attack: both directories belong to root or to the same user. */
static uint32_t mark_of(const char *state_dir_path)
{
    uint64_t hash = hash_text(state_dir_path);
    struct stat st;

    if (stat(state_dir_path, &st) == 0) {
        hash = hash_add(hash, &st.st_dev, sizeof(st.st_dev));
        hash = hash_add(hash, &st.st_ino, sizeof(st.st_ino));
    }
    return (uint32_t) (hash ^ hash >> 32);
}

void cgroup_name_make(const char *state_dir_path, const char *sandbox, char out[CGROUP_NAME_MAX])
{
    snprintf(out, CGROUP_NAME_MAX, "%08x-%s", mark_of(state_dir_path), sandbox);
}

const char *cgroup_name_sandbox(const char *state_dir_path, const char *name)
{
    char mark[CGROUP_NAME_MAX];

    cgroup_name_make(state_dir_path, "", mark);
    if (strncmp(name, mark, CGROUP_NAME_MARK) != 0 || !sandbox_name_is_valid(name + CGROUP_NAME_MARK))
        return NULL;
    return name + CGROUP_NAME_MARK;
}
