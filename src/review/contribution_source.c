#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/delta.h"
#include "review/apply_txn_int.h"
#include "review/contribution.h"

#define PIECE 65536

struct contribution_source {
    struct delta_info delta;
    int base_fd, record_fd; /* owned; -1: there is no record */
    struct apply_journal journal;
    const struct apply_step **steps; /* owned array: the steps for files, by path */
    size_t count;
};

void contribution_source_close(struct contribution_source *s)
{
    if (!s)
        return;
    free(s->steps);
    apply_journal_done(&s->journal);
    cleanup_fd(&s->base_fd);
    cleanup_fd(&s->record_fd);
    delta_info_done(&s->delta);
    free(s);
}

static int by_path(const void *a, const void *b)
{
    const struct apply_step *x = *(const struct apply_step *const *) a, *y = *(const struct apply_step *const *) b;

    return strcmp(x->path, y->path);
}

/* If a file replaces a directory each has a step; the directory's is not about a file. */
static void sort_steps(struct contribution_source *s)
{
    s->steps = xalloc((s->journal.count + 1) * sizeof(*s->steps));
    for (size_t i = 0; i < s->journal.count; i++)
        if (s->journal.steps[i].kind != APPLY_STEP_RMDIR)
            s->steps[s->count++] = &s->journal.steps[i];
    if (s->count > 0)
        qsort(s->steps, s->count, sizeof(*s->steps), by_path);
}

int contribution_source_open(const char *delta_path, const char *approval_id, struct contribution_source **ret, struct err *err)
{
    autoptr(contribution_source) s = xnew(struct contribution_source);
    int r;

    s->base_fd = s->record_fd = -1;
    s->delta = DELTA_INFO_NONE;
    r = delta_info_open(delta_path, &s->delta, err);
    if (r < 0)
        return r;
    s->base_fd = delta_info_open_base(&s->delta, O_RDONLY, err);
    if (s->base_fd < 0)
        return s->base_fd;
    if (id_is_valid(APPLY_TXN_ID_PREFIX, approval_id)) {
        autofd int records = path_open_beneath(s->delta.meta_fd, "approvals", O_RDONLY | O_DIRECTORY, 0);
        s->record_fd = records < 0 ? records : apply_txn_open(records, approval_id);
        r = s->record_fd < 0 ? s->record_fd : apply_journal_read(s->record_fd, &s->journal);
    }
    if (r < 0)
        return err_errno(err, r, "reading the record of '%s'", approval_id);
    sort_steps(s);
    *ret = steal_ptr(&s);
    return 0;
}

static const struct apply_step *find_step(const struct contribution_source *s, const char *path)
{
    struct apply_step wanted = { .path = (char *) (uintptr_t) path };
    const struct apply_step *key = &wanted, **found = NULL;

    if (s->count > 0)
        found = bsearch(&key, s->steps, s->count, sizeof(*s->steps), by_path);
    return found ? *found : NULL;
}

