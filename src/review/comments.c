#include "review/comments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "review/file_diff.h"

#define COMMENTS_FILE "comments"
#define COMMENTS_HEAD "agentfense comments 1"
#define COMMENTS_BYTES_MAX ((size_t) 64 << 20)

/* The fields of a record in their order, each NUL-terminated. */
enum comment_field {
    FIELD_ID,
    FIELD_PATH,
    FIELD_HUNK,
    FIELD_HASH,
    FIELD_NUMBERS, /* line, is_old_line, time_ns, resolved_ns */
    FIELD_AUTHOR,
    FIELD_CLAIMED,
    FIELD_RESOLVED_BY,
    FIELD_TEXT,
    FIELD_COUNT,
};

static void comment_done(struct comment *comment)
{
    free(comment->scope_path);
    free(comment->author);
    free(comment->claimed);
    free(comment->text);
    free(comment->resolved_by);
}

void comment_list_done(struct comment_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        comment_done(&list->items[i]);
    free(list->items);
    *list = (struct comment_list){ 0 };
}

static bool comment_parse(const char *const fields[FIELD_COUNT], struct comment *ret)
{
    struct comment comment = { 0 };
    unsigned is_old_line = 0;
    int end = 0;

    if (!id_is_valid(COMMENT_ID_PREFIX, fields[FIELD_ID]) || strlen(fields[FIELD_HUNK]) >= sizeof(comment.hunk_id) ||
        strlen(fields[FIELD_HASH]) >= sizeof(comment.hash) ||
        sscanf(fields[FIELD_NUMBERS], "%" SCNu32 " %u %" SCNd64 " %" SCNd64 "%n", &comment.line, &is_old_line, &comment.time_ns,
               &comment.resolved_ns, &end) != 4 ||
        fields[FIELD_NUMBERS][end] != '\0')
        return false;
    comment.is_old_line = is_old_line;
    strcpy(comment.id, fields[FIELD_ID]);
    strcpy(comment.hunk_id, fields[FIELD_HUNK]);
    strcpy(comment.hash, fields[FIELD_HASH]);
    comment.scope_path = xdup(fields[FIELD_PATH]);
    comment.author = xdup(fields[FIELD_AUTHOR]);
    comment.claimed = xdup(fields[FIELD_CLAIMED]);
    comment.resolved_by = xdup(fields[FIELD_RESOLVED_BY]);
    comment.text = xdup(fields[FIELD_TEXT]);
    *ret = comment;
    return true;
}

int comment_list_load(int sandbox_fd, struct comment_list *ret, struct err *err)
{
    autodone(comment_list) struct comment_list list = { 0 };
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *fields[FIELD_COUNT];
    size_t field = 0;
    int r = file_read(sandbox_fd, COMMENTS_FILE, COMMENTS_BYTES_MAX, &text);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_errno(err, r, "reading the comments of a review");
    if (text.len < sizeof(COMMENTS_HEAD) || memcmp(text.data, COMMENTS_HEAD, sizeof(COMMENTS_HEAD)) != 0 ||
        text.data[text.len - 1] != '\0')
        return err_set(err, ERR_DATA_LOSS, -EBADMSG, "the comments of the review are damaged");
    for (size_t at = sizeof(COMMENTS_HEAD); at < text.len; at += strlen(text.data + at) + 1) {
        fields[field++] = text.data + at;
        if (field < FIELD_COUNT)
            continue;
        field = 0;
        vec_room(&list.items, &list.cap, list.count);
        if (!comment_parse(fields, &list.items[list.count]))
            return err_set(err, ERR_DATA_LOSS, -EBADMSG, "comment %zu of the review is damaged", list.count + 1);
        list.count++;
    }
    if (field != 0)
        return err_set(err, ERR_DATA_LOSS, -EBADMSG, "the comments of the review are cut short");
    *ret = list;
    list = (struct comment_list){ 0 };
    return 0;
}

int comment_list_save(int sandbox_fd, const struct comment_list *list, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    buf_add(&text, COMMENTS_HEAD, sizeof(COMMENTS_HEAD));
    for (size_t i = 0; i < list->count; i++) {
        const struct comment *comment = &list->items[i];
        autofree char *numbers = xprintf("%" PRIu32 " %d %" PRId64 " %" PRId64, comment->line, comment->is_old_line,
                                         comment->time_ns, comment->resolved_ns);
        const char *const fields[FIELD_COUNT] = {
            [FIELD_ID] = comment->id,           [FIELD_PATH] = comment->scope_path,
            [FIELD_HUNK] = comment->hunk_id,    [FIELD_HASH] = comment->hash,
            [FIELD_NUMBERS] = numbers,          [FIELD_AUTHOR] = comment->author,
            [FIELD_CLAIMED] = comment->claimed, [FIELD_RESOLVED_BY] = comment->resolved_by,
            [FIELD_TEXT] = comment->text,
        };

        for (size_t field = 0; field < FIELD_COUNT; field++)
            buf_add(&text, fields[field], strlen(fields[field]) + 1);
    }
    r = file_replace(sandbox_fd, COMMENTS_FILE, text.data, text.len, 0600);
    return r < 0 ? err_errno(err, r, "keeping the comments of a review") : 0;
}

