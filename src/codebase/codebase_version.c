#include "codebase/codebase_version.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "codebase/settle.h"
#include "codebase/stage.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

static int load_version(struct codebase *cb, uint64_t version, struct manifest *ret, struct err *err)
{
    autofd int fd = settle_open_version(cb, version);
    int r = fd < 0 ? fd : manifest_read(fd, ret);

    if (r == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, r, "version %" PRIu64 " is not kept", version);
    return r < 0 ? err_errno(err, r, "reading version %" PRIu64, version) : 0;
}

static struct codebase_version summary_of(const struct manifest *m)
{
    struct codebase_version v = { .number = m->version,
                                  .time_ns = m->time_ns,
                                  .by = m->by ? m->by : "",
                                  .reason = m->reason ? m->reason : "",
                                  .undo_bytes = manifest_undo_bytes(m) };

    for (size_t i = 0; i < m->count; i++) {
        v.put_count += m->entries[i].op == MANIFEST_PUT;
        v.removed_count += m->entries[i].op == MANIFEST_REMOVE;
        v.conflict_count += m->entries[i].is_conflict;
    }
    return v;
}

int codebase_versions(struct codebase *cb, codebase_version_fn fn, void *cookie, struct err *err)
{
    struct codebase_info info;
    int r = codebase_info(cb, &info, err);

    for (uint64_t n = info.version; r == 0 && n > info.oldest_version; n--) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY;

        r = load_version(cb, n, &m, err);
        if (r == -ENOENT) /* trimmed meanwhile, together with all older ones */
            return 0;
        if (r < 0)
            return r;
        struct codebase_version v = summary_of(&m);
        r = fn(&v, cookie);
    }
    return r;
}

int codebase_version_entries(struct codebase *cb, uint64_t version, codebase_version_entry_fn fn, void *cookie, struct err *err)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    int r = load_version(cb, version, &m, err);

    for (size_t i = 0; r == 0 && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];
        struct codebase_version_entry entry = { .path = e->path,
                                                .is_removed = e->new_kind == TREE_NONE,
                                                .is_tree = e->new_kind == TREE_DIR || e->old_kind == TREE_DIR,
                                                .is_conflict = e->is_conflict,
                                                .has_lost = e->op == MANIFEST_LOST,
                                                .when_ns = e->when_ns,
                                                .size_bytes = e->new_bytes,
                                                .sha256 = e->sha256 };

        r = fn(&entry, cookie);
    }
    return r;
}

static const struct manifest_entry *find_loser(const struct manifest *m, const char *path, char *ret_letter)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];
        bool is_ours = e->op == MANIFEST_LOST && e->new_kind != TREE_NONE;
        bool is_theirs = e->op != MANIFEST_LOST && e->old_kind != TREE_NONE;

        if (!e->is_conflict || (!is_ours && !is_theirs) || strcmp(e->path, path) != 0)
            continue;
        *ret_letter = is_ours ? 'n' : 'o';
        return e;
    }
    return NULL;
}

static int put_loser(struct codebase_txn *txn, uint64_t version, const char *path, struct err *err)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    char letter, from[OBJECT_NAME_MAX], to[OBJECT_NAME_MAX];
    const struct manifest_entry *e;
    autofd int fd = -1;
    int r = load_version(txn->cb, version, &m, err);

    if (r < 0)
        return r;
    e = find_loser(&m, path, &letter);
    if (!e)
        return tree_path_reject(err, ERR_NOT_FOUND, -ENOENT, path, "lost nothing in that version");
    fd = settle_open_version(txn->cb, version);
    unsigned object = txn_next_object(txn);
    object_name(letter, e->object, from);
    object_name('n', object, to);
    r = fd < 0 ? fd : stage_copy(fd, from, txn->stage.fd, to);
    if (r < 0)
        return tree_path_errno(err, r, "copying", path);
    txn_request_put(txn, path, object, letter == 'n' ? e->new_kind : e->old_kind);
    r = stage_sync(&txn->stage, txn->staged_count);
    return r < 0 ? tree_path_errno(err, r, "copying", path) : 0;
}

int codebase_recover_loser(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                           struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autoptr(codebase_txn) txn = NULL;
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = tree_path_clean_entry(path, strlen(path), &clean, err);

    if (r >= 0)
        r = txn_new(cb, TXN_STRICT, by, "recover", &txn, err);
    if (r >= 0)
        r = codebase_lock(cb, &lock, &meta, err);
    if (r >= 0)
        r = put_loser(txn, version, clean.data, err);
    return r < 0 ? r : txn_finish_locked(txn, &meta, ret, err);
}
