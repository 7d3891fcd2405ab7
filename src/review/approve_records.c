/* The records of approvals and undos: recovery after a kill, and follow-ups that are still to be done. */
#include <errno.h>
#include <fcntl.h>

#include "base/path.h"
#include "review/approve_int.h"

int approve_recover(const char *delta_path, bool is_held, const struct apply_txn_codebase *codebase, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;

    return approve_locks_acquire(delta_path, &(struct approve_lock_options){ is_held, 0, codebase }, &locks, err);
}

/* -ENOENT: there was no approval yet. */
static int open_records_of(const char *delta_path)
{
    autofd int fd = open(delta_path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : path_open_beneath(fd, "meta/approvals", O_RDONLY | O_DIRECTORY, 0);
}

struct unfinished {
    bool has_steps, has_follow_up; /* steps in the project remain; a follow-up of the caller remains */
};

static int on_unfinished(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    struct unfinished *ret = cookie;

    (void) id;
    (void) time_ns;
    ret->has_follow_up |= state == APPLY_TXN_FOLLOW_UP;
    ret->has_steps |= state != APPLY_TXN_FOLLOW_UP && state != APPLY_TXN_FINISHED;
    return 0;
}

static int find_unfinished(const char *delta_path, struct unfinished *ret, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : apply_txn_each_unfinished(records_fd, on_unfinished, ret);

    return r < 0 && r != -ENOENT ? err_errno(err, r, "reading the records of approvals") : 0;
}

int approve_has_unfinished(const char *delta_path, struct err *err)
{
    struct unfinished found = { false, false };
    int r = find_unfinished(delta_path, &found, err);

    return r < 0 ? r : found.has_steps || found.has_follow_up;
}

struct follow_ups {
    int records_fd;
    approve_follow_up_fn fn;
    void *cookie;
    struct err *err;
};

static int on_follow_up(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    const struct follow_ups *all = cookie;
    autodone(apply_txn_record) struct apply_txn_record record = APPLY_TXN_RECORD_NONE;
    int r = state == APPLY_TXN_FOLLOW_UP ? apply_txn_read(all->records_fd, id, &record) : 0;

    (void) time_ns;
    if (r < 0)
        return err_errno(all->err, r, "reading the record of approval '%s'", id);
    return state == APPLY_TXN_FOLLOW_UP ? all->fn(id, &record, all->cookie, all->err) : 0;
}

int approve_each_follow_up(const char *delta_path, approve_follow_up_fn fn, void *cookie, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    struct err why = ERR_NONE;
    struct follow_ups all = { records_fd, fn, cookie, &why };
    int r = records_fd < 0 ? records_fd : apply_txn_each_unfinished(records_fd, on_follow_up, &all);

    if (r >= 0 || r == -ENOENT)
        return r < 0 ? 0 : r;
    if (why.code == ERR_OK)
        return err_errno(err, r, "reading the records of approvals");
    *err = why;
    return r;
}

int approve_close(const char *delta_path, const char *id, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : apply_txn_close(records_fd, id);

    return r < 0 ? err_errno(err, r, "closing the record of approval '%s'", id) : 0;
}

int approve_was_done(const char *delta_path, const char *id, struct err *err)
{
    autodone(apply_txn_record) struct apply_txn_record record = APPLY_TXN_RECORD_NONE;
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : apply_txn_read(records_fd, id, &record);

    if (r < 0)
        return r == -ENOENT ? 0 : err_errno(err, r, "reading the record of approval '%s'", id);
    return record.state == APPLY_TXN_DONE || record.state == APPLY_TXN_FOLLOW_UP || record.state == APPLY_TXN_FINISHED;
}

int approve_recover_before_delete(const char *delta_path, struct err *err)
{
    struct unfinished found = { false, false };
    int r = find_unfinished(delta_path, &found, err);

    if (r == 0)
        r = found.has_steps;

    if (r > 0)
        r = approve_recover(delta_path, false, NULL, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EBADMSG || r == -EOPNOTSUPP)
        return 0;
    return r < 0 ? err_wrap(err, r, "an approval has left something in the project") : 0;
}
