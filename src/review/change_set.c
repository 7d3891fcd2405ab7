#include "review/change_set.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/acknowledge_check.h"
#include "review/file_diff.h"
#include "review/parallel.h"
#include "review/rename.h"

const char *file_change_kind_name(enum file_change_kind kind)
{
    static const char *const names[] = { "added", "modified", "deleted", "renamed" };

    return names[kind];
}

void change_hash_text(const uint8_t hash[CHANGE_HASH_BYTES], char out[CHANGE_HASH_TEXT_MAX])
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < CHANGE_HASH_BYTES; i++) {
        out[2 * i] = hex[hash[i] >> 4];
        out[2 * i + 1] = hex[hash[i] & 15];
    }
    out[CHANGE_HASH_TEXT_MAX - 1] = 0;
}

/* ---- loading ---- */

static bool is_file(mode_t mode)
{
    return mode && !S_ISDIR(mode);
}

/* A directory that was replaced by a file is shown by its deleted contents; the file is new. */
static enum file_change_kind change_kind_of_edit(const struct edit *edit)
{
    bool was = edit->was.st_mode, now = edit->now;

    if (edit_is_file(edit)) {
        was = is_file(edit->was.st_mode);
        now = is_file(edit->now);
    }
    if (!was)
        return FILE_CHANGE_ADDED;
    return now ? FILE_CHANGE_MODIFIED : FILE_CHANGE_DELETED;
}

static char *read_target(int dirfd, const char *path, mode_t mode)
{
    autodone(blob) struct blob blob = BLOB_NONE;

    if (!S_ISLNK(mode) || blob_read(dirfd, path, mode, 0, NULL, &blob) < 0)
        return NULL;
    return buf_dup_take(&blob.bytes);
}

static void fill_change(const struct change_set *set, const struct acknowledge_check *check, struct file_change *change)
{
    const struct edit *edit = change->edit, *from = change->from ? change->from : edit;
    const char *prefix = check->prefix, *slash = *prefix ? "/" : "";

    change->kind = change->from ? FILE_CHANGE_RENAMED : change_kind_of_edit(edit);
    change->path = xprintf("%s%s%s", prefix, slash, edit->path);
    change->scope_path = edit->path;
    change->old_path = change->from ? xprintf("%s%s%s", prefix, slash, from->path) : NULL;
    change->is_dir = !edit_is_file(edit);
    change->old_mode = from->was.st_mode;
    change->new_mode = edit->now;
    change->old_bytes = S_ISREG(change->old_mode) || S_ISLNK(change->old_mode) ? (uint64_t) from->was.st_size : 0;
    change->new_bytes = edit->now_bytes;
    change->old_target = read_target(set->edits.base_fd, from->path, change->old_mode);
    change->new_target = read_target(set->edits.delta.data_fd, edit->path, change->new_mode);
    if (change->new_target)
        change->new_bytes = strlen(change->new_target);
    change->acknowledge = acknowledge_check_edit(check, edit, change->from);
}

static void pair_renames(struct change_set *set, const struct acknowledge_check *check, const struct rename *renames)
{
    const struct edit *edits = set->edits.items;
    autofree bool *is_taken_in = xalloc(set->edits.count + 1);

    for (size_t i = 0; renames && i < set->edits.count; i++) {
        if (renames[i].from != RENAME_NONE)
            is_taken_in[renames[i].from] = true;
    }
    set->items = xalloc((set->edits.count + 1) * sizeof(*set->items));
    for (size_t i = 0; i < set->edits.count; i++) {
        struct file_change *change = &set->items[set->count];
        if (is_taken_in[i])
            continue;
        change->edit = &edits[i];
        if (renames && renames[i].from != RENAME_NONE) {
            change->from = &edits[renames[i].from];
            change->percent = renames[i].percent;
        }
        fill_change(set, check, change);
        set->count++;
    }
}

static int clean_prefix(const char *prefix, struct buf *out, struct err *err)
{
    int r = path_clean(prefix && *prefix ? prefix : "/", prefix && *prefix ? strlen(prefix) : 1, out);

    return r < 0 ? err_reject(err, r, prefix, "is no path in the project") : 0;
}

int change_set_load(const char *delta_path, const struct change_set_options *options, struct change_set *ret, struct err *err)
{
    struct change_set set = CHANGE_SET_EMPTY;
    autofree struct rename *renames = NULL;
    autodone(buf) struct buf prefix = BUF_EMPTY;
    struct acknowledge_check check;
    int r = clean_prefix(options->prefix, &prefix, err);

    if (r == 0)
        r = edit_list_load(delta_path, NULL, 0, &set.edits, err);
    if (r < 0)
        return r;
    r = acknowledge_check_init(&check, &set.edits, prefix.data + 1, err);
    if (r < 0) {
        change_set_done(&set);
        return r;
    }
    if (!options->without_renames)
        renames = rename_find(&set.edits);
    pair_renames(&set, &check, renames);
    acknowledge_check_done(&check);
    *ret = set;
    return 0;
}

void change_set_done(struct change_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->items[i].path);
        free(set->items[i].old_path);
        free(set->items[i].old_target);
        free(set->items[i].new_target);
    }
    free(set->items);
    edit_list_done(&set->edits);
    *set = CHANGE_SET_EMPTY;
}

/* ---- querying ---- */

static int by_path(const void *key, const void *item)
{
    return strcmp(key, ((const struct file_change *) item)->path);
}

static int by_scope_path(const void *key, const void *item)
{
    return strcmp(key, ((const struct file_change *) item)->scope_path);
}

struct file_change *change_set_find(struct change_set *set, const char *project_path)
{
    return set->count ? bsearch(project_path, set->items, set->count, sizeof(*set->items), by_path) : NULL;
}

