#include "fence/sync_age.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

#define TRIED "tried"
#define TRIED_BYTES_MAX (64u << 20)

struct sync_age {
    char *path; /* owned */
    int64_t when_ns, mtime_ns;
    uint64_t ino, size_bytes;
};

struct sync_ages {
    struct sync_age *files; /* owned; sorted by path */
    size_t count, cap;
};

void sync_age_free(struct sync_ages *sync_ages)
{
    if (!sync_ages)
        return;
    for (size_t i = 0; i < sync_ages->count; i++)
        free(sync_ages->files[i].path);
    free(sync_ages->files);
    free(sync_ages);
}

static int cmp_sync_age(const void *a, const void *b)
{
    const struct sync_age *left = a, *right = b;

    return strcmp(left->path, right->path);
}

static void sync_ages_add(struct sync_ages *sync_ages, const struct sync_age *file, const char *path)
{
    vec_room(&sync_ages->files, &sync_ages->cap, sync_ages->count);
    sync_ages->files[sync_ages->count] = *file;
    sync_ages->files[sync_ages->count++].path = xdup(path);
}

static void sync_ages_sort(struct sync_ages *sync_ages)
{
    if (sync_ages->count > 1)
        qsort(sync_ages->files, sync_ages->count, sizeof(sync_ages->files[0]), cmp_sync_age);
}

static const struct sync_age *sync_ages_find(const struct sync_ages *sync_ages, const char *path)
{
    struct sync_age key = { .path = (char *) path };

    return sync_ages->count ? bsearch(&key, sync_ages->files, sync_ages->count, sizeof(key), cmp_sync_age) : NULL;
}

/* ---- on disk: four numbers and a path for each, NUL-terminated ---- */

int sync_age_load(int meta_fd, struct sync_ages **ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct sync_ages *sync_ages = xnew(struct sync_ages);
    int r = file_read(meta_fd, TRIED, TRIED_BYTES_MAX, &text);

    *ret = sync_ages;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (size_t at = 0, len; at < text.len; at += len + 1) {
        const char *line = text.data + at;
        struct sync_age file = { 0 };
        int skip = 0;

        len = strlen(line);
        if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 "%n", &file.when_ns, &file.mtime_ns, &file.ino,
                   &file.size_bytes, &skip) == 4 &&
            line[skip] == ' ')
            sync_ages_add(sync_ages, &file, line + skip + 1); /* a path may begin with blanks */
    }
    sync_ages_sort(sync_ages);
    return 0;
}

/* Without space on disk the record is in memory only. */
static void sync_ages_store(struct fence *f)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    for (size_t i = 0; i < f->sync_ages->count; i++) {
        const struct sync_age *file = &f->sync_ages->files[i];

        buf_addf(&text, "%" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " ", file->when_ns, file->mtime_ns, file->ino,
                 file->size_bytes);
        buf_add(&text, file->path, strlen(file->path) + 1);
    }
    r = text.len ? file_put(f->meta_fd, TRIED, text.data, text.len, 0600) : unlinkat(f->meta_fd, TRIED, 0) < 0 ? -errno : 0;
    if (r < 0 && r != -ENOENT)
        log_debug("a failed hand-over could not be noted", LOG_STR("error", strerror(-r)));
}

/* ---- */

int64_t sync_age_of(const struct fence *f, const char *path, const struct stat *st)
{
    const struct sync_age *file = sync_ages_find(f->sync_ages, path);
    int64_t ctime_ns = clock_ns_of_timespec(st->st_ctim);

    if (!file || file->when_ns > ctime_ns || file->ino != st->st_ino || file->size_bytes != (uint64_t) st->st_size ||
        file->mtime_ns != clock_ns_of_timespec(st->st_mtim))
        return ctime_ns;
    return file->when_ns;
}

void sync_age_note(struct fence *f, const struct sync_out_list *list)
{
    struct sync_ages *now = xnew(struct sync_ages);

    for (size_t i = 0; i < list->count; i++) {
        const struct sync_out_change *change = &list->changes[i];
        struct sync_age file = { .when_ns = change->changed_ns };
        struct stat st;

        if (change->kind != SYNC_OUT_FILE || fstatat(change->from_fd, change->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        file.mtime_ns = clock_ns_of_timespec(st.st_mtim);
        file.ino = st.st_ino;
        file.size_bytes = (uint64_t) st.st_size;
        sync_ages_add(now, &file, change->path);
    }
    sync_ages_sort(now);
    sync_age_free(f->sync_ages);
    f->sync_ages = now;
    sync_ages_store(f);
}

void sync_age_forget(struct fence *f, const struct sync_out_list *list)
{
    struct sync_ages *left;

    if (f->sync_ages->count == 0)
        return;
    left = xnew(struct sync_ages);
    for (size_t i = 0; i < list->count; i++) {
        const struct sync_out_change *change = &list->changes[i];
        const struct sync_age *file = change->outcome == SYNC_OUT_LEFT ? sync_ages_find(f->sync_ages, change->path) : NULL;

        if (file)
            sync_ages_add(left, file, change->path);
    }
    sync_ages_sort(left);
    sync_age_free(f->sync_ages);
    f->sync_ages = left;
    sync_ages_store(f);
}
