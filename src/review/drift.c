#include "review/drift.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>

#include "base/clock.h"

#define TICK_NS 20000000 /* two writes within it may leave the same times */

/* What is known of the project's file. */
struct project {
    const struct stat *st;
    const uint8_t *hash; /* NULL: not read */
};

enum drift_answer { STILL, MOVED, UNREAD };

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

static bool is_as_noted(const struct base_entry *entry, const struct stat *st)
{
    return entry->size_bytes == (uint64_t) st->st_size && entry->mtime_ns == ns_of(st->st_mtim);
}

/* A modification time can be set back, a change time cannot. */
static enum drift_answer compare_content(const struct edit_list *list, const struct base_entry *entry,
                                         const struct project *project)
{
    const struct stat *st = project->st;

    if (!entry->has_hash)
        return is_as_noted(entry, st) ? STILL : MOVED;
    if (!S_ISREG(st->st_mode) || entry->size_bytes != (uint64_t) st->st_size)
        return MOVED;
    if (project->hash)
        return memcmp(project->hash, entry->hash, sizeof(entry->hash)) == 0 ? STILL : MOVED;
    return is_as_noted(entry, st) && ns_of(st->st_ctim) + TICK_NS <= list->delta.made_ns ? STILL : UNREAD;
}

/* Returns MOVED whenever reconcile.c returns anything but RECONCILE_CLEAN, and maybe in other cases. */
static enum drift_answer compare_with_base(const struct edit_list *list, const struct edit *edit,
                                           const struct base_entry *entry, const struct project *project)
{
    const struct stat *st = project->st;

    if (!st->st_mode)
        return entry && entry->base == BASE_ENTRY_PRESENT ? MOVED : STILL;
    if (S_ISDIR(st->st_mode))
        return edit->now && !S_ISDIR(edit->now) && list->unseen_count > 0 ? MOVED : STILL;
    if (!entry || entry->base == BASE_ENTRY_UNKNOWN) {
        int64_t since_ns = entry && entry->since_ns > list->delta.made_ns ? entry->since_ns : list->delta.made_ns;
        return ns_of(st->st_ctim) > since_ns ? MOVED : STILL;
    }
    if (entry->base == BASE_ENTRY_ABSENT || entry->has_moved_on || edit_mode_has_moved(edit, entry->mode, st->st_mode))
        return MOVED;
    return edit->kind == CHANGE_MODE ? STILL : compare_content(list, entry, project);
}

static void hash_drift(const struct base_entry *entry, const struct project *project, bool has_moved,
                       uint8_t out[FILE_STATE_HASH_BYTES])
{
    static const uint8_t nothing[FILE_STATE_HASH_BYTES];
    const uint64_t numbers[] = { has_moved,
                                 has_moved ? project->st->st_mode & (S_IFMT | 0777) : 0,
                                 entry ? (uint64_t) entry->base : 0,
                                 entry ? entry->has_hash : 0,
                                 entry ? entry->size_bytes : 0,
                                 entry ? (uint64_t) entry->mtime_ns : 0,
                                 entry ? entry->mode & 0777 : 0 };
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, sizeof(numbers), (const uint8_t *) numbers);
    sha256_update(&sha, FILE_STATE_HASH_BYTES, has_moved && project->hash ? project->hash : nothing);
    sha256_update(&sha, FILE_STATE_HASH_BYTES, entry && entry->has_hash ? entry->hash : nothing);
    sha256_digest(&sha, FILE_STATE_HASH_BYTES, out);
}

/* Only files and links are read: the mode is enough to see that something is a directory now. */
static bool needs_hash(const struct edit *edit, const struct project *project)
{
    mode_t mode = project->st->st_mode;

    return !project->hash && edit->kind != CHANGE_MODE && (S_ISREG(mode) || S_ISLNK(mode));
}

/* Returns false if the file must be read first. */
static bool detect_without_reading(const struct edit_list *list, const struct edit *edit, const struct project *project,
                                   struct drift *ret)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);
    enum drift_answer answer = compare_with_base(list, edit, entry, project);

    if (answer == UNREAD || (answer == MOVED && needs_hash(edit, project)))
        return false;
    *ret = DRIFT_NONE;
    ret->has_moved = answer == MOVED;
    ret->is_noted = ret->has_moved || (entry && entry->is_reset && entry->base == BASE_ENTRY_PRESENT);
    if (ret->is_noted)
        hash_drift(entry, &(struct project){ project->st, edit->kind == CHANGE_MODE ? NULL : project->hash }, ret->has_moved,
                   ret->hash);
    return true;
}

void drift_of_file_state(const struct edit_list *list, const struct edit *edit, const struct file_state *project,
                         struct drift *ret)
{
    detect_without_reading(list, edit, &(struct project){ &project->st, project->hash }, ret);
}

int drift_detect(const struct edit_list *list, const struct edit *edit, struct drift *ret)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r;

    if (detect_without_reading(list, edit, &(struct project){ &edit->was, NULL }, ret))
        return 0;
    r = file_state_read(list->base_fd, edit->path, &state);
    if (r == 0)
        drift_of_file_state(list, edit, &state, ret);
    return r;
}

int drift_of_blob(const struct edit_list *list, const struct edit *edit, const struct blob *project, struct drift *ret)
{
    uint8_t hash[FILE_STATE_HASH_BYTES];
    struct sha256_ctx sha;

    if (!project->mode || edit->kind == CHANGE_MODE)
        return drift_detect(list, edit, ret);
    if (detect_without_reading(list, edit, &(struct project){ &project->st, NULL }, ret))
        return 0;
    if (project->is_too_large)
        return drift_detect(list, edit, ret);
    sha256_init(&sha);
    sha256_update(&sha, project->bytes.len, (const uint8_t *) project->bytes.data);
    sha256_digest(&sha, sizeof(hash), hash);
    detect_without_reading(list, edit, &(struct project){ &project->st, hash }, ret);
    return 0;
}

void drift_text(const struct drift *drift, char out[2 * FILE_STATE_HASH_BYTES + 1])
{
    static const char hex[] = "0123456789abcdef";

    out[0] = '\0';
    for (size_t i = 0; drift->is_noted && i < FILE_STATE_HASH_BYTES; i++) {
        out[2 * i] = hex[drift->hash[i] >> 4];
        out[2 * i + 1] = hex[drift->hash[i] & 15];
        out[2 * i + 2] = '\0';
    }
}