int comment_list_add(struct comment_list *list, const struct comment *comment, struct comment **ret, struct err *err)
{
    struct comment *copy;

    if (list->count >= COMMENTS_MAX)
        return err_set_reason(err,
                              err_set(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT,
                                      "there are %d comments already; delete those that are resolved", COMMENTS_MAX),
                              "TOO_MANY_COMMENTS");
    vec_room(&list->items, &list->cap, list->count);
    copy = &list->items[list->count++];
    *copy = *comment;
    copy->scope_path = xdup(comment->scope_path);
    copy->author = xdup(comment->author);
    copy->claimed = xdup(comment->claimed);
    copy->text = xdup(comment->text);
    copy->resolved_by = xdup("");
    id_new(COMMENT_ID_PREFIX, copy->id);
    *ret = copy;
    return 0;
}

int comment_list_find(struct comment_list *list, const char *id, struct comment **ret, struct err *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].id, id) == 0) {
            *ret = &list->items[i];
            return 0;
        }
    }
    return err_set_reason(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "the review has no comment '%s'", id), "COMMENT_UNKNOWN");
}

void comment_list_remove(struct comment_list *list, struct comment *comment)
{
    size_t after = (size_t) (list->items + list->count - comment) - 1;

    comment_done(comment);
    memmove(comment, comment + 1, after * sizeof(*comment));
    list->count--;
}

/* "" for an unreadable change. */
static void comment_hash_change(const struct file_change *change, char out[CHANGE_HASH_TEXT_MAX])
{
    out[0] = '\0';
    if (change->is_hashed && !change->failure)
        change_hash_text(change->hash, out);
}

int comment_anchor(struct comment *comment, const struct change_set *set, struct file_change *change, struct err *err)
{
    struct file_diff diff = FILE_DIFF_NONE;
    int r = *comment->hunk_id ? file_diff_make(set, change, &diff, err) : file_diff_hash(set, change, err);

    if (r == 0 && *comment->hunk_id && !hunk_list_find(&diff.hunks, comment->hunk_id))
        r = err_set_reason(
            err, err_set(err, ERR_NOT_FOUND, -ENOENT, "the change of '%s' has no hunk '%s'", change->path, comment->hunk_id),
            "HUNK_UNKNOWN");
    comment_hash_change(change, comment->hash);
    file_diff_done(&diff);
    return r;
}

/* Judges the comments from `first` on that are about one file. Compares the text only if one is about a hunk. */
static int comment_list_judge_file(struct comment_list *list, size_t first, const struct change_set *set,
                                   struct file_change *change, struct err *err)
{
    struct file_diff diff = FILE_DIFF_NONE;
    char hash[CHANGE_HASH_TEXT_MAX];
    bool has_hunks = false;
    int r;

    for (size_t i = first; i < list->count; i++)
        has_hunks |= *list->items[i].hunk_id && strcmp(list->items[i].scope_path, change->scope_path) == 0;
    r = has_hunks ? file_diff_make(set, change, &diff, err) : file_diff_hash(set, change, err);
    comment_hash_change(change, hash);
    for (size_t i = first; r == 0 && i < list->count; i++) {
        struct comment *comment = &list->items[i];

        if (strcmp(comment->scope_path, change->scope_path) != 0)
            continue;
        comment->is_outdated =
            *comment->hunk_id ? !hunk_list_find(&diff.hunks, comment->hunk_id) : !*hash || strcmp(comment->hash, hash) != 0;
    }
    file_diff_done(&diff);
    return r;
}

int comment_list_judge(struct comment_list *list, struct change_set *set, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->count; i++) {
        struct file_change *change;
        bool is_first = true;

        for (size_t j = 0; is_first && j < i; j++)
            is_first = strcmp(list->items[j].scope_path, list->items[i].scope_path) != 0;
        if (!is_first)
            continue;
        change = change_set_find_scoped(set, list->items[i].scope_path);
        for (size_t j = i; !change && j < list->count; j++)
            if (strcmp(list->items[j].scope_path, list->items[i].scope_path) == 0)
                list->items[j].is_outdated = true;
        if (change)
            r = comment_list_judge_file(list, i, set, change, err);
    }
    return r;
}
