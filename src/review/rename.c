#include "review/rename.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "review/blob.h"

#define CHUNK 64 /* longer lines are cut into chunks of this size, so that a text without newlines has several */

struct chunk {
    uint32_t hash;
    uint32_t bytes; /* of all chunks with this hash */
};

struct candidate {
    size_t edit;
    const char *path; /* borrowed */
    const char *name; /* its last component */
    uint64_t size_bytes;
    uint8_t hash[SHA256_DIGEST_SIZE];
    bool is_hashed, is_taken;
    struct chunk *chunks; /* owned; by hash */
    size_t chunk_count;
};

struct candidates {
    struct candidate *items; /* owned */
    size_t count, cap;
    int dirfd; /* borrowed: the tree with their files */
};

struct rename_search {
    struct rename *out;
    struct candidates gone, come;
    uint64_t hashed_bytes, steps;
};

static void add_candidate(struct candidates *list, size_t i, const char *path, uint64_t size)
{
    const char *slash = strrchr(path, '/');

    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] =
        (struct candidate){ .edit = i, .path = path, .name = slash ? slash + 1 : path, .size_bytes = size };
}

static void accept_rename(struct rename_search *s, struct candidate *gone, struct candidate *come, unsigned percent)
{
    s->out[come->edit] = (struct rename){ gone->edit, percent };
    gone->is_taken = come->is_taken = true;
}

/* ---- the same bytes ---- */

static int by_size(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void hash_candidate(struct rename_search *s, const struct candidates *list, struct candidate *c)
{
    autodone(blob) struct blob blob = BLOB_NONE;
    struct sha256_ctx sha;

    if (c->is_hashed || c->size_bytes > RENAME_HASHED_MOST - s->hashed_bytes)
        return;
    s->hashed_bytes += c->size_bytes;
    sha256_init(&sha);
    if (blob_read(list->dirfd, c->path, S_IFREG, 0, &sha, &blob) < 0)
        return;
    sha256_digest(&sha, sizeof(c->hash), c->hash);
    c->is_hashed = true;
}

/* Hashes only files whose size occurs on both sides. */
static void hash_candidates(struct rename_search *s)
{
    size_t i = 0, k = 0;

    while (i < s->gone.count && k < s->come.count) {
        uint64_t x = s->gone.items[i].size_bytes, y = s->come.items[k].size_bytes;
        if (x < y) {
            i++;
        } else if (y < x) {
            k++;
        } else {
            for (; i < s->gone.count && s->gone.items[i].size_bytes == x; i++)
                hash_candidate(s, &s->gone, &s->gone.items[i]);
            for (; k < s->come.count && s->come.items[k].size_bytes == x; k++)
                hash_candidate(s, &s->come, &s->come.items[k]);
        }
    }
}

static int compare_hash(const struct candidate *x, const struct candidate *y)
{
    return memcmp(x->hash, y->hash, sizeof(x->hash));
}

static int compare_hash_and_name(const struct candidate *x, const struct candidate *y)
{
    int order = compare_hash(x, y);

    return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_hash_and_name(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int order = compare_hash_and_name(x, y);

    return order != 0 ? order : strcmp(x->path, y->path);
}

/* Both sides are sorted, so equal files are found side by side. */
static void match_equal(struct rename_search *s, int (*compare)(const struct candidate *x, const struct candidate *y))
{
    size_t i = 0, k = 0;

    while (i < s->gone.count && k < s->come.count) {
        struct candidate *gone = &s->gone.items[i], *come = &s->come.items[k];
        if (!gone->is_hashed || gone->is_taken) {
            i++;
            continue;
        }
        if (!come->is_hashed || come->is_taken) {
            k++;
            continue;
        }
        int order = compare(gone, come);
        if (order == 0)
            accept_rename(s, gone, come, 100);
        else if (order < 0)
            i++;
        else
            k++;
    }
}

/* ---- much the same lines ---- */

static int by_chunk(const void *a, const void *b)
{
    const struct chunk *x = a, *y = b;

    return (x->hash > y->hash) - (x->hash < y->hash);
}

static size_t cut_chunk(const char *at, size_t len, struct chunk *ret)
{
    uint32_t hash = 2166136261u; /* FNV-1a: a collision only makes a rename appear where there is none */
    size_t n = 0;

    while (n < len && n < CHUNK) {
        hash = (hash ^ (uint8_t) at[n]) * 16777619u;
        if (at[n++] == '\n')
            break;
    }
    *ret = (struct chunk){ hash, (uint32_t) n };
    return n;
}

static void cut_chunks(const struct candidates *list, struct candidate *c)
{
    autodone(blob) struct blob blob = BLOB_NONE;
    size_t cap = 0, kept = 0;

    if (blob_read(list->dirfd, c->path, S_IFREG, RENAME_SIMILAR_MOST, NULL, &blob) < 0 || blob.is_too_large)
        return;
    for (size_t at = 0; at < blob.bytes.len; c->chunk_count++) {
        vec_room(&c->chunks, &cap, c->chunk_count);
        at += cut_chunk(blob.bytes.data + at, blob.bytes.len - at, &c->chunks[c->chunk_count]);
    }
    if (c->chunk_count == 0)
        return;
    qsort(c->chunks, c->chunk_count, sizeof(*c->chunks), by_chunk);
    for (size_t i = 1; i < c->chunk_count; i++) {
        if (c->chunks[i].hash == c->chunks[kept].hash)
            c->chunks[kept].bytes += c->chunks[i].bytes;
        else
            c->chunks[++kept] = c->chunks[i];
    }
    c->chunk_count = kept + 1;
    c->size_bytes = blob.bytes.len;
}

static unsigned similarity_percent(struct rename_search *s, const struct candidate *a, const struct candidate *b)
{
    uint64_t common = 0, larger = a->size_bytes > b->size_bytes ? a->size_bytes : b->size_bytes;
    uint64_t smaller = a->size_bytes + b->size_bytes - larger;

    if (larger == 0 || smaller * 100 / larger < RENAME_LEAST)
        return 0;
    s->steps += a->chunk_count + b->chunk_count;
    for (size_t i = 0, k = 0; i < a->chunk_count && k < b->chunk_count;) {
        const struct chunk *x = &a->chunks[i], *y = &b->chunks[k];
        if (x->hash == y->hash)
            common += x->bytes < y->bytes ? x->bytes : y->bytes;
        i += x->hash <= y->hash;
        k += y->hash <= x->hash;
    }
    return (unsigned) (common * 100 / larger);
}

struct rename_pair {
    struct candidate *gone, *come;
    unsigned percent;
};

static int by_likeness(const void *a, const void *b)
{
    const struct rename_pair *x = a, *y = b;
    int order;

    if (x->percent != y->percent)
        return x->percent > y->percent ? -1 : 1;
    order = strcmp(x->come->path, y->come->path);
    return order != 0 ? order : strcmp(x->gone->path, y->gone->path);
}

static void keep_comparable(struct candidates *list, uint64_t *bytes)
{
    for (size_t i = 0; i < list->count; i++) {
        struct candidate *c = &list->items[i];
        if (c->is_taken || c->size_bytes > RENAME_SIMILAR_MOST || c->size_bytes > RENAME_SIMILAR_ALL_MOST - *bytes)
            continue;
        *bytes += c->size_bytes;
        cut_chunks(list, c);
    }
}

static bool has_unpaired(const struct candidates *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!list->items[i].is_taken)
            return true;
    }
    return false;
}

