#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn_int.h"

#define SHELF "done"

struct found_record {
    char id[ID_TEXT_MAX];
    int64_t time_ns;
    enum apply_txn_state state;
};

struct record_list {
    struct found_record *items;
    size_t count, cap;
    bool is_of_unfinished; /* the others are not even read */
    bool shelves;          /* but put where they belong */
};

/* ---- where they are ---- */

/* Cut short, or without room for it, they are where they were: the next one who has the locks tries again. */
void apply_txn_archive(int records_fd, const char *id)
{
    autofree char *place = xprintf(SHELF "/%s", id);

    if (renameat(records_fd, id, records_fd, place) < 0 && errno == ENOENT && mkdirat(records_fd, SHELF, 0700) == 0)
        (void) !renameat(records_fd, id, records_fd, place);
}

/* Somebody may be about to put it away. */
int apply_txn_open(int records_fd, const char *id)
{
    autofree char *place = xprintf(SHELF "/%s", id);
    int fd = path_open_beneath(records_fd, id, O_RDONLY | O_DIRECTORY, 0);

    return fd == -ENOENT ? path_open_beneath(records_fd, place, O_RDONLY | O_DIRECTORY, 0) : fd;
}

void apply_txn_record_done(struct apply_txn_record *record)
{
    buf_done(&record->drops);
    buf_done(&record->follow_up);
    *record = APPLY_TXN_RECORD_NONE;
}

int apply_txn_read(int records_fd, const char *id, struct apply_txn_record *ret)
{
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;
    autofd int fd = apply_txn_open(records_fd, id);
    int r = fd < 0 ? fd : apply_journal_read(fd, &journal);

    if (r < 0)
        return r;
    *ret = (struct apply_txn_record){ .state = journal.state, .drops = journal.drops, .follow_up = journal.follow_up };
    memcpy(ret->undoes, journal.undoes, sizeof(ret->undoes));
    journal.drops = journal.follow_up = BUF_EMPTY;
    apply_journal_done(&journal);
    return 0;
}

int apply_txn_close(int records_fd, const char *id)
{
    autofd int fd = path_open_beneath(records_fd, id, O_RDONLY | O_DIRECTORY, 0);
    int r = fd == -ENOENT ? 0 : fd < 0 ? fd : apply_journal_close(fd);

    if (r == 0)
        apply_txn_archive(records_fd, id);
    return r;
}

int apply_txn_unarchive(int records_fd, const char *id)
{
    autofree char *place = xprintf(SHELF "/%s", id);

    return renameat(records_fd, place, records_fd, id) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- looking at them ---- */

static int on_record(const struct file_entry *entry, void *cookie)
{
    struct record_list *list = cookie;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;

    if (!S_ISDIR(entry->st->st_mode) || !id_is_valid(APPLY_TXN_ID_PREFIX, entry->name))
        return FILE_WALK_SKIP;
    autofd int fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_DIRECTORY, 0);
    /* Put away or removed meanwhile: what was put away is come by later. */
    if (fd < 0)
        return fd == -ENOENT ? FILE_WALK_SKIP : fd;
    if (list->is_of_unfinished && apply_journal_is_finished(fd)) {
        if (list->shelves)
            apply_txn_archive(entry->dirfd, entry->name);
        return FILE_WALK_SKIP;
    }
    int r = apply_journal_read(fd, &journal);
    if (r < 0 && r != -ENOENT)
        return r;
    vec_room(&list->items, &list->cap, list->count);
    struct found_record *found = &list->items[list->count++];
    *found = (struct found_record){ .time_ns = journal.time_ns, .state = journal.state };
    snprintf(found->id, sizeof(found->id), "%s", entry->name);
    apply_journal_done(&journal);
    return FILE_WALK_SKIP;
}

static int by_time(const void *a, const void *b)
{
    const struct found_record *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns ? 1 : strcmp(x->id, y->id);
}

/* Whoever was put away between two looks was seen in both places. */
static void drop_duplicates(struct record_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (kept == 0 || strcmp(list->items[kept - 1].id, list->items[i].id) != 0)
            list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

static int list_records(int records_fd, struct record_list *ret)
{
    struct err err = ERR_NONE;
    int r = file_walk(records_fd, ".", on_record, ret, &err);

    if (r == 0 && !ret->is_of_unfinished) {
        r = file_walk(records_fd, SHELF, on_record, ret, &err);
        r = r == -ENOENT ? 0 : r;
    }
    if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof(*ret->items), by_time);
    drop_duplicates(ret);
    return r;
}

static int each_record(int records_fd, struct record_list *list, apply_txn_each_fn fn, void *cookie)
{
    int r = list_records(records_fd, list);

    for (size_t i = 0; i < list->count && r == 0; i++)
        r = fn(list->items[i].id, list->items[i].time_ns, list->items[i].state, cookie);
    free(list->items);
    return r;
}

int apply_txn_each(int records_fd, apply_txn_each_fn fn, void *cookie)
{
    return each_record(records_fd, &(struct record_list){ 0 }, fn, cookie);
}

int apply_txn_each_unfinished(int records_fd, apply_txn_each_fn fn, void *cookie)
{
    return each_record(records_fd, &(struct record_list){ .is_of_unfinished = true }, fn, cookie);
}

struct apply_txn_recovery {
    const struct apply_txn_site *site;
    struct err *err;
};

static int recover_log(struct apply_txn_recovery *re, const char *id, int record_fd, struct apply_journal *journal)
{
    size_t left;
    int r = 0;

    if (journal->state == APPLY_TXN_INTENT)
        r = apply_txn_complete(re->site, record_fd, journal, re->err);
    else if (journal->state == APPLY_TXN_ROLLING_BACK)
        r = apply_txn_roll_back(re->site, record_fd, journal, &left);
    /* Given up for good: the project is as it was before. */
    if (r < 0 && journal->state == APPLY_TXN_ROLLED_BACK)
        r = 0;
    if (r == 0 && journal->state == APPLY_TXN_DONE)
        r = apply_txn_finish_journal(re->site, record_fd, journal, re->err);
    if (r == 0 && apply_txn_is_abandoned(journal))
        r = apply_txn_remove_abandoned(re->site, id, journal);
    if (r == 0 && journal->state == APPLY_TXN_FINISHED)
        apply_txn_archive(re->site->records_fd, id);
    return r;
}

static int on_recover(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    struct apply_txn_recovery *re = cookie;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;
    autofd int fd = path_open_beneath(re->site->records_fd, id, O_RDONLY | O_DIRECTORY, 0);
    int r = fd;

    (void) time_ns;
    if (state == APPLY_TXN_FINISHED || state == APPLY_TXN_FOLLOW_UP)
        return 0;
    if (fd >= 0)
        r = apply_journal_read(fd, &journal);
    if (r == -ENOENT) /* killed before the first word */
        return file_remove_tree(re->site->records_fd, id);
    if (r == 0)
        r = recover_log(re, id, fd, &journal);
    apply_journal_done(&journal);
    return r;
}

int apply_txn_recover(const struct apply_txn_site *site, struct err *err)
{
    struct apply_txn_recovery re = { site, err };
    struct record_list list = { .is_of_unfinished = true, .shelves = true };
    int r = each_record(site->records_fd, &list, on_recover, &re);

    if (r < 0 && err && err->code == ERR_OK)
        err_errno(err, r, "finishing what was cut short");
    return r;
}