struct file_change *change_set_find_scoped(struct change_set *set, const char *scope_path)
{
    return set->count ? bsearch(scope_path, set->items, set->count, sizeof(*set->items), by_scope_path) : NULL;
}

static bool is_at_or_below(const char *path, const char *top, size_t len)
{
    return len == 0 || (strncmp(path, top, len) == 0 && (path[len] == 0 || path[len] == '/'));
}

size_t *change_set_page(const struct change_set *set, const struct change_set_query *query, size_t *ret_count,
                        size_t *ret_total)
{
    size_t *places = xalloc((set->count + 1) * sizeof(*places)), count = 0, total = 0;
    const char *top = query->path ? query->path : "";
    size_t len;

    top += *top == '/';
    len = strlen(top);
    len -= len > 0 && top[len - 1] == '/';
    for (size_t i = 0; i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        if (change->is_dir && !query->with_directories)
            continue;
        if (!is_at_or_below(change->path, top, len) && !(change->old_path && is_at_or_below(change->old_path, top, len)))
            continue;
        if (total++ >= query->offset && (query->limit == 0 || count < query->limit))
            places[count++] = i;
    }
    *ret_count = count;
    *ret_total = total;
    return places;
}

/* ---- measuring ---- */

struct measure_task {
    struct change_set *set;
    const size_t *places; /* borrowed; NULL: all */
    int (*fn)(const struct change_set *set, struct file_change *change, struct err *err);
};

static int run_measure_task(size_t i, void *cookie, struct err *err)
{
    const struct measure_task *task = cookie;

    return task->fn(task->set, &task->set->items[task->places ? task->places[i] : i], err);
}

static int measure_change(const struct change_set *set, struct file_change *change, struct err *err)
{
    return change->is_measured ? 0 : file_diff_measure(set, change, err);
}

static int hash_change(const struct change_set *set, struct file_change *change, struct err *err)
{
    return change->is_hashed || change->failure ? 0 : file_diff_hash(set, change, err);
}

int change_set_measure(struct change_set *set, const size_t *places, size_t count, struct err *err)
{
    struct measure_task task = { set, places, measure_change };

    return parallel_run(places ? count : set->count, run_measure_task, &task, err);
}

/* Hashes edit by edit, so that the result does not depend on whether a deletion and an addition are paired as a rename. */
static void hash_edits(const struct change_set *set, struct sha256_ctx *sha)
{
    static const char deleted[CHANGE_HASH_BYTES] = "deleted";
    const struct edit *edits = set->edits.items;
    size_t next = 0;

    for (size_t i = 0; i < set->edits.count; i++) {
        const struct file_change *change = next < set->count && set->items[next].edit == &edits[i] ? &set->items[next] : NULL;
        uint8_t unknown[CHANGE_HASH_BYTES] = { 0 };
        const uint8_t *hash = (const uint8_t *) deleted;
        next += change != NULL;
        if (change && change->edit->now && change->is_hashed) {
            hash = change->hash;
        } else if (change && !change->is_hashed) {
            id_random(unknown, sizeof(unknown));
            hash = unknown;
        }
        sha256_update(sha, strlen(edits[i].path) + 1, (const uint8_t *) edits[i].path);
        sha256_update(sha, CHANGE_HASH_BYTES, hash);
    }
}

/* Returns false if there is no drift. */
static bool hash_drifts(const struct change_set *set, struct sha256_ctx *sha)
{
    bool is_noted = false;

    for (size_t i = 0; i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        if (!change->is_hashed || !change->drift.is_noted)
            continue;
        sha256_update(sha, strlen(change->scope_path) + 1, (const uint8_t *) change->scope_path);
        sha256_update(sha, sizeof(change->drift.hash), change->drift.hash);
        is_noted = true;
    }
    return is_noted;
}

int change_set_hash(struct change_set *set, char out[CHANGE_SET_HASH_MAX], struct err *err)
{
    struct measure_task task = { set, NULL, hash_change };
    uint8_t hash[CHANGE_HASH_BYTES];
    struct sha256_ctx sha;
    int r = parallel_run(set->count, run_measure_task, &task, err);

    if (r < 0)
        return r;
    sha256_init(&sha);
    hash_edits(set, &sha);
    sha256_digest(&sha, sizeof(hash), hash);
    change_hash_text(hash, out);
    sha256_init(&sha);
    if (!hash_drifts(set, &sha))
        return 0;
    sha256_digest(&sha, sizeof(hash), hash);
    out[CHANGE_HASH_TEXT_MAX - 1] = '-';
    change_hash_text(hash, out + CHANGE_HASH_TEXT_MAX);
    return 0;
}

bool change_set_hash_is(const char *hash, const char *given, bool only_the_agents)
{
    const size_t len = CHANGE_HASH_TEXT_MAX - 1;

    if (!only_the_agents)
        return strcasecmp(hash, given) == 0;
    return strnlen(given, len) == len && (given[len] == '\0' || given[len] == '-') && strncasecmp(hash, given, len) == 0;
}

struct change_totals change_set_totals(const struct change_set *set)
{
    struct change_totals t = { 0 };

    for (size_t i = 0; i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        t.to_acknowledge += change->acknowledge != ACKNOWLEDGE_NOTHING;
        if (change->is_dir) {
            t.directories++;
            continue;
        }
        t.files++;
        t.added += change->kind == FILE_CHANGE_ADDED;
        t.modified += change->kind == FILE_CHANGE_MODIFIED;
        t.deleted += change->kind == FILE_CHANGE_DELETED;
        t.renamed += change->kind == FILE_CHANGE_RENAMED;
        t.lines_added += change->added;
        t.lines_removed += change->removed;
        t.bytes += change->new_bytes;
        t.unmeasured += !change->is_measured || change->is_too_large || change->failure;
    }
    return t;
}
