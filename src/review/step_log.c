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
#include "review/landing_int.h"

#define FORMAT "agentfense-landing-2"
#define FORMAT_FIRST "agentfense-landing-1" /* which has no follow-up */
#define LOG_MAX ((size_t) 1 << 30)

static const char *const state_names[] = {
    [LANDING_STAGING] = "staging",     [LANDING_INTENT] = "intent", [LANDING_DONE] = "done",
    [LANDING_FOLLOW_UP] = "follow-up", [LANDING_NOTED] = "noted",   [LANDING_TAKEN_BACK] = "taken-back",
    [LANDING_GIVEN_UP] = "given-up",
};

static const char *const kind_names[] = {
    [STEP_PUT] = "put", [STEP_PART] = "part", [STEP_REMOVE] = "remove", [STEP_RMDIR] = "rmdir", [STEP_MODE] = "mode",
};

struct step_file step_file_of(const struct stat *st)
{
    return (struct step_file){ .mode = st->st_mode,
                               .uid = st->st_uid,
                               .gid = st->st_gid,
                               .ino = st->st_ino,
                               .size_bytes = (uint64_t) st->st_size,
                               .mtime_ns = (int64_t) st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec };
}

struct step *step_log_add(struct step_log *log, enum step_kind kind, const char *path, const char *temp)
{
    vec_room(&log->steps, &log->cap, log->count);
    struct step *step = &log->steps[log->count++];
    *step = (struct step){ .kind = kind, .path = xdup(path), .temp = temp ? xdup(temp) : NULL };
    return step;
}

void step_log_done(struct step_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        free(log->steps[i].path);
        free(log->steps[i].temp);
    }
    free(log->steps);
    buf_done(&log->notes);
    buf_done(&log->back);
    buf_done(&log->drops);
    buf_done(&log->follow_up);
    *log = STEP_LOG_EMPTY;
}

/* ---- writing: strings ended by NUL, because a path may have any other byte; whatever has NULs in it by its length ---- */

static void put(struct buf *out, const char *text)
{
    buf_add(out, text, strlen(text) + 1);
}

static void put_number(struct buf *out, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, n);
    put(out, text);
}

static void put_bytes(struct buf *out, const struct buf *bytes)
{
    put_number(out, (int64_t) bytes->len);
    buf_add(out, bytes->data ? bytes->data : "", bytes->len);
}

static void put_file(struct buf *out, const struct step_file *file)
{
    put_number(out, file->mode);
    put_number(out, file->uid);
    put_number(out, file->gid);
    put_number(out, (int64_t) file->ino);
    put_number(out, (int64_t) file->size_bytes);
    put_number(out, file->mtime_ns);
}

int step_log_write(int record_fd, struct step_log *log)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    put(&out, FORMAT);
    put(&out, state_names[log->state]);
    put_number(&out, log->time_ns);
    put(&out, log->undoes);
    put_bytes(&out, &log->notes);
    put_bytes(&out, &log->back);
    put_bytes(&out, &log->drops);
    put_bytes(&out, &log->follow_up);
    put_number(&out, (int64_t) log->count);
    for (size_t i = 0; i < log->count; i++) {
        const struct step *step = &log->steps[i];
        put(&out, kind_names[step->kind]);
        put(&out, step->path);
        put(&out, step->temp ? step->temp : "");
        put_file(&out, &step->was);
        put_file(&out, &step->now);
        put(&out, step->hash);
        put(&out, step->kept);
    }
    put(&out, "end");
    /* What could not be read again is not begun. */
    if (log->follow_up.len > LANDING_FOLLOW_UP_MAX || out.len > LOG_MAX)
        return -EFBIG;
    return file_replace(record_fd, STEP_LOG_NAME, out.data, out.len, 0600);
}

/* ---- reading ---- */

struct log_scan {
    const char *at, *end;
    bool is_bad;
};

static const char *get(struct log_scan *s)
{
    const char *text = s->at, *nul = s->is_bad ? NULL : memchr(s->at, 0, (size_t) (s->end - s->at));

    if (!nul) {
        s->is_bad = true;
        return "";
    }
    s->at = nul + 1;
    return text;
}

static int64_t get_number(struct log_scan *s)
{
    const char *text = get(s);
    char *rest = NULL;

    errno = 0;
    long long n = strtoll(text, &rest, 10);
    s->is_bad |= errno || rest == text || *rest;
    return n;
}

static void get_bytes(struct log_scan *s, struct buf *out)
{
    int64_t len = get_number(s);

    s->is_bad |= len < 0 || len > s->end - s->at;
    if (s->is_bad)
        return;
    buf_add(out, s->at, (size_t) len);
    s->at += len;
}