static void match_similar(struct rename_search *s)
{
    autofree struct rename_pair *pairs = NULL;
    size_t count = 0, cap = 0;
    uint64_t bytes = 0;

    if (!has_unpaired(&s->gone) || !has_unpaired(&s->come))
        return;
    keep_comparable(&s->gone, &bytes);
    keep_comparable(&s->come, &bytes);
    for (size_t i = 0; i < s->gone.count; i++) {
        struct candidate *gone = &s->gone.items[i];
        for (size_t k = 0; k < s->come.count && gone->chunk_count > 0 && s->steps < RENAME_STEPS_MOST; k++, s->steps++) {
            struct candidate *come = &s->come.items[k];
            unsigned percent = come->chunk_count > 0 ? similarity_percent(s, gone, come) : 0;
            if (percent < RENAME_LEAST)
                continue;
            vec_room(&pairs, &cap, count);
            pairs[count++] = (struct rename_pair){ gone, come, percent < 100 ? percent : 99 };
        }
    }
    if (count > 0)
        qsort(pairs, count, sizeof(*pairs), by_likeness);
    for (size_t i = 0; i < count; i++) {
        if (!pairs[i].gone->is_taken && !pairs[i].come->is_taken)
            accept_rename(s, pairs[i].gone, pairs[i].come, pairs[i].percent);
    }
}

/* ---- both ---- */

static void collect_candidates(struct rename_search *s, const struct edit_list *edits)
{
    for (size_t i = 0; i < edits->count; i++) {
        const struct edit *e = &edits->items[i];
        if (e->kind == CHANGE_DELETED && S_ISREG(e->was.st_mode) && e->was.st_size > 0)
            add_candidate(&s->gone, i, e->path, (uint64_t) e->was.st_size);
        else if (!e->was.st_mode && S_ISREG(e->now) && e->now_bytes > 0)
            add_candidate(&s->come, i, e->path, e->now_bytes);
    }
}

static void sort_candidates(struct candidates *list, int (*compare)(const void *a, const void *b))
{
    qsort(list->items, list->count, sizeof(*list->items), compare);
}

static void candidates_done(struct candidates *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].chunks);
    free(list->items);
}

struct rename *rename_find(const struct edit_list *edits)
{
    struct rename_search s = { .gone.dirfd = edits->base_fd, .come.dirfd = edits->delta.data_fd };

    s.out = xalloc((edits->count + 1) * sizeof(*s.out));
    for (size_t i = 0; i < edits->count; i++)
        s.out[i].from = RENAME_NONE;
    collect_candidates(&s, edits);
    if (s.gone.count > 0 && s.come.count > 0) {
        sort_candidates(&s.gone, by_size);
        sort_candidates(&s.come, by_size);
        hash_candidates(&s);
        sort_candidates(&s.gone, by_hash_and_name);
        sort_candidates(&s.come, by_hash_and_name);
        match_equal(&s, compare_hash_and_name);
        match_equal(&s, compare_hash);
        match_similar(&s);
    }
    candidates_done(&s.gone);
    candidates_done(&s.come);
    return s.out;
}
