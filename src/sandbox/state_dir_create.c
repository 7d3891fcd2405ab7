/* Makes the name of a sandbox, and creates its directory so that it appears complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sandbox_id.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/state_dir_int.h"

#define NAME_TRIES 16
#define SUFFIX_LETTERS 4
#define SWEEP_AFTER_SEC 60

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* "shop-x3kf" for /home/me/shop. Characters that names may not contain become a dash; dashes do not repeat. */
static char *make_name(const char *base_path)
{
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789"; /* 32, without those that look alike */
    char name[SANDBOX_NAME_MAX];
    unsigned char random[SUFFIX_LETTERS] = { 0 };
    size_t len = 0, end = strlen(base_path), start;

    while (end > 0 && base_path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && base_path[start - 1] != '/';)
        start--;
    for (; start < end && len < sizeof(name) - 2 - SUFFIX_LETTERS; start++) {
        char c = base_path[start];
        if (!is_name_char(c))
            c = '-';
        if (len == 0 ? c != '-' && c != '.' : c != '-' || name[len - 1] != '-')
            name[len++] = c;
    }
    while (len > 0 && name[len - 1] == '-')
        len--;
    if (len == 0)
        len = (size_t) snprintf(name, sizeof(name), "sandbox");
    name[len++] = '-';
    if (id_random(random, sizeof(random)) < 0)
        abort();
    for (size_t i = 0; i < SUFFIX_LETTERS; i++)
        name[len++] = letters[random[i] % (sizeof(letters) - 1)];
    return xdupn(name, len);
}

/* Removes a directory that a crash left under a temporary name. While one is being created or removed it is locked, except in its first
 * moments. */
static void sweep_one(struct state_dir *state_dir, const char *temp)
{
    autofd int fd = path_open_beneath(state_dir->sandboxes_fd, temp, O_PATH | O_DIRECTORY, 0), lock = -1;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || clock_wall_ns() / CLOCK_NS_PER_SEC - st.st_mtime < SWEEP_AFTER_SEC)
        return;
    if (sandbox_dir_lock(fd, &lock) == 0)
        file_remove_tree(state_dir->sandboxes_fd, temp);
}

static void sweep(struct state_dir *state_dir)
{
    autodirectory dir = directory_open(state_dir->sandboxes_fd);

    for (const struct dirent *d; (d = directory_next(dir));) {
        if (id_is_valid(FILE_TEMP_PREFIX, d->d_name))
            sweep_one(state_dir, d->d_name);
    }
}

static int make_temp(struct state_dir *state_dir, char temp[ID_TEXT_MAX], int *ret_dir_fd, int *ret_lock_fd)
{
    int r;

    id_new(FILE_TEMP_PREFIX, temp);
    if (mkdirat(state_dir->sandboxes_fd, temp, 0700) < 0)
        return -errno;
    r = path_open_beneath(state_dir->sandboxes_fd, temp, O_RDONLY | O_DIRECTORY, 0);
    if (r < 0)
        return r;
    *ret_dir_fd = r;
    return sandbox_dir_lock(*ret_dir_fd, ret_lock_fd);
}

static bool has_name(const struct sandbox_spec *spec)
{
    return spec->name && *spec->name;
}

static int claim_new_name(struct state_dir *state_dir, struct sandbox_spec *spec, bool lasts, struct err *err)
{
    int r = -EEXIST;

    for (int i = 0; i < NAME_TRIES && r == -EEXIST; i++) {
        free(spec->name);
        spec->name = make_name(spec->base_path ? spec->base_path : "");
        r = sandbox_names_claim(state_dir, spec->owner, spec->name, spec->id, lasts, err);
    }
    return r;
}

/* Writes the spec into the directory and renames the directory to its own name: now the sandbox exists. A plain rename() cannot replace an
 * existing sandbox, because its directory is never empty. */
static int put_in_place(struct state_dir *state_dir, const char *temp, int dir_fd, const struct sandbox_spec *spec, bool lasts,
                        struct err *err)
{
    int r = sandbox_spec_store(dir_fd, spec, lasts, err);

    if (r < 0)
        return r;
    fault("sandbox_spec_written");
    if (renameat(state_dir->sandboxes_fd, temp, state_dir->sandboxes_fd, spec->id) < 0)
        r = errno == ENOTEMPTY || errno == ENOTDIR ? -EEXIST : -errno;
    else if (lasts)
        r = file_fsync_dir(state_dir->sandboxes_fd);
    if (r == -EEXIST)
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a sandbox '%s' already", spec->id);
    return r < 0 ? err_errno(err, r, "making sandbox '%s'", spec->id) : 0;
}

static int name_and_place(struct state_dir *state_dir, const char *temp, int dir_fd, struct sandbox_spec *spec, bool lasts,
                          bool wants_name, struct err *err)
{
    autofd int names_lock = -1;
    int r = has_name(spec) || wants_name ? sandbox_names_lock(state_dir, &names_lock, err) : 0;

    if (r == 0 && has_name(spec))
        r = sandbox_names_claim(state_dir, spec->owner, spec->name, spec->id, lasts, err);
    else if (r == 0 && wants_name)
        r = claim_new_name(state_dir, spec, lasts, err);
    if (r < 0)
        return r;
    fault("sandbox_name_claimed");
    r = put_in_place(state_dir, temp, dir_fd, spec, lasts, err);
    if (r < 0 && has_name(spec))
        sandbox_names_release(state_dir, spec->owner, spec->name, spec->id);
    return r;
}

/* A caller that does not know about names may pass the id as the name. */
static void settle_id(struct sandbox_spec *spec)
{
    char id[SANDBOX_ID_MAX];

    if (spec->id && *spec->id)
        return;
    free(spec->id);
    if (spec->name && sandbox_spec_id_is_valid(spec->name)) {
        spec->id = steal_ptr(&spec->name);
        return;
    }
    sandbox_id_new(id);
    spec->id = xdup(id);
}

int state_dir_create(struct state_dir *state_dir, struct sandbox_spec *spec, bool lasts, int *ret_dir_fd, struct err *err)
{
    bool wants_name = !spec->id && !spec->name;
    char temp[ID_TEXT_MAX];
    autofd int dir_fd = -1, lock = -1;
    int r;

    settle_id(spec);
    if (has_name(spec) && (!sandbox_name_is_valid(spec->name) || sandbox_spec_id_is_valid(spec->name)))
        return state_dir_refuse_name(spec->name, err);
    sweep(state_dir);
    r = make_temp(state_dir, temp, &dir_fd, &lock);
    if (r < 0)
        err_errno(err, r, "making a sandbox in '%s/sandboxes'", state_dir->path);
    else
        r = name_and_place(state_dir, temp, dir_fd, spec, lasts, wants_name, err);
    if (r < 0) {
        file_remove_tree(state_dir->sandboxes_fd, temp);
        return r;
    }
    *ret_dir_fd = steal_fd(&dir_fd);
    return 0;
}