static void get_short(struct log_scan *s, char *out, size_t cap)
{
    const char *text = get(s);

    s->is_bad |= strlen(text) >= cap;
    if (!s->is_bad)
        memcpy(out, text, strlen(text) + 1);
}

static struct step_file get_file(struct log_scan *s)
{
    struct step_file file;

    file.mode = (mode_t) get_number(s);
    file.uid = (uid_t) get_number(s);
    file.gid = (gid_t) get_number(s);
    file.ino = (uint64_t) get_number(s);
    file.size_bytes = (uint64_t) get_number(s);
    file.mtime_ns = get_number(s);
    return file;
}

static size_t get_name(struct log_scan *s, const char *const *names, size_t count)
{
    const char *text = get(s);

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

static void get_step(struct log_scan *s, struct step_log *log)
{
    enum step_kind kind = (enum step_kind) get_name(s, kind_names, ARRAY_LEN(kind_names));
    const char *path = get(s), *temp = get(s);

    s->is_bad |= !*path || (*temp && !is_temp(temp)) || (!*temp && kind != STEP_PART && kind != STEP_MODE);
    if (s->is_bad)
        return;
    struct step *step = step_log_add(log, kind, path, *temp ? temp : NULL);
    step->was = get_file(s);
    step->now = get_file(s);
    get_short(s, step->hash, sizeof(step->hash));
    get_short(s, step->kept, sizeof(step->kept));
    s->is_bad |= strspn(step->kept, "0123456789") != strlen(step->kept);
}

static bool parse(struct log_scan *s, struct step_log *log)
{
    const char *format = get(s);
    bool is_first = strcmp(format, FORMAT_FIRST) == 0;

    s->is_bad |= !is_first && strcmp(format, FORMAT) != 0;
    log->state = (enum landing_state) get_name(s, state_names, ARRAY_LEN(state_names));
    log->time_ns = get_number(s);
    get_short(s, log->undoes, sizeof(log->undoes));
    get_bytes(s, &log->notes);
    get_bytes(s, &log->back);
    get_bytes(s, &log->drops);
    if (!is_first)
        get_bytes(s, &log->follow_up);
    int64_t count = get_number(s);
    for (int64_t i = 0; i < count && !s->is_bad; i++)
        get_step(s, log);
    s->is_bad |= strcmp(get(s), "end") != 0;
    return !s->is_bad;
}

/* What it has come to is told by its name as well: a disk that is full lets a file be renamed, but not written anew. */
static const char *const names[] = {
    [LANDING_STAGING] = STEP_LOG_NAME, [LANDING_INTENT] = STEP_LOG_NAME, [LANDING_DONE] = "done",
    [LANDING_FOLLOW_UP] = "follow-up", [LANDING_NOTED] = "noted",        [LANDING_TAKEN_BACK] = "back",
    [LANDING_GIVEN_UP] = "given-up",
};

int step_log_mark(int record_fd, struct step_log *log, enum landing_state state)
{
    if (renameat(record_fd, log->name, record_fd, names[state]) < 0)
        return -errno;
    log->state = state;
    log->name = names[state];
    return file_fsync_dir(record_fd);
}

/* The newest name first: it is the one of most records. */
static int read_any(int record_fd, struct buf *text, enum landing_state *ret_state)
{
    static const enum landing_state order[] = { LANDING_NOTED,     LANDING_INTENT,   LANDING_DONE,
                                                LANDING_FOLLOW_UP, LANDING_GIVEN_UP, LANDING_TAKEN_BACK };
    int r = -ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(order) && r == -ENOENT; i++) {
        *ret_state = order[i];
        r = file_read(record_fd, names[order[i]], LOG_MAX, text);
    }
    return r;
}

int step_log_read(int record_fd, struct step_log *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct step_log log = STEP_LOG_EMPTY;
    enum landing_state state;
    int r = read_any(record_fd, &text, &state);

    if (r < 0)
        return r;
    struct log_scan s = { text.data, text.data + text.len, text.len == 0 };
    if (!parse(&s, &log)) {
        step_log_done(&log);
        return -EBADMSG;
    }
    log.name = names[state];
    if (state != LANDING_INTENT)
        log.state = state;
    *ret = log;
    return 0;
}

int step_log_close(int record_fd)
{
    if (renameat(record_fd, names[LANDING_FOLLOW_UP], record_fd, names[LANDING_NOTED]) < 0)
        return errno == ENOENT && step_log_is_noted(record_fd) ? 0 : -errno;
    return file_fsync_dir(record_fd);
}

bool step_log_is_noted(int record_fd)
{
    return faccessat(record_fd, names[LANDING_NOTED], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int step_log_unlink(int record_fd)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (unlinkat(record_fd, names[i], 0) < 0 && errno != ENOENT)
            return -errno;
    return 0;
}
