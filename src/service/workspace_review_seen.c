/* What of a workspace's changes was shown, and as what: "HASH PATH", each ended by a NUL, in the file `reviewed` beside the delta. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "service/workspace_review_int.h"

#define SEEN_FILE "reviewed"
#define SEEN_BYTES_MAX ((size_t) 256 << 20)
#define HASH_LEN (CHANGE_HASH_TEXT_MAX - 1)

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct seen_one *) a)->path, ((const struct seen_one *) b)->path);
}

void seen_sort(struct seen *seen)
{
    if (seen->count > 0)
        qsort(seen->items, seen->count, sizeof(*seen->items), by_path);
}

static struct seen_one *find(const struct seen *seen, const char *path)
{
    struct seen_one key = { .path = (char *) (uintptr_t) path };

    return seen->count > 0 ? bsearch(&key, seen->items, seen->count, sizeof(key), by_path) : NULL;
}

const char *seen_find(const struct seen *seen, const char *path)
{
    const struct seen_one *one = find(seen, path);

    return one ? one->hash : NULL;
}

void seen_add(struct seen *seen, const char *path, const char *hash)
{
    vec_room(&seen->items, &seen->cap, seen->count);
    struct seen_one *one = &seen->items[seen->count++];
    *one = (struct seen_one){ .path = xdup(path) };
    memcpy(one->hash, hash, strnlen(hash, HASH_LEN) + 1);
    one->hash[HASH_LEN] = '\0';
}

/* A record that is damaged is none: everything has to be shown again. */
int seen_load(int dir_fd, struct seen *ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(dir_fd, SEEN_FILE, SEEN_BYTES_MAX, &text);

    *ret = (struct seen){ 0 };
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_errno(err, r, "reading what was shown of the changes");
    for (size_t at = 0; at < text.len;) {
        const char *line = text.data + at;
        size_t len = strnlen(line, text.len - at);
        char hash[CHANGE_HASH_TEXT_MAX];

        if (at + len >= text.len || len <= HASH_LEN + 1 || line[HASH_LEN] != ' ')
            break;
        memcpy(hash, line, HASH_LEN);
        hash[HASH_LEN] = '\0';
        seen_add(ret, line + HASH_LEN + 1, hash);
        at += len + 1;
    }
    seen_sort(ret);
    return 0;
}

/* Not synced: what is lost of it has to be shown again. */
int seen_save(int dir_fd, const struct seen *seen, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    for (size_t i = 0; i < seen->count; i++) {
        if (strlen(seen->items[i].hash) != HASH_LEN)
            continue;
        buf_addf(&text, "%s %s", seen->items[i].hash, seen->items[i].path);
        buf_add(&text, "", 1);
    }
    r = file_put(dir_fd, SEEN_FILE, text.data ? text.data : "", text.len, 0600);
    return r < 0 ? err_errno(err, r, "noting what was shown of the changes") : 0;
}

void seen_done(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->items[i].path);
    free(seen->items);
    *seen = (struct seen){ 0 };
}

void seen_hash(const struct file_change *change, char out[CHANGE_HASH_TEXT_MAX])
{
    out[0] = '\0';
    if (change->is_hashed && !change->failure)
        change_hash_text(change->hash, out);
}
