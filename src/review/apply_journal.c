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
#include "review/apply_txn_int.h"

#define FORMAT "agentfense-landing-2"
#define FORMAT_FIRST "agentfense-landing-1" /* which has no follow-up */
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

void apply_journal_done(struct apply_journal *journal)
{
    for (size_t i = 0; i < journal->count; i++) {
        free(journal->steps[i].path);
        free(journal->steps[i].temp);
    }
    free(journal->steps);
    buf_done(&journal->notes);
    buf_done(&journal->back);
    buf_done(&journal->drops);
    buf_done(&journal->follow_up);
    *journal = APPLY_JOURNAL_EMPTY;
}

/* ---- writing: strings ended by NUL, because a path may have any other byte; whatever has NULs in it by its length ---- */

static void put_text(struct buf *out, const char *text)
{
    buf_add(out, text, strlen(text) + 1);
}

static void put_number(struct buf *out, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, n);
    put_text(out, text);
}

static void put_bytes(struct buf *out, const struct buf *bytes)
{
    put_number(out, (int64_t) bytes->len);
    buf_add(out, bytes->data ? bytes->data : "", bytes->len);
}

static void put_file(struct buf *out, const struct apply_step_file *file)
{
    put_number(out, file->mode);
    put_number(out, file->uid);
    put_number(out, file->gid);
    put_number(out, (int64_t) file->ino);
    put_number(out, (int64_t) file->size_bytes);
    put_number(out, file->mtime_ns);
}

int apply_journal_write(int record_fd, struct apply_journal *journal)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    put_text(&out, FORMAT);
    put_text(&out, state_names[journal->state]);
    put_number(&out, journal->time_ns);
    put_text(&out, journal->undoes);
    put_bytes(&out, &journal->notes);
    put_bytes(&out, &journal->back);
    put_bytes(&out, &journal->drops);
    put_bytes(&out, &journal->follow_up);
    put_number(&out, (int64_t) journal->count);
    for (size_t i = 0; i < journal->count; i++) {
        const struct apply_step *step = &journal->steps[i];
        put_text(&out, kind_names[step->kind]);
        put_text(&out, step->path);
        put_text(&out, step->temp ? step->temp : "");
        put_file(&out, &step->was);
        put_file(&out, &step->now);
        put_text(&out, step->hash);
        put_text(&out, step->kept);
    }
    put_text(&out, "end");
    /* What could not be read again is not begun. */
    if (journal->follow_up.len > APPLY_TXN_FOLLOW_UP_MAX || out.len > LOG_MAX)
        return -EFBIG;
    return file_replace(record_fd, APPLY_JOURNAL_NAME, out.data, out.len, 0600);
}

/* ---- reading ---- */

struct journal_scan {
    const char *at, *end;
    bool is_bad;
};

static const char *get_text(struct journal_scan *s)
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
    const char *text = get_text(s);
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

static void get_short(struct journal_scan *s, char *out, size_t cap)
{
    const char *text = get_text(s);

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
    const char *text = get_text(s);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    s->is_bad = true;
    return 0;
}

/* The record is ours, but what it makes us rename and remove is checked to be named as only we name. */
static bool is_temp(const char *temp)
{
    const char *slash = strrchr(temp, '/');

    return id_is_valid(FILE_TEMP_PREFIX, slash ? slash + 1 : temp);
}

static void get_step(struct journal_scan *s, struct apply_journal *journal)
{
    enum apply_step_kind kind = (enum apply_step_kind) get_name(s, kind_names, ARRAY_LEN(kind_names));
    const char *path = get_text(s), *temp = get_text(s);

    s->is_bad |= !*path || (*temp && !is_temp(temp)) || (!*temp && kind != APPLY_STEP_PART && kind != APPLY_STEP_MODE);
    if (s->is_bad)
        return;
    struct apply_step *step = apply_journal_add(journal, kind, path, *temp ? temp : NULL);
    step->was = get_file(s);
    step->now = get_file(s);
    get_short(s, step->hash, sizeof(step->hash));
    get_short(s, step->kept, sizeof(step->kept));
    s->is_bad |= strspn(step->kept, "0123456789") != strlen(step->kept);
}

static bool parse_journal(struct journal_scan *s, struct apply_journal *journal)
{
    const char *format = get_text(s);
    bool is_first = strcmp(format, FORMAT_FIRST) == 0;

    s->is_bad |= !is_first && strcmp(format, FORMAT) != 0;
    journal->state = (enum apply_txn_state) get_name(s, state_names, ARRAY_LEN(state_names));
    journal->time_ns = get_number(s);
    get_short(s, journal->undoes, sizeof(journal->undoes));
    get_bytes(s, &journal->notes);
    get_bytes(s, &journal->back);
    get_bytes(s, &journal->drops);
    if (!is_first)
        get_bytes(s, &journal->follow_up);
    int64_t count = get_number(s);
    for (int64_t i = 0; i < count && !s->is_bad; i++)
        get_step(s, journal);
    s->is_bad |= strcmp(get_text(s), "end") != 0;
    return !s->is_bad;
}

/* What it has come to is told by its name as well: a disk that is full lets a file be renamed, but not written anew. */
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

/* The newest name first: it is the one of most records. */
static int read_any(int record_fd, struct buf *text, enum apply_txn_state *ret_state)
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
    int r = read_any(record_fd, &text, &state);

    if (r < 0)
        return r;
    struct journal_scan s = { text.data, text.data + text.len, text.len == 0 };
    if (!parse_journal(&s, &journal)) {
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
