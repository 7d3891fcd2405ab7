/* The record of a transaction: its journal, and the directories of records. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn_int.h"

#define SHELF "done"
#define FORMAT "agentfense-landing-2"
#define FORMAT_FIRST "agentfense-landing-1" /* has no follow-up */
#define LOG_MAX ((size_t) 1 << 30)

static const char *const state_names[] = {
    [APPLY_TXN_STAGING] = "staging",       [APPLY_TXN_INTENT] = "intent",  [APPLY_TXN_DONE] = "done",
    [APPLY_TXN_FOLLOW_UP] = "follow-up",   [APPLY_TXN_FINISHED] = "noted", [APPLY_TXN_ROLLED_BACK] = "taken-back",
    [APPLY_TXN_ROLLING_BACK] = "given-up",
};

static const char *const kind_names[] = {
    [APPLY_STEP_PUT] = "put",     [APPLY_STEP_PART] = "part", [APPLY_STEP_REMOVE] = "remove",
    [APPLY_STEP_RMDIR] = "rmdir", [APPLY_STEP_MODE] = "mode",
};

struct apply_step_file apply_step_file_of(const struct stat *st)
{
    return (struct apply_step_file){ .mode = st->st_mode,
                                     .uid = st->st_uid,
                                     .gid = st->st_gid,
                                     .ino = st->st_ino,
                                     .size_bytes = (uint64_t) st->st_size,
                                     .mtime_ns = (int64_t) st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec };
}

struct apply_step *apply_journal_add(struct apply_journal *journal, enum apply_step_kind kind, const char *path,
                                     const char *temp)
{
    vec_room(&journal->steps, &journal->cap, journal->count);
    struct apply_step *step = &journal->steps[journal->count++];
    *step = (struct apply_step){ .kind = kind, .path = xdup(path), .temp = temp ? xdup(temp) : NULL };
    return step;
}

void apply_journal_clear(struct apply_journal *journal)
{
    for (size_t i = 0; i < journal->count; i++) {
        free(journal->steps[i].path);
        free(journal->steps[i].temp);
    }
    journal->count = 0;
}

void apply_journal_done(struct apply_journal *journal)
{
    apply_journal_clear(journal);
    free(journal->steps);
    buf_done(&journal->notes);
    buf_done(&journal->back);
    buf_done(&journal->drops);
    buf_done(&journal->follow_up);
    *journal = APPLY_JOURNAL_EMPTY;
}

/* ---- writing: NUL-terminated strings, because a path may have any other byte; data that may contain NULs has its length
 * in front ---- */

static void record_put(struct buf *out, const char *text)
{
    buf_add(out, text, strlen(text) + 1);
}

static void record_put_number(struct buf *out, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, n);
    record_put(out, text);
}

static void put_bytes(struct buf *out, const struct buf *bytes)
{
    record_put_number(out, (int64_t) bytes->len);
    buf_add(out, bytes->data ? bytes->data : "", bytes->len);
}

static void put_file(struct buf *out, const struct apply_step_file *file)
{
    record_put_number(out, file->mode);
    record_put_number(out, file->uid);
    record_put_number(out, file->gid);
    record_put_number(out, (int64_t) file->ino);
    record_put_number(out, (int64_t) file->size_bytes);
    record_put_number(out, file->mtime_ns);
}

int apply_journal_write(int record_fd, struct apply_journal *journal)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    record_put(&out, FORMAT);
    record_put(&out, state_names[journal->state]);
    record_put_number(&out, journal->time_ns);
    record_put(&out, journal->undoes);
    put_bytes(&out, &journal->notes);
    put_bytes(&out, &journal->back);
    put_bytes(&out, &journal->drops);
    put_bytes(&out, &journal->follow_up);
    record_put(&out, journal->codebase);
    record_put_number(&out, (int64_t) journal->count);
    for (size_t i = 0; i < journal->count; i++) {
        const struct apply_step *step = &journal->steps[i];
        record_put(&out, kind_names[step->kind]);
        record_put(&out, step->path);
        record_put(&out, step->temp ? step->temp : "");
        put_file(&out, &step->was);
        put_file(&out, &step->now);
        record_put(&out, step->hash);
        record_put(&out, step->kept);
    }
    record_put(&out, "end");
    /* Do not begin a transaction whose journal would be too long to be read again. */
    if (journal->follow_up.len > APPLY_TXN_FOLLOW_UP_MAX || out.len > LOG_MAX)
        return -EFBIG;
    return file_replace(record_fd, APPLY_JOURNAL_NAME, out.data, out.len, 0600);
}

