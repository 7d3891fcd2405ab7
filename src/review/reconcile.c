#include "review/reconcile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn.h"
#include "review/line_distance.h"

const char *reconcile_state_name(enum reconcile_state state)
{
    static const char *const names[] = { "clean", "merges", "conflict" };

    return names[state];
}

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

static void copy_file_state(const struct file_state *from, struct file_state *to)
{
    *to = *from;
    to->bytes = BUF_EMPTY;
    if (from->has_bytes)
        buf_add(&to->bytes, from->bytes.data ? from->bytes.data : "", from->bytes.len);
}

static void set_conflict(struct reconcile *re, const char *reason)
{
    re->state = RECONCILE_CONFLICT;
    re->reason = reason;
}

/* ---- the merge base ---- */

static bool is_merge_base(const struct reconcile *re, const struct base_entry *entry)
{
    const struct stat *st = &re->project.st;

    if (!entry->has_hash)
        return entry->size_bytes == (uint64_t) st->st_size && entry->mtime_ns == ns_of(st->st_mtim);
    return S_ISREG(st->st_mode) && entry->size_bytes == (uint64_t) st->st_size &&
           memcmp(entry->hash, re->project.hash, sizeof(entry->hash)) == 0;
}

/* Uses the kept copy if it is complete: it was not synced when it was made. */
static void find_kept(const struct edit_list *list, const struct base_entry *entry, struct reconcile *re)
{
    autofree char *path = entry->kept ? xprintf("pre/%s", entry->kept) : NULL;

    if (!path || !entry->has_hash || file_state_read(list->delta.meta_fd, path, &re->merge_base) < 0)
        return;
    re->has_merge_base = S_ISREG(re->merge_base.st.st_mode) && re->merge_base.has_bytes &&
                         memcmp(re->merge_base.hash, entry->hash, sizeof(entry->hash)) == 0;
    re->merge_base.st.st_mode = S_IFREG | (entry->mode & 0777);
}

static void find_merge_base(const struct edit_list *list, const struct base_entry *entry, struct reconcile *re)
{
    if (!entry || entry->base != BASE_ENTRY_PRESENT || is_merge_base(re, entry)) {
        copy_file_state(&re->project, &re->merge_base);
        re->has_merge_base = true;
        if (entry && entry->base == BASE_ENTRY_PRESENT)
            re->merge_base.st.st_mode = (re->merge_base.st.st_mode & S_IFMT) | (entry->mode & 0777);
        return;
    }
    find_kept(list, entry, re);
}

/* ---- judging ---- */

static int merge_text(struct reconcile *re, enum threeway_favor favor, struct err *err)
{
    mode_t mode = re->result.st.st_mode;
    int r = threeway_make(&re->merge_base.bytes, &re->project.bytes, &re->agent.bytes, favor, &re->merge, err);

    if (r < 0)
        return r;
    if (!re->merge.is_clean) {
        set_conflict(re, "has changed in the project meanwhile, in the same lines");
        return 0;
    }
    file_state_done(&re->result);
    file_state_of_bytes(re->merge.bytes.data ? re->merge.bytes.data : "", re->merge.bytes.len, mode, &re->result);
    re->state = RECONCILE_MERGES;
    return 0;
}

static bool is_text(const struct file_state *state)
{
    return S_ISREG(state->st.st_mode) && !file_state_is_binary(state);
}

/* libgit2 would take minutes, and cannot be interrupted. */
static bool are_texts_far(const struct file_state *merge_base, const struct file_state *other)
{
    return !line_distance_is_small(merge_base->bytes.data, merge_base->bytes.len, other->bytes.data, other->bytes.len);
}

/* The project differs from the merge base. */
static int merge_moved(const struct edit *edit, struct reconcile *re, enum threeway_favor favor, struct err *err)
{
    if (!edit->now) {
        set_conflict(re, "has changed in the project meanwhile, and the agent deleted it");
        return 0;
    }
    if (!re->has_merge_base) {
        set_conflict(re, "has changed in the project meanwhile");
        return 0;
    }
    if (!is_text(&re->merge_base) || !is_text(&re->project) || !is_text(&re->agent)) {
        set_conflict(re, S_ISREG(re->project.st.st_mode) && S_ISREG(edit->now)
                             ? "has changed in the project meanwhile, and is no text that could be merged"
                             : "has changed in the project meanwhile, and is of another kind");
        return 0;
    }
    if (are_texts_far(&re->merge_base, &re->project) || are_texts_far(&re->merge_base, &re->agent)) {
        set_conflict(re, "has changed in the project meanwhile, and has too little in common with what it was to be merged");
        return 0;
    }
    return merge_text(re, favor, err);
}

