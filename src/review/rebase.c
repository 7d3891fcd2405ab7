#include "review/rebase.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"

int rebase_parse_strategy(const char *text, enum rebase_strategy *ret, struct err *err)
{
    static const char *const names[] = { "regenerate", "merge", "ours", "theirs" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum rebase_strategy) i;
            return 0;
        }
    }
    return err_reject(err, -EINVAL, text, "is none of regenerate, merge, ours, theirs");
}

const char *rebase_outcome_name(enum rebase_outcome outcome)
{
    static const char *const names[] = { "unmoved", "merged", "given-up", "kept", "conflict" };

    return names[outcome];
}

/* ---- the result for an edit ---- */

/* A mode that the agent did not change must not become an edit on the new merge base. */
static mode_t merge_base_mode(const struct rebase *rb, const struct edit *edit, const struct reconcile *re)
{
    const struct base_entry *entry = change_log_index_find(&rb->edits.log_index, edit->path);
    bool is_left = entry && entry->base == BASE_ENTRY_PRESENT && !((entry->mode ^ re->agent.st.st_mode) & 0777);

    return (is_left ? entry->mode : re->project.st.st_mode) & 0777;
}

/* Notes the project's reconciled version, with a copy for later merges. */
static int note_merge_base(struct rebase *rb, const struct edit *edit, const struct reconcile *re, struct err *err)
{
    const struct file_state *project = &re->project;
    char name[ID_TEXT_MAX];
    struct base_entry entry = { .path = edit->path, .base = BASE_ENTRY_ABSENT };

    if (project->st.st_mode && !S_ISDIR(project->st.st_mode)) {
        entry.base = BASE_ENTRY_PRESENT;
        entry.size_bytes = (uint64_t) project->st.st_size;
        entry.mtime_ns = (int64_t) project->st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + project->st.st_mtim.tv_nsec;
        entry.mode = merge_base_mode(rb, edit, re);
        entry.has_hash = S_ISREG(project->st.st_mode);
        memcpy(entry.hash, project->hash, sizeof(entry.hash));
    }
    if (entry.has_hash && !file_state_is_binary(project)) {
        id_new("kept-", name);
        autofree char *path = xprintf("pre/%s", name);
        int r = path_mkdirs_beneath(rb->edits.delta.meta_fd, "pre", 0700);
        if (r == 0)
            r = file_put(rb->edits.delta.meta_fd, path, project->bytes.data ? project->bytes.data : "", project->bytes.len,
                         0600);
        if (r < 0)
            return err_errno(err, r, "keeping what the agent works from");
        entry.kept = name;
    }
    change_log_index_add_line(&rb->notes, &entry);
    return 0;
}

static struct fence_revert *add_change(struct rebase *rb, const char *path)
{
    vec_room(&rb->changes, &rb->change_cap, rb->change_count);
    struct fence_revert *change = &rb->changes[rb->change_count++];
    *change = (struct fence_revert){ .path = xprintf("/%s", path), .replace_fd = -1 };
    return change;
}

static int replace_text(struct rebase *rb, const struct edit *edit, const struct reconcile *re, struct err *err)
{
    const struct buf *bytes = &re->result.bytes;
    struct fence_revert *change = add_change(rb, edit->path);
    int r;

    change->replace_fd = memfd_create("rebased", MFD_CLOEXEC);
    r = change->replace_fd < 0 ? -errno : fd_write_full(change->replace_fd, bytes->data ? bytes->data : "", bytes->len);
    return r < 0 ? err_errno(err, r, "holding a merged text") : note_merge_base(rb, edit, re, err);
}

static int rebase_decide_conflict(struct rebase *rb, enum rebase_strategy strategy, struct reconcile *re,
                                  struct rebase_file *file, struct err *err)
{
    if (re->is_hard || strategy == REBASE_MERGE || strategy == REBASE_REGENERATE) {
        file->outcome = REBASE_CONFLICT;
        file->reason = re->reason;
        file->merge = re->merge;
        re->merge = THREEWAY_EMPTY;
        rb->conflict_count++;
        return 0;
    }
    if (strategy == REBASE_OURS) {
        file->outcome = REBASE_GIVEN_UP;
        add_change(rb, file->edit->path);
        return 0;
    }
    file->outcome = REBASE_KEPT;
    return note_merge_base(rb, file->edit, re, err);
}

static int rebase_decide_edit(struct rebase *rb, enum rebase_strategy strategy, size_t i, struct err *err)
{
    static const enum threeway_favor favors[] = { THREEWAY_NONE, THREEWAY_NONE, THREEWAY_PROJECT, THREEWAY_AGENT };
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    struct rebase_file *file = &rb->files[i];
    int r = reconcile_make(&rb->edits, &rb->edits.items[i], favors[strategy], &re, err);

    *file = (struct rebase_file){ .edit = &rb->edits.items[i], .outcome = REBASE_UNMOVED };
    if (r < 0 || re.state == RECONCILE_CLEAN)
        return r;
    rb->moved_count++;
    if (re.state == RECONCILE_CONFLICT)
        return rebase_decide_conflict(rb, strategy, &re, file, err);
    file->outcome = REBASE_MERGED;
    return strategy == REBASE_REGENERATE ? 0 : replace_text(rb, file->edit, &re, err);
}

/* ---- a run ---- */

int rebase_plan(const char *delta_path, const struct selection *selection, enum rebase_strategy strategy, struct rebase *ret,
                struct err *err)
{
    static const struct selection all = { 0 };
    int r;

    *ret = REBASE_NONE;
    r = selection_load(selection ? selection : &all, delta_path, &ret->edits, err);
    if (r < 0)
        return r;
    ret->files = xalloc((ret->edits.count + 1) * sizeof(*ret->files));
    for (size_t i = 0; i < ret->edits.count && r == 0; i++)
        r = rebase_decide_edit(ret, strategy, i, err);
    if (r < 0)
        rebase_done(ret);
    return r;
}

int rebase_finish(const struct rebase *rb, struct err *err)
{
    int r;

    if (rb->notes.len == 0)
        return 0;
    r = change_log_index_append(rb->edits.delta.meta_fd, rb->notes.data, rb->notes.len);
    return r < 0 ? err_errno(err, r, "noting what the agent works from") : 0;
}

void rebase_done(struct rebase *rb)
{
    for (size_t i = 0; i < rb->change_count; i++) {
        free((char *) (uintptr_t) rb->changes[i].path);
        cleanup_fd(&rb->changes[i].replace_fd);
    }
    for (size_t i = 0; rb->files && i < rb->edits.count; i++)
        threeway_done(&rb->files[i].merge);
    free(rb->changes);
    free(rb->files);
    buf_done(&rb->notes);
    edit_list_done(&rb->edits);
    *rb = REBASE_NONE;
}