/* ---- reading ---- */

struct journal_scan {
    const char *at, *end;
    bool is_bad;
};

static const char *record_get(struct journal_scan *s)
{
    const char *text = s->at, *nul = s->is_bad ? NULL : memchr(s->at, 0, (size_t) (s->end - s->at));

    if (!nul) {
        s->is_bad = true;
        return "";
    }
    s->at = nul + 1;
    return text;
}

static int64_t get_number(struct journal_scan *s)
{
    const char *text = record_get(s);
    char *rest = NULL;

    errno = 0;
    long long n = strtoll(text, &rest, 10);
    s->is_bad |= errno || rest == text || *rest;
    return n;
}

static void get_bytes(struct journal_scan *s, struct buf *out)
{
    int64_t len = get_number(s);

    s->is_bad |= len < 0 || len > s->end - s->at;
    if (s->is_bad)
        return;
    buf_add(out, s->at, (size_t) len);
    s->at += len;
}

static void record_get_short(struct journal_scan *s, char *out, size_t cap)
{
    const char *text = record_get(s);

    s->is_bad |= strlen(text) >= cap;
    if (!s->is_bad)
        memcpy(out, text, strlen(text) + 1);
}

static struct apply_step_file get_file(struct journal_scan *s)
{
    struct apply_step_file file;

    file.mode = (mode_t) get_number(s);
    file.uid = (uid_t) get_number(s);
    file.gid = (gid_t) get_number(s);
    file.ino = (uint64_t) get_number(s);
    file.size_bytes = (uint64_t) get_number(s);
    file.mtime_ns = get_number(s);
    return file;
}

static size_t get_name(struct journal_scan *s, const char *const *names, size_t count)
{
    const char *text = record_get(s);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    s->is_bad = true;
    return 0;
}

/* The record is ours, but a temporary path that it makes us rename or remove must have the form of our names. */
static bool is_temp(const struct apply_journal *journal, const char *temp)
{
    const char *slash = strrchr(temp, '/');

    if (*journal->codebase)
        return temp[0] && strspn(temp, "0123456789") == strlen(temp);
    return id_is_valid(FILE_TEMP_PREFIX, slash ? slash + 1 : temp);
}

static void get_step(struct journal_scan *s, struct apply_journal *journal)
{
    enum apply_step_kind kind = (enum apply_step_kind) get_name(s, kind_names, ARRAY_LEN(kind_names));
    const char *path = record_get(s), *temp = record_get(s);

    s->is_bad |= !*path || (*temp && !is_temp(journal, temp)) ||
                 (!*temp && !*journal->codebase && kind != APPLY_STEP_PART && kind != APPLY_STEP_MODE);
    if (s->is_bad)
        return;
    struct apply_step *step = apply_journal_add(journal, kind, path, *temp ? temp : NULL);
    step->was = get_file(s);
    step->now = get_file(s);
    record_get_short(s, step->hash, sizeof(step->hash));
    record_get_short(s, step->kept, sizeof(step->kept));
    s->is_bad |= strspn(step->kept, "0123456789") != strlen(step->kept);
}

static bool record_parse(struct journal_scan *s, struct apply_journal *journal)
{
    const char *format = record_get(s);
    bool is_first = strcmp(format, FORMAT_FIRST) == 0;

    s->is_bad |= !is_first && strcmp(format, FORMAT) != 0;
    journal->state = (enum apply_txn_state) get_name(s, state_names, ARRAY_LEN(state_names));
    journal->time_ns = get_number(s);
    record_get_short(s, journal->undoes, sizeof(journal->undoes));
    get_bytes(s, &journal->notes);
    get_bytes(s, &journal->back);
    get_bytes(s, &journal->drops);
    if (!is_first) {
        get_bytes(s, &journal->follow_up);
        record_get_short(s, journal->codebase, sizeof(journal->codebase));
    }
    int64_t count = get_number(s);
    for (int64_t i = 0; i < count && !s->is_bad; i++)
        get_step(s, journal);
    s->is_bad |= strcmp(record_get(s), "end") != 0;
    return !s->is_bad;
}

/* The file's name holds the state as well, because on a full disk a file can be renamed, but not rewritten. */
static const char *const names[] = {
    [APPLY_TXN_STAGING] = APPLY_JOURNAL_NAME, [APPLY_TXN_INTENT] = APPLY_JOURNAL_NAME, [APPLY_TXN_DONE] = "done",
    [APPLY_TXN_FOLLOW_UP] = "follow-up",      [APPLY_TXN_FINISHED] = "noted",          [APPLY_TXN_ROLLED_BACK] = "back",
    [APPLY_TXN_ROLLING_BACK] = "given-up",
};