/* Computes git's object id. */
static int name_blob(int dir_fd, const char *path, char out[CONTRIBUTION_BLOB_MAX])
{
    autofd int fd = path_open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    autofree uint8_t *piece = malloc(PIECE);
    uint8_t digest[SHA1_DIGEST_SIZE];
    struct sha1_ctx ctx;
    struct stat st;
    char head[40];

    if (fd < 0 || !piece)
        return fd < 0 ? fd : -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    int n = snprintf(head, sizeof(head), "blob %lld", (long long) st.st_size);
    sha1_init(&ctx);
    sha1_update(&ctx, (size_t) n + 1, (const uint8_t *) head);
    for (off_t at = 0; at < st.st_size;) {
        off_t left = st.st_size - at;
        ssize_t got = fd_pread_full(fd, piece, left < PIECE ? (size_t) left : PIECE, at);
        if (got <= 0)
            return got < 0 ? (int) got : -ESTALE;
        sha1_update(&ctx, (size_t) got, piece);
        at += got;
    }
    sha1_digest(&ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

/* Fills a side from `state`, which was read from there, and takes over its bytes. */
static int fill_side(int dir_fd, const char *path, struct file_state *state, mode_t mode, struct contribution_side *ret)
{
    if (!S_ISREG(state->st.st_mode) && !S_ISLNK(state->st.st_mode))
        return 0;
    ret->mode = (state->st.st_mode & S_IFMT) | (mode & 0777);
    ret->has_bytes = state->has_bytes;
    ret->bytes = state->bytes;
    state->bytes = BUF_EMPTY;
    return state->has_bytes ? 0 : name_blob(dir_fd, path, ret->blob);
}

static int read_side_before(const struct contribution_source *s, const struct apply_step *step, struct contribution_side *ret)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    autofree char *kept = xprintf("kept/%s", step->kept);
    int r;

    if (!S_ISREG(step->was.mode) && !S_ISLNK(step->was.mode))
        return 0;
    r = *step->kept ? file_state_read(s->record_fd, kept, &state) : -ESTALE;
    return r < 0 ? r : fill_side(s->record_fd, kept, &state, step->was.mode, ret);
}

static bool is_as_applied(const struct apply_step *step, const struct file_state *state)
{
    char hash[2 * FILE_STATE_HASH_BYTES + 1];

    if ((state->st.st_mode ^ step->now.mode) & S_IFMT)
        return false;
    if (!S_ISREG(state->st.st_mode) || !*step->hash)
        return S_ISDIR(state->st.st_mode) || apply_step_file_matches(&step->now, &state->st);
    for (size_t i = 0; i < FILE_STATE_HASH_BYTES; i++)
        snprintf(hash + 2 * i, 3, "%02x", state->hash[i]);
    return strcmp(hash, step->hash) == 0;
}

static int read_side_after(const struct contribution_source *s, const struct apply_step *step, const char *path,
                           struct contribution_side *ret)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r;

    if (step && step->kind == APPLY_STEP_REMOVE)
        return 0;
    r = file_state_read(s->base_fd, path, &state);
    if (r == 0 && step && step->kind != APPLY_STEP_MODE && !is_as_applied(step, &state))
        r = -ESTALE;
    return r < 0 ? r : fill_side(s->base_fd, path, &state, step ? step->now.mode : state.st.st_mode, ret);
}

static void copy_side(const struct contribution_side *side, mode_t mode, struct contribution_side *ret)
{
    ret->mode = side->mode ? (side->mode & S_IFMT) | (mode & 0777) : 0;
    ret->has_bytes = side->has_bytes;
    memcpy(ret->blob, side->blob, sizeof(ret->blob));
    buf_add(&ret->bytes, side->bytes.data ? side->bytes.data : "", side->bytes.len);
}

int contribution_source_read(const struct contribution_source *s, const char *path, struct contribution *ret)
{
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    const struct apply_step *step = find_step(s, path);
    int r = read_side_after(s, step, path, &c.after);

    if (r == 0 && step && step->kind != APPLY_STEP_MODE)
        r = read_side_before(s, step, &c.before);
    else if (r == 0)
        copy_side(&c.after, step ? step->was.mode : c.after.mode, &c.before);
    if (r < 0)
        return r;
    *ret = contribution_steal(&c);
    return 0;
}

static int predict_after(const char *path, mode_t now, int source_fd, const struct buf *bytes, struct contribution_side *ret)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r = 0;

    if (!S_ISREG(now) && !S_ISLNK(now))
        return 0;
    if (bytes)
        file_state_of_bytes(bytes->data ? bytes->data : "", bytes->len, now, &state);
    else
        r = file_state_read(source_fd, path, &state);
    return r < 0 ? r : fill_side(source_fd, path, &state, now, ret);
}

int contribution_predict(int project_fd, const char *path, mode_t now, int source_fd, const struct buf *bytes,
                         struct contribution *ret)
{
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r = file_state_read(project_fd, path, &state);

    if (r == 0)
        r = fill_side(project_fd, path, &state, state.st.st_mode, &c.before);
    if (r == 0)
        r = predict_after(path, now, source_fd, bytes, &c.after);
    if (r < 0)
        return r;
    *ret = contribution_steal(&c);
    return 0;
}
