#include "review/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn_int.h"
#include "review/approve_int.h"

#define APPROVALS "approvals"
#define COPIES "pre"

struct pruning {
    const struct prune_options *options;
    struct prune *out;
    int meta_fd, records_fd;           /* borrowed */
    struct change_log_index mentioned; /* entries whose copies are needed; unsorted, maybe several of a path */
    char **names;                      /* owned array, borrowed names: those copies, sorted */
    size_t count;
};

static int64_t changed_ns(const struct stat *st)
{
    return (int64_t) st->st_ctim.tv_sec * CLOCK_NS_PER_SEC + st->st_ctim.tv_nsec;
}

/* ---- records ---- */

static int add_bytes(const struct file_entry *entry, void *cookie)
{
    *(uint64_t *) cookie += S_ISREG(entry->st->st_mode) ? (uint64_t) entry->st->st_size : 0;
    return FILE_WALK_ON;
}

static int forget_record(struct pruning *p, const char *id, int record_fd)
{
    struct err ignored = ERR_NONE;

    p->out->records++;
    file_walk(record_fd, ".", add_bytes, &p->out->bytes, &ignored);
    if (p->options->is_dry)
        return 0;
    int r = apply_txn_unarchive(p->records_fd, id);
    if (r == 0)
        r = apply_journal_unlink(record_fd);
    fault("prune-record");
    return r < 0 ? r : file_remove_tree(p->records_fd, id);
}

/* Entries that an undo would write back to the change log. */
static void note_undo_lines(struct pruning *p, const struct buf *lines)
{
    for (size_t at = 0; at < lines->len;) {
        const char *end = memchr(lines->data + at, '\n', lines->len - at);
        size_t len = end ? (size_t) (end - lines->data) - at : lines->len - at;

        change_log_index_parse_line(&p->mentioned, lines->data + at, len);
        at += len + 1;
    }
}

static int on_record(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    struct pruning *p = cookie;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;
    autofd int fd = apply_txn_open(p->records_fd, id);

    if (fd < 0)
        return fd;
    if (state == APPLY_TXN_FINISHED && time_ns < p->options->before_ns)
        return forget_record(p, id, fd);
    int r = apply_journal_read(fd, &journal);
    if (r == 0) {
        note_undo_lines(p, &journal.notes);
        note_undo_lines(p, &journal.back);
    }
    apply_journal_done(&journal);
    /* A deletion was interrupted: after a power cut the record may be in the archive again. */
    if (r == -ENOENT && !p->options->is_dry)
        r = apply_txn_unarchive(p->records_fd, id) < 0 ? r : file_remove_tree(p->records_fd, id);
    return r == -ENOENT ? 0 : r;
}

/* ---- copies ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static void add_names(struct pruning *p, const struct change_log_index *log_index)
{
    for (size_t i = 0; i < log_index->count; i++)
        if (log_index->entries[i].kept)
            p->names[p->count++] = log_index->entries[i].kept;
}

static int on_copy(const struct file_entry *entry, void *cookie)
{
    struct pruning *p = cookie;

    if (!S_ISREG(entry->st->st_mode) || changed_ns(entry->st) >= p->options->before_ns ||
        (p->count > 0 && bsearch(&entry->name, p->names, p->count, sizeof(*p->names), by_text)))
        return FILE_WALK_SKIP;
    p->out->copies++;
    p->out->bytes += (uint64_t) entry->st->st_size;
    if (!p->options->is_dry && unlinkat(entry->dirfd, entry->name, 0) < 0 && errno != ENOENT)
        return -errno;
    return FILE_WALK_SKIP;
}

static int prune_copies(struct pruning *p, struct err *err)
{
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
    int r = change_log_index_load(p->meta_fd, &log_index, err);

    if (r < 0)
        return r;
    p->names = xalloc((log_index.count + p->mentioned.count + 1) * sizeof(*p->names));
    add_names(p, &log_index);
    add_names(p, &p->mentioned);
    if (p->count > 0)
        qsort(p->names, p->count, sizeof(*p->names), by_text);
    r = file_walk(p->meta_fd, COPIES, on_copy, p, err);
    free(p->names);
    return r == -ENOENT ? 0 : r;
}

/* ---- the whole run ---- */

int prune_run(const char *delta_path, const struct prune_options *options, struct prune *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    struct pruning p = { .options = options, .out = ret, .mentioned = CHANGE_LOG_INDEX_EMPTY };
    int r = approve_locks_acquire(delta_path, &(struct approve_lock_options){ options->is_held, 0, options->codebase }, &locks,
                                  err);

    if (r < 0)
        return r;
    p.meta_fd = locks.delta.meta_fd;
    p.records_fd = locks.records_fd;
    r = apply_txn_each(p.records_fd, on_record, &p);
    if (r < 0)
        err_errno(err, r, "forgetting old approvals");
    else
        r = prune_copies(&p, err);
    change_log_index_done(&p.mentioned);
    return r < 0 ? r : 0;
}

struct record_age_check {
    int64_t before_ns;
    bool has_work;
};

static int check_record_age(const struct file_entry *entry, void *cookie)
{
    struct record_age_check *check = cookie;

    /* The archive of finished records. */
    if (S_ISDIR(entry->st->st_mode) && !id_is_valid(APPLY_TXN_ID_PREFIX, entry->name))
        return FILE_WALK_ON;
    check->has_work = changed_ns(entry->st) < check->before_ns;
    return check->has_work ? FILE_WALK_STOP : FILE_WALK_SKIP;
}

bool prune_has_work(const char *delta_path, int64_t before_ns)
{
    struct delta_info delta = DELTA_INFO_NONE;
    struct record_age_check check = { .before_ns = before_ns };
    struct err ignored = ERR_NONE;

    if (delta_info_open(delta_path, &delta, &ignored) < 0)
        return false;
    file_walk(delta.meta_fd, APPROVALS, check_record_age, &check, &ignored);
    if (!check.has_work)
        file_walk(delta.meta_fd, COPIES, check_record_age, &check, &ignored);
    delta_info_done(&delta);
    return check.has_work;
}
