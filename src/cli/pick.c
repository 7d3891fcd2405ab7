#include "cli/pick.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "review/approve.h"

static int find(const char *name, struct pick *pick, struct err *err)
{
    int r = state_dir_open(false, &pick->state_dir, err);

    /* No directory for sandboxes yet: there are none. */
    if (r == -ENOENT && sandbox_name_is_valid(name))
        return err_set(err, ERR_NOT_FOUND, r, "there is no sandbox '%s'; 'agentfense ls' lists them", name);
    return r < 0 ? r : state_dir_find(&pick->state_dir, name, pick->id, &pick->dir_fd, err);
}

int pick_refuse_deleted(const char *name, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox '%s' is deleted; 'agentfense restore %s' brings it back", name, name);
}

int pick_open(const char *name, struct pick *ret, struct err *err)
{
    autodone(pick) struct pick pick = PICK_NONE;
    int r = find(name, &pick, err);

    if (r < 0)
        return r;
    if (sandbox_dir_is_deleted(pick.dir_fd))
        return pick_refuse_deleted(name, err);
    r = sandbox_spec_load(pick.dir_fd, &pick.spec, err);
    state_dir_show_name(&pick.state_dir, pick.id, pick.spec, pick.name);
    if (r < 0)
        return err_wrap(err, r, "sandbox '%s'", pick.name);
    pick.delta_path = state_dir_path(&pick.state_dir, pick.id, "delta");
    pick.has_delta = faccessat(pick.dir_fd, "delta/meta/format", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    *ret = pick;
    pick = PICK_NONE;
    return 0;
}

void pick_done(struct pick *pick)
{
    state_dir_done(&pick->state_dir);
    cleanup_fd(&pick->dir_fd);
    sandbox_spec_free(pick->spec);
    free(pick->delta_path);
    *pick = PICK_NONE;
}

int pick_refuse_running(const char *name, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                   "sandbox '%s' is running; wait for its command, or stop it with 'agentfense stop %s'", name, name);
}

int pick_lock(const struct pick *pick, int *ret_lock_fd, struct err *err)
{
    int r = sandbox_dir_lock(pick->dir_fd, ret_lock_fd);

    if (r == -EBUSY)
        return pick_refuse_running(pick->name, err);
    return r < 0 ? err_errno(err, r, "locking sandbox '%s'", pick->name) : 0;
}

void pick_settle(const struct pick *pick)
{
    autofd int lock = -1;

    /* Who has the sandbox has this to do as well. */
    if (pick->has_delta && sandbox_dir_lock(pick->dir_fd, &lock) == 0)
        approve_recover(pick->delta_path, false, NULL, NULL);
}

int pick_load_edits(const struct pick *pick, const char *const *paths, size_t path_count, struct edit_list *ret,
                    struct err *err)
{
    if (pick->has_delta)
        return edit_list_load(pick->delta_path, paths, path_count, ret, err);
    *ret = EDIT_LIST_EMPTY;
    return 0;
}
