#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "codebase/settle.h"
#include "codebase/txn_int.h"

#define CHUNK 32768

void txn_resolver_done(struct txn_resolver *resolver)
{
    path_map_done(&resolver->last);
    path_map_done(&resolver->trees);
}

/* ---- times of the last change ---- */

static void note_change_time(struct path_map *map, const char *path, int64_t when_ns)
{
    struct path_slot *slot = path_map_add(map, path);

    if (when_ns > slot->value)
        slot->value = when_ns;
}

static int load_change_times(struct txn_resolver *resolver)
{
    for (uint64_t n = resolver->meta->oldest; n <= resolver->meta->version; n++) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY;
        autofd int fd = settle_open_version(resolver->cb, n);
        int r = fd < 0 ? fd : manifest_read(fd, &m);

        if (r < 0)
            return r;
        for (size_t i = 0; i < m.count; i++) {
            const struct manifest_entry *e = &m.entries[i];

            if (e->op == MANIFEST_LOST)
                continue;
            note_change_time(&resolver->last, e->path, e->when_ns);
            /* Creating an empty directory changes nothing beneath it. */
            if (e->old_kind == TREE_DIR || (e->new_kind == TREE_DIR && e->new_files > 0))
                note_change_time(&resolver->trees, e->path, e->when_ns);
        }
    }
    resolver->is_loaded = true;
    return 0;
}

int txn_resolver_last_change(struct txn_resolver *resolver, const char *path, const struct stat *st, int64_t *ret_ns)
{
    struct path_slot *slot;
    int64_t when = INT64_MIN;
    int r = resolver->is_loaded ? 0 : load_change_times(resolver);

    if (r < 0)
        return r;
    slot = path_map_find(&resolver->last, path, strlen(path));
    if (slot)
        when = slot->value;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        slot = path_map_find(&resolver->trees, path, (size_t) (slash - path));
        if (slot && slot->value > when)
            when = slot->value;
    }
    if (when == INT64_MIN) {
        /* If a version changed the path, that version is trimmed. The inode's ctime is not earlier than the change. In doubt
         * the existing content stays and the other is kept in the version. */
        int64_t came = st ? (int64_t) st->st_ctim.tv_sec * CLOCK_NS_PER_SEC + st->st_ctim.tv_nsec : INT64_MAX;

        when = came < resolver->meta->trimmed_ns ? came : resolver->meta->trimmed_ns;
    }
    *ret_ns = when;
    return 0;
}

/* ---- comparing content ---- */

static int bytes_are_same(int a, int b)
{
    char left[CHUNK], right[CHUNK];
    ssize_t n, m;

    do {
        n = fd_read_full(a, left, sizeof(left));
        m = fd_read_full(b, right, sizeof(right));
        if (n < 0 || m < 0)
            return (int) (n < 0 ? n : m);
        if (n != m || memcmp(left, right, (size_t) n) != 0)
            return 0;
    } while (n > 0);
    return 1;
}

static int links_are_same(int dir_a, const char *a, int dir_b, const char *b)
{
    char left[PATH_MAX], right[PATH_MAX];
    ssize_t n = readlinkat(dir_a, a, left, sizeof(left)), m = n < 0 ? -1 : readlinkat(dir_b, b, right, sizeof(right));

    if (n < 0 || m < 0)
        return -errno;
    return n == m && memcmp(left, right, (size_t) n) == 0;
}

static int is_the_same(const struct codebase_txn *txn, const struct txn_request *request, const struct stat *now)
{
    autofd int parent = -1, a = -1, b = -1;
    char object[OBJECT_NAME_MAX];
    const char *name;
    struct stat st;
    int r;

    object_name('n', request->object, object);
    if (fstatat(txn->stage.fd, object, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (tree_kind_of(now->st_mode) != request->kind || request->kind == TREE_DIR || st.st_size != now->st_size ||
        (st.st_mode & 0777) != (now->st_mode & 0777))
        return 0;
    r = path_open_parent_beneath(txn->cb->files_fd, request->path, &parent, &name);
    if (r < 0)
        return r;
    if (request->kind == TREE_LINK)
        return links_are_same(txn->stage.fd, object, parent, name);
    a = path_open_beneath(txn->stage.fd, object, O_RDONLY | O_NONBLOCK, 0);
    b = path_open_beneath(parent, name, O_RDONLY | O_NONBLOCK, 0);
    if (a < 0 || b < 0)
        return a < 0 ? a : b;
    return bytes_are_same(a, b);
}

/* ---- decision ---- */

/* Files here are never modified in place, so an inode with the same size and mtime is the same file. The ctime does not count,
 * because a rename changes it. */
bool txn_is_as_seen(const struct txn_request *request, const struct stat *now)
{
    const struct codebase_seen *seen = &request->seen;

    switch (seen->kind) {
    case CODEBASE_SEEN_ABSENT:
        return !now;
    case CODEBASE_SEEN_FILE:
        return now && now->st_ino == seen->ino &&
               (S_ISDIR(now->st_mode) || ((uint64_t) now->st_size == seen->size_bytes && stat_mtime_ns(now) == seen->mtime_ns));
    case CODEBASE_SEEN_UNKNOWN:
        break;
    }
    return false;
}

int txn_resolver_decide(struct txn_resolver *resolver, const struct codebase_txn *txn, const struct txn_request *request,
                        const struct stat *st, enum txn_verdict *ret, int64_t *ret_other_ns)
{
    int r;

    *ret = VERDICT_FREE;
    *ret_other_ns = 0;
    if (txn_is_as_seen(request, st))
        return 0;
    r = request->op == TXN_REQUEST_REMOVE ? !st : st ? is_the_same(txn, request, st) : 0;
    if (r != 0) {
        *ret = VERDICT_THE_SAME;
        return r < 0 ? r : 0;
    }
    r = txn_resolver_last_change(resolver, request->path, st, ret_other_ns);
    if (r < 0)
        return r;
    if (request->when_ns < *ret_other_ns)
        *ret = VERDICT_LOSES;
    else
        *ret = request->seen.kind == CODEBASE_SEEN_UNKNOWN ? VERDICT_FREE : VERDICT_WINS;
    return 0;
}
