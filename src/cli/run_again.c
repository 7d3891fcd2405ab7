#include "cli/run_again.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "sandbox/sandbox_dir.h"

#define LOCK_TRIES 25 /* 20 ms apart */

int run_refuse_running(const char *name, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                   "sandbox '%s' is running; wait for its command, or stop it with 'agentfense stop %s'", name, name);
}

int run_refuse_deleted(const char *name, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox '%s' is deleted; 'agentfense restore %s' brings it back", name, name);
}

static void replace_mounts(struct sandbox_spec *spec, const struct sandbox_spec *given)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        free(spec->mounts[i].src);
        free(spec->mounts[i].dst);
    }
    spec->mount_count = 0;
    for (size_t i = 0; i < given->mount_count; i++)
        sandbox_spec_add_mount(spec, given->mounts[i].src, given->mounts[i].dst, given->mounts[i].read_only);
}

/* 0 means that the option was not given, because no limit may be 0. */
static void apply(const struct run_options *o, struct sandbox_spec *spec)
{
    const struct sandbox_spec *given = o->spec;

    if (o->sets_net)
        spec->net = given->net;
    if (given->mount_count > 0)
        replace_mounts(spec, given);
    if (given->memory_bytes)
        spec->memory_bytes = given->memory_bytes;
    if (given->cpu_quota_us)
        spec->cpu_quota_us = given->cpu_quota_us;
    if (given->cpu_shares)
        spec->cpu_shares = given->cpu_shares;
    if (given->pids)
        spec->pids = given->pids;
    if (given->quota_bytes)
        spec->quota_bytes = given->quota_bytes;
    if (given->quota_inodes)
        spec->quota_inodes = given->quota_inodes;
}

/* The supervisor of a killed 'agentfense run' takes a moment to end. Waits as long for the lock as a new supervisor does. */
static int lock_when_ended(int dir_fd, int *ret_fd)
{
    int r = sandbox_dir_lock(dir_fd, ret_fd);

    for (int i = 0; r == -EBUSY && i < LOCK_TRIES; i++)
        r = sandbox_dir_lock(dir_fd, ret_fd);
    return r;
}

int run_again_change(const struct run_options *options, int dir_fd, const char *name, struct sandbox_spec **ret_before,
                     struct err *err)
{
    autoptr(sandbox_spec) before = NULL;
    autoptr(sandbox_spec) spec = NULL;
    autofd int lock = -1;
    int r;

    *ret_before = NULL;
    if (!options->changes_sandbox)
        return 0;
    r = lock_when_ended(dir_fd, &lock);
    if (r < 0)
        return r == -EBUSY ? run_refuse_running(name, err) : err_errno(err, r, "locking sandbox '%s'", name);
    r = sandbox_spec_load(dir_fd, &before, err);
    if (r == 0)
        r = sandbox_spec_load(dir_fd, &spec, err);
    if (r != 0)
        return r;
    apply(options, spec);
    r = sandbox_spec_store(dir_fd, spec, true, err);
    if (r == 0)
        *ret_before = steal_ptr(&before);
    return r;
}

void run_again_restore(int dir_fd, const struct sandbox_spec *before)
{
    struct err err = ERR_NONE;
    autofd int lock = -1;
    int r = sandbox_dir_lock(dir_fd, &lock);

    if (r == 0)
        r = sandbox_spec_store(dir_fd, before, true, &err);
    else
        err_errno(&err, r, "locking it");
    if (r < 0)
        fprintf(stderr, "agentfense run: the sandbox keeps the options with which it could not start: %s\n", err.text);
}
