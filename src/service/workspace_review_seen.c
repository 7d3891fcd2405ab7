/* What of a workspace's changes was shown, and as what: "HASH PATH" or "HASH-STANDING PATH", each ended by a NUL, in the file `reviewed`
 * beside the delta. */
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

struct seen_one *seen_find(const struct seen *seen, const char *path)
{
    struct seen_one key = { .path = (char *) (uintptr_t) path };

    return seen->count > 0 ? bsearch(&key, seen->items, seen->count, sizeof(key), by_path) : NULL;
}

void seen_add(struct seen *seen, const char *path, const struct seen_one *as)
{
    vec_room(&seen->items, &seen->cap, seen->count);
    struct seen_one *one = &seen->items[seen->count++];
    *one = *as;
    one->path = xdup(path);
}

/* Where the path begins; NULL if it is none of our lines. */
static const char *parse(const char *line, size_t len, struct seen_one *ret)
{
    const size_t both = (size_t) 2 * (HASH_LEN + 1);

    *ret = (struct seen_one){ 0 };
    if (len <= HASH_LEN + 1)
        return NULL;
    memcpy(ret->hash, line, HASH_LEN);
    if (line[HASH_LEN] == ' ')
        return line + HASH_LEN + 1;
    if (line[HASH_LEN] != '-' || len <= both || line[both - 1] != ' ')
        return NULL;
    memcpy(ret->drift, line + HASH_LEN + 1, HASH_LEN);
    return line + both;
}

bool seen_parse(const char *text, struct seen_one *ret)
{
    size_t len = strlen(text);

    *ret = (struct seen_one){ 0 };
    if (len != HASH_LEN && (len != 2 * HASH_LEN + 1 || text[HASH_LEN] != '-'))
        return false;
    memcpy(ret->hash, text, HASH_LEN);
    if (len > HASH_LEN)
        memcpy(ret->drift, text + HASH_LEN + 1, HASH_LEN);
    return true;
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
        struct seen_one one;
        const char *path = at + len < text.len ? parse(line, len, &one) : NULL;

        if (!path)
            break;
        seen_add(ret, path, &one);
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
        buf_addf(&text, "%s%s%s %s", seen->items[i].hash, *seen->items[i].drift ? "-" : "", seen->items[i].drift,
                 seen->items[i].path);
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

struct seen_one seen_as(const struct file_change *change)
{
    struct seen_one one = { 0 };

    seen_hash(change, one.hash);
    drift_text(&change->drift, one.drift);
    return one;
}