int apply_journal_mark(int record_fd, struct apply_journal *journal, enum apply_txn_state state)
{
    if (renameat(record_fd, journal->name, record_fd, names[state]) < 0)
        return -errno;
    journal->state = state;
    journal->name = names[state];
    return file_fsync_dir(record_fd);
}

/* The newest name first, because most records have it. */
static int read_journal_file(int record_fd, struct buf *text, enum apply_txn_state *ret_state)
{
    static const enum apply_txn_state order[] = { APPLY_TXN_FINISHED,  APPLY_TXN_INTENT,       APPLY_TXN_DONE,
                                                  APPLY_TXN_FOLLOW_UP, APPLY_TXN_ROLLING_BACK, APPLY_TXN_ROLLED_BACK };
    int r = -ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(order) && r == -ENOENT; i++) {
        *ret_state = order[i];
        r = file_read(record_fd, names[order[i]], LOG_MAX, text);
    }
    return r;
}

int apply_journal_read(int record_fd, struct apply_journal *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;
    enum apply_txn_state state;
    int r = read_journal_file(record_fd, &text, &state);

    if (r < 0)
        return r;
    struct journal_scan s = { text.data, text.data + text.len, text.len == 0 };
    if (!record_parse(&s, &journal)) {
        apply_journal_done(&journal);
        return -EBADMSG;
    }
    journal.name = names[state];
    if (state != APPLY_TXN_INTENT)
        journal.state = state;
    *ret = journal;
    return 0;
}

int apply_journal_close(int record_fd)
{
    if (renameat(record_fd, names[APPLY_TXN_FOLLOW_UP], record_fd, names[APPLY_TXN_FINISHED]) < 0)
        return errno == ENOENT && apply_journal_is_finished(record_fd) ? 0 : -errno;
    return file_fsync_dir(record_fd);
}

bool apply_journal_is_finished(int record_fd)
{
    return faccessat(record_fd, names[APPLY_TXN_FINISHED], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int apply_journal_unlink(int record_fd)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (unlinkat(record_fd, names[i], 0) < 0 && errno != ENOENT)
            return -errno;
    return 0;
}

struct found_record {
    char id[ID_TEXT_MAX];
    int64_t time_ns;
    enum apply_txn_state state;
};

struct record_list {
    struct found_record *items;
    size_t count, cap;
    bool is_of_unfinished; /* skip the others without reading them */
    bool shelves;          /* and archive them */
};

/* ---- archived records ---- */

/* After a kill or on a full disk the record stays among the unfinished ones, and the next holder of the locks tries again. */
void apply_txn_archive(int records_fd, const char *id)
{
    autofree char *place = xprintf(SHELF "/%s", id);

    if (renameat(records_fd, id, records_fd, place) < 0 && errno == ENOENT && mkdirat(records_fd, SHELF, 0700) == 0)
        (void) !renameat(records_fd, id, records_fd, place);
}

/* Another process may be archiving it. */
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
    ret->version = *journal.codebase ? apply_txn_version(fd) : 0;
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

/* ---- listing ---- */

static int on_record(const struct file_entry *entry, void *cookie)
{
    struct record_list *list = cookie;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;

    if (!S_ISDIR(entry->st->st_mode) || !id_is_valid(APPLY_TXN_ID_PREFIX, entry->name))
        return FILE_WALK_SKIP;
    autofd int fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_DIRECTORY, 0);
    /* It was archived or removed meanwhile; an archived one is listed later. */
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

/* A record that was archived during the listing was seen in both places. */
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
    const struct apply_txn_ops *ops = apply_txn_ops_of(journal);
    int r = 0;

    if (journal->state == APPLY_TXN_INTENT)
        r = ops->resume(re->site, id, record_fd, journal, re->err);
    else if (journal->state == APPLY_TXN_ROLLING_BACK)
        r = ops->roll_back(re->site, record_fd, journal, re->err);
    /* It was rolled back completely: the project is as it was before. */
    if (r < 0 && journal->state == APPLY_TXN_ROLLED_BACK)
        r = 0;
    if (r == 0 && journal->state == APPLY_TXN_DONE)
        r = apply_txn_finish_journal(re->site, record_fd, journal, re->err);
    if (r == 0 && apply_txn_is_abandoned(journal))
        r = apply_txn_remove_abandoned(re->site, id, record_fd, journal);
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
    if (r == -ENOENT) /* killed before the first write */
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
