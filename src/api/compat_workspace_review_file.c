#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "api/review_message.h"
#include "base/mem.h"
#include "review/decision.h"
#include "review/diff_text.h"
#include "review/file_id.h"

#define GO_MODE_SYMLINK (1u << 27) /* the API's mode has its own bit for links */

static json_t *make_path(const char *path)
{
    return compat_text(path, strlen(path));
}

void compat_review_set_paths(json_t *object, const char *sandbox_id, const char *prefix, const char *scope_path)
{
    char id[FILE_ID_LEN + 1] = "";
    autofree char *whole = *prefix ? xprintf("%s/%s", prefix, scope_path) : xdup(scope_path);

    file_id_make(sandbox_id, scope_path, id);
    json_object_set_new(object, "id", json_string(id));
    json_object_set_new(object, "filePath", make_path(scope_path));
    json_object_set_new(object, "projectPath", make_path(whole));
}

json_t *compat_review_lines(const struct buf *lines)
{
    json_t *list = json_array();

    for (size_t at = 0; at < lines->len;) {
        const char *line = lines->data + at, *end = memchr(line, '\n', lines->len - at);
        size_t len = end ? (size_t) (end - line) : lines->len - at;
        autodone(buf) struct buf safe = BUF_EMPTY;

        diff_text_add_safe(&safe, line, len);
        json_array_append_new(list, compat_text(safe.data ? safe.data : "", safe.len));
        at += len + (end != NULL);
    }
    return list;
}

static json_t *make_safe_text(const struct buf *bytes)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, bytes->data ? bytes->data : "", bytes->len);
    return compat_text(safe.data ? safe.data : "", safe.len);
}

json_t *compat_review_conflict(const struct threeway *merge)
{
    json_t *list = json_array();

    for (size_t i = 0; i < merge->hunk_count; i++) {
        const struct threeway_hunk *hunk = &merge->hunks[i];
        json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o}", "line", (json_int_t) hunk->line, "project",
                                              make_safe_text(&hunk->project), "base", make_safe_text(&hunk->base), "agent",
                                              make_safe_text(&hunk->agent)));
    }
    return list;
}

static json_t *make_hunks(const struct hunk_list *hunks)
{
    json_t *list = json_array();

    for (size_t i = 0; i < hunks->count; i++) {
        const struct hunk *hunk = &hunks->items[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "id", hunk->id, "header", hunk->header,
                                        "oldStart", (json_int_t) hunk->old_start, "oldLines", (json_int_t) hunk->old_lines,
                                        "newStart", (json_int_t) hunk->new_start, "newLines", (json_int_t) hunk->new_lines,
                                        "linesAdded", (json_int_t) hunk->added, "linesRemoved", (json_int_t) hunk->removed,
                                        "lines", compat_review_lines(&hunk->lines)));
    }
    return list;
}

static void file_set_mode(json_t *object, const char *key, mode_t mode)
{
    char text[16];

    if (!mode)
        return;
    snprintf(text, sizeof(text), "%06o", (unsigned) mode);
    json_object_set_new(object, key, json_string(text));
}

static void file_set_target(json_t *object, const char *key, const char *target)
{
    if (target)
        json_object_set_new(object, key, compat_text(target, strlen(target)));
}

static void file_set_acceptance(json_t *object, const struct compat_review_file *about, const struct file_change *change)
{
    struct acceptance_verdict verdict = decision_check_acceptance(about->acceptance, change);
    json_t *answer = json_pack("{s:s}", "status", acceptance_status_name(verdict.status));

    compat_set_text(answer, "reason", verdict.reason);
    compat_set_text(answer, "rule", verdict.rule);
    json_object_set_new(object, "acceptance", answer);
}

static void file_set_lines(json_t *object, const struct file_change *change, const struct file_diff *diff)
{
    const struct {
        const char *key;
        size_t count;
    } counts[] = { { "additions", change->added },
                   { "deletions", change->removed },
                   { "linesAdded", change->added },
                   { "linesRemoved", change->removed } };

    for (size_t i = 0; change->is_measured && i < ARRAY_LEN(counts); i++)
        json_object_set_new(object, counts[i].key, json_integer((json_int_t) counts[i].count));
    json_object_set_new(object, "binary", json_boolean(change->is_binary));
    if (change->is_too_large)
        json_object_set_new(object, "tooLarge", json_true());
    if (change->is_whole_only)
        json_object_set_new(object, "wholeOnly", json_true());
    if (diff)
        json_object_set_new(object, "hunks", make_hunks(&diff->hunks));
}

static void file_set_rename(json_t *object, const struct file_change *change)
{
    if (change->kind != FILE_CHANGE_RENAMED)
        return;
    json_object_set_new(object, "oldPath", make_path(change->from->path));
    json_object_set_new(object, "oldProjectPath", make_path(change->old_path));
    json_object_set_new(object, "similarity", json_integer((json_int_t) change->percent));
}

json_t *compat_review_file(const struct compat_review_file *about, const struct file_change *change,
                           const struct file_diff *diff)
{
    autofree char *hash = make_change_hash(change);
    char id[FILE_ID_LEN + 1] = "";
    mode_t mode = change->new_mode ? change->new_mode : change->old_mode;
    unsigned number = (unsigned) (mode & 07777) | (S_ISLNK(mode) ? GO_MODE_SYMLINK : 0);
    json_t *object;

    file_id_make(about->sandbox_id, change->scope_path, id);
    object = json_pack("{s:s, s:o, s:o, s:o, s:s, s:I, s:I, s:s}", "id", id, "sandboxId", compat_uuid(about->sandbox_id),
                       "filePath", make_path(change->scope_path), "projectPath", make_path(change->path), "changeType",
                       file_change_kind_name(change->kind), "fileSize", (json_int_t) change->new_bytes, "fileMode",
                       (json_int_t) number, "approvalStatus", "pending");
    if (change->old_mode)
        json_object_set_new(object, "oldSize", json_integer((json_int_t) change->old_bytes));
    compat_set_time(object, "detectedAt", about->now_ns);
    file_set_mode(object, "oldMode", change->old_mode);
    file_set_mode(object, "newMode", change->new_mode);
    file_set_target(object, "oldSymlinkTarget", change->old_target);
    file_set_target(object, "symlinkTarget", change->new_target);
    file_set_rename(object, change);
    file_set_lines(object, change, diff);
    file_set_acceptance(object, about, change);
    if (change->acknowledge != ACKNOWLEDGE_NOTHING)
        json_object_set_new(object, "acknowledge",
                            json_pack("{s:s, s:s}", "reason", acknowledge_name(change->acknowledge), "text",
                                      acknowledge_text(change->acknowledge)));
    compat_set_text(object, "hash", hash);
    if (change->state == RECONCILE_MERGES)
        json_object_set_new(object, "merged", json_true());
    if (change->state == RECONCILE_CONFLICT)
        compat_set_text(object, "conflict", change->reason);
    if (change->failure)
        json_object_set_new(object, "error", json_string(strerror(-change->failure)));
    return object;
}