/* The change log does not say what the base had (a file that the agent deleted, or replaced by a rename, in an unwatched
 * base). Its change time decides then: it cannot be set back, as a modification time can. */
static void reconcile_by_time(const struct edit_list *list, const struct base_entry *entry, struct reconcile *re)
{
    int64_t since_ns = entry && entry->since_ns > list->delta.made_ns ? entry->since_ns : list->delta.made_ns;

    if (ns_of(re->project.st.st_ctim) > since_ns)
        set_conflict(re, "has changed in the project since the sandbox was made");
}

static int reconcile_present(const struct edit_list *list, const struct edit *edit, const struct base_entry *entry,
                             enum threeway_favor favor, struct reconcile *re, struct err *err)
{
    if (!entry || entry->base == BASE_ENTRY_UNKNOWN)
        reconcile_by_time(list, entry, re);
    else if (entry->base == BASE_ENTRY_ABSENT)
        set_conflict(re, "has appeared in the project meanwhile");
    else if (entry->has_moved_on)
        set_conflict(re, "had changed in the project after the agent read it");
    else if (edit_mode_has_moved(edit, entry->mode, re->project.st.st_mode))
        set_conflict(re, "got another mode in the project meanwhile");
    else if (edit->kind != CHANGE_MODE && !is_merge_base(re, entry))
        return merge_moved(edit, re, favor, err);
    return 0;
}

/* A file cannot replace a directory in which something stays. */
static bool must_stay_directory(const struct edit_list *list, const struct edit *edit)
{
    size_t len = strlen(edit->path);

    if (!S_ISDIR(edit->was.st_mode) || !edit->now || S_ISDIR(edit->now))
        return false;
    for (size_t i = 0; i < list->unseen_count; i++) {
        const char *path = list->unseen[i];
        if (strncmp(path, edit->path, len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

static int reconcile_edit(const struct edit_list *list, const struct edit *edit, const struct base_entry *entry,
                          enum threeway_favor favor, struct reconcile *re, struct err *err)
{
    if (must_stay_directory(list, edit)) {
        set_conflict(re, "is a directory with files the agent never saw, and would become a file");
        re->is_hard = true;
        return 0;
    }
    if (!re->project.st.st_mode) {
        if (entry && entry->base == BASE_ENTRY_PRESENT)
            set_conflict(re, "was deleted in the project meanwhile");
        return 0;
    }
    /* Directories are compared by their contents. */
    if (S_ISDIR(re->project.st.st_mode))
        return 0;
    return reconcile_present(list, edit, entry, favor, re, err);
}

/* ---- the three versions ---- */

static int read_file_version(int dirfd, const char *path, struct file_state *state, struct err *err)
{
    int r = file_state_read(dirfd, path, state);

    if (r == 0)
        return 0;
    autofree char *shown = apply_txn_quote(path);
    return err_errno(err, r, "reading %s", shown);
}

static int read_versions(const struct edit_list *list, const struct edit *edit, struct reconcile *re, struct err *err)
{
    int r = read_file_version(list->base_fd, edit->path, &re->project, err);

    if (r == 0 && edit->now)
        r = read_file_version(list->delta.data_fd, edit->path, &re->agent, err);
    if (r < 0)
        return r;
    /* It changed after the walk. */
    if (((re->project.st.st_mode ^ edit->was.st_mode) & S_IFMT) || ((re->agent.st.st_mode ^ edit->now) & S_IFMT)) {
        autofree char *shown = apply_txn_quote(edit->path);
        return err_set(err, ERR_ABORTED, -ESTALE, "%s is being changed; try again", shown);
    }
    return 0;
}

/* The result if there is no conflict. The mode is the edit's: the project's, unless the agent changed it. */
static void set_result(const struct edit *edit, struct reconcile *re)
{
    copy_file_state(edit->kind == CHANGE_MODE ? &re->project : &re->agent, &re->result);
    re->result.st.st_mode = edit->now & (S_IFMT | 0777);
}

int reconcile_make(const struct edit_list *list, const struct edit *edit, enum threeway_favor favor, struct reconcile *ret,
                   struct err *err)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = read_versions(list, edit, &re, err);

    if (r < 0)
        return r;
    set_result(edit, &re);
    find_merge_base(list, entry, &re);
    r = reconcile_edit(list, edit, entry, favor, &re, err);
    if (r < 0)
        return r;
    *ret = re;
    re = RECONCILE_EMPTY;
    return 0;
}

void reconcile_done(struct reconcile *re)
{
    file_state_done(&re->merge_base);
    file_state_done(&re->project);
    file_state_done(&re->agent);
    file_state_done(&re->result);
    threeway_done(&re->merge);
    *re = RECONCILE_EMPTY;
}
