#include "fence/tried.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/gather.h"

#define TRIED "tried"
#define TRIED_BYTES_MAX (64u << 20)

struct tried_file {
    char *path; /* owned */
    int64_t when_ns, mtime_ns;
    uint64_t ino, size_bytes;
};

struct tried {
    struct tried_file *files; /* owned; by path */
    size_t count, cap;
};

static void clear(struct tried *tried)
{
    for (size_t i = 0; i < tried->count; i++)
        free(tried->files[i].path);
    tried->count = 0;
}

void tried_free(struct tried *tried)
{
    if (!tried)
        return;
    clear(tried);
    free(tried->files);
    free(tried);
}

static int by_path(const void *a, const void *b)
{
    const struct tried_file *left = a, *right = b;

    return strcmp(left->path, right->path);
}

static void add(struct tried *tried, const struct tried_file *file, const char *path)
{
    vec_room(&tried->files, &tried->cap, tried->count);
    tried->files[tried->count] = *file;
    tried->files[tried->count++].path = xdup(path);
}

static void sort(struct tried *tried)
{
    if (tried->count > 1)
        qsort(tried->files, tried->count, sizeof(tried->files[0]), by_path);
}

static const struct tried_file *find(const struct tried *tried, const char *path)
{
    struct tried_file key = { .path = (char *) path };

    return tried->count ? bsearch(&key, tried->files, tried->count, sizeof(key), by_path) : NULL;
}

/* ---- on disk: four numbers and a path for each, ended by a NUL ---- */

int tried_load(int meta_fd, struct tried **ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct tried *tried = xnew(struct tried);
    int r = file_read(meta_fd, TRIED, TRIED_BYTES_MAX, &text);

    *ret = tried;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (size_t at = 0, len; at < text.len; at += len + 1) {
        const char *line = text.data + at;
        struct tried_file file = { 0 };
        int skip = 0;

        len = strlen(line);
        if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 "%n", &file.when_ns, &file.mtime_ns, &file.ino,
                   &file.size_bytes, &skip) == 4 &&
            line[skip] == ' ')
            add(tried, &file, line + skip + 1); /* a path may begin with blanks */
    }
    sort(tried);
    return 0;
}

/* Without room it is in memory. */
static void store(struct fence *f)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    for (size_t i = 0; i < f->tried->count; i++) {
        const struct tried_file *file = &f->tried->files[i];

        buf_addf(&text, "%" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " ", file->when_ns, file->mtime_ns, file->ino,
                 file->size_bytes);
        buf_add(&text, file->path, strlen(file->path) + 1);
    }
    r = text.len ? file_put(f->meta_fd, TRIED, text.data, text.len, 0600) : unlinkat(f->meta_fd, TRIED, 0) < 0 ? -errno : 0;
    if (r < 0 && r != -ENOENT)
        log_debug("a failed hand-over could not be noted", LOG_STR("error", strerror(-r)));
}

/* ---- */

int64_t tried_when_ns(const struct fence *f, const char *path, const struct stat *st)
{
    const struct tried_file *file = find(f->tried, path);
    int64_t ctime_ns = gather_ns(st->st_ctim);

    if (!file || file->when_ns > ctime_ns || file->ino != st->st_ino || file->size_bytes != (uint64_t) st->st_size ||
        file->mtime_ns != gather_ns(st->st_mtim))
        return ctime_ns;
    return file->when_ns;
}

void tried_note(struct fence *f, const struct handover_list *list)
{
    struct tried *now = xnew(struct tried);

    for (size_t i = 0; i < list->count; i++) {
        const struct handover_change *change = &list->changes[i];
        struct tried_file file = { .when_ns = change->changed_ns };
        struct stat st;

        if (change->kind != HANDOVER_FILE || fstatat(change->from_fd, change->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        file.mtime_ns = gather_ns(st.st_mtim);
        file.ino = st.st_ino;
        file.size_bytes = (uint64_t) st.st_size;
        add(now, &file, change->path);
    }
    sort(now);
    tried_free(f->tried);
    f->tried = now;
    store(f);
}

void tried_forget(struct fence *f, const struct handover_list *list)
{
    struct tried *left;

    if (f->tried->count == 0)
        return;
    left = xnew(struct tried);
    for (size_t i = 0; i < list->count; i++) {
        const struct handover_change *change = &list->changes[i];
        const struct tried_file *file = change->fate == HANDOVER_LEFT ? find(f->tried, change->path) : NULL;

        if (file)
            add(left, file, change->path);
    }
    sort(left);
    tried_free(f->tried);
    f->tried = left;
    store(f);
}
