#include "service/review_comments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "review/file_id.h"
#include "service/reviews_int.h"

void review_comments_done(struct review_comments *comments)
{
    free(comments->prefix);
    comment_list_done(&comments->list);
    *comments = (struct review_comments){ .prefix = NULL };
}

static int comment_check_request(const struct review_comment_request *request, struct err *err)
{
    if (!*request->path && !*request->file_id)
        return err_invalid(err, "path or file_id is required");
    if (!*request->text)
        return err_invalid(err, "text is required");
    if (strlen(request->text) > COMMENT_TEXT_MAX || !utf8_is_valid(request->text, strlen(request->text)))
        return err_invalid(err, "text must be UTF-8 of at most %d bytes", COMMENT_TEXT_MAX);
    if (strlen(request->actor) > COMMENT_AUTHOR_MAX)
        return err_invalid(err, "actor is longer than %d bytes", COMMENT_AUTHOR_MAX);
    if (strlen(request->hunk_id) > HUNK_ID_LEN)
        return err_reject(err, -EINVAL, request->hunk_id, "is no id of a hunk");
    return 0;
}

static void comment_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row,
                         const struct comment *comment, const char *type, const char *actor)
{
    char file_id[FILE_ID_LEN + 1] = "";

    file_id_make(row->id, comment->scope_path, file_id);
    json_t *details = json_pack("{s:s, s:s, s:s}", "commentId", comment->id, "fileId", file_id, "hunkId", comment->hunk_id);
    if (utf8_is_valid(comment->scope_path, strlen(comment->scope_path)))
        json_object_set_new(details, "path", json_string(comment->scope_path));
    if (comment->line)
        json_object_set_new(details, "line", json_integer(comment->line));
    sandbox_tell(service, caller, row, type, actor, details);
}

/* The comments of one sandbox, locked for a change. */
struct comment_edit {
    struct sandbox_conn *conn; /* its `life` is locked */
    int dir_fd;                /* owned */
    struct comment_list list;
};

static int comment_edit_begin(struct service *service, const struct sandbox_row *row, struct comment_edit *ret, struct err *err)
{
    int r;

    ret->conn = sandbox_conn_get(&service->conns, row->id);
    pthread_mutex_lock(&ret->conn->life);
    ret->dir_fd = openat(service->state_dir.sandboxes_fd, row->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = ret->dir_fd < 0 ? -errno : 0;
    if (r < 0)
        return err_errno(err, r, "opening sandbox %s", row->id);
    return comment_list_load(ret->dir_fd, &ret->list, err);
}

static int comment_edit_save(struct comment_edit *edit, struct err *err)
{
    int r;

    fault("comments_before_save");
    r = comment_list_save(edit->dir_fd, &edit->list, err);
    fault("comments_saved");
    return r;
}

static void comment_edit_done(struct comment_edit *edit)
{
    comment_list_done(&edit->list);
    cleanup_fd(&edit->dir_fd);
    if (!edit->conn)
        return;
    pthread_mutex_unlock(&edit->conn->life);
    sandbox_conn_unref(edit->conn);
}

/* Moves one comment to `ret`, for the response. */
static void comment_take_out(struct comment_edit *edit, struct comment *comment, struct review_comments *ret)
{
    vec_room(&ret->list.items, &ret->list.cap, ret->list.count);
    ret->list.items[ret->list.count++] = *comment;
    *comment = edit->list.items[--edit->list.count];
}

int reviews_comment_add(struct service *service, const struct caller *caller, const char *id,
                        const struct review_comment_request *request, struct review_comments *ret, struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autodone(comment_edit) struct comment_edit edit = { .dir_fd = -1 };
    autofree char *author = caller_name(caller);
    struct comment wanted = { .author = author,
                              .claimed = (char *) (uintptr_t) request->actor,
                              .text = (char *) (uintptr_t) request->text,
                              .line = request->line,
                              .is_old_line = request->is_old_line,
                              .time_ns = clock_wall_ns() };
    struct file_change *change = NULL;
    struct comment *added = NULL;
    int r = comment_check_request(request, err);

    if (r == 0)
        r = reviews_diff(service, caller, id, &diff, err);
    if (r == 0)
        r = review_find_change(&diff.set, diff.row.id, request->path, request->file_id, &change, err);
    if (r < 0)
        return r;
    strcpy(wanted.hunk_id, request->hunk_id);
    wanted.scope_path = (char *) (uintptr_t) change->scope_path;
    r = comment_anchor(&wanted, &diff.set, change, err);
    if (r == 0)
        r = comment_edit_begin(service, &diff.row, &edit, err);
    if (r == 0)
        r = comment_list_add(&edit.list, &wanted, &added, err);
    if (r == 0)
        r = comment_edit_save(&edit, err);
    if (r < 0)
        return r;
    comment_tell(service, caller, &diff.row, added, "sandbox_commented", request->actor);
    strcpy(ret->sandbox_id, diff.row.id);
    ret->prefix = steal_ptr(&diff.prefix);
    comment_take_out(&edit, added, ret);
    return 0;
}

/* Marks outdated comments, by the present changes. */
static int comment_judge(struct review_diff *diff, struct review_comments *ret, struct err *err)
{
    strcpy(ret->sandbox_id, diff->row.id);
    ret->prefix = steal_ptr(&diff->prefix);
    return comment_list_judge(&ret->list, &diff->set, err);
}

int reviews_comment_list(struct service *service, const struct caller *caller, const char *id, struct review_comments *ret,
                         struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autofd int dir_fd = -1;
    int r = reviews_diff(service, caller, id, &diff, err);

    if (r < 0)
        return r;
    dir_fd = openat(service->state_dir.sandboxes_fd, diff.row.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* A sandbox whose creation failed has no directory. */
    if (dir_fd >= 0)
        r = comment_list_load(dir_fd, &ret->list, err);
    return r < 0 ? r : comment_judge(&diff, ret, err);
}

int reviews_comment_resolve(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                            bool reopens, const char *actor, struct review_comments *ret, struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autodone(comment_edit) struct comment_edit edit = { .dir_fd = -1 };
    struct comment *comment = NULL;
    bool is_new;
    int r = strlen(actor) > COMMENT_AUTHOR_MAX ? err_invalid(err, "actor is longer than %d bytes", COMMENT_AUTHOR_MAX) : 0;

    if (r == 0)
        r = reviews_diff(service, caller, id, &diff, err);
    if (r == 0)
        r = comment_edit_begin(service, &diff.row, &edit, err);
    if (r == 0)
        r = comment_list_find(&edit.list, comment_id, &comment, err);
    if (r < 0)
        return r;
    is_new = reopens != (comment->resolved_ns == 0);
    if (is_new) {
        free(comment->resolved_by);
        comment->resolved_by = reopens ? xdup("") : caller_name(caller);
        comment->resolved_ns = reopens ? 0 : clock_wall_ns();
        r = comment_edit_save(&edit, err);
    }
    if (r < 0)
        return r;
    if (is_new)
        comment_tell(service, caller, &diff.row, comment, reopens ? "sandbox_comment_reopened" : "sandbox_comment_resolved",
                     actor);
    comment_take_out(&edit, comment, ret);
    return comment_judge(&diff, ret, err);
}

int reviews_comment_delete(struct service *service, const struct caller *caller, const char *id, const char *comment_id,
                           const char *actor, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autodone(comment_edit) struct comment_edit edit = { .dir_fd = -1 };
    struct comment *comment = NULL;
    int r = strlen(actor) > COMMENT_AUTHOR_MAX ? err_invalid(err, "actor is longer than %d bytes", COMMENT_AUTHOR_MAX) : 0;

    if (r == 0)
        r = service_get_sandbox(service, caller, id, &row, err);
    if (r == 0)
        r = comment_edit_begin(service, &row, &edit, err);
    if (r == 0)
        r = comment_list_find(&edit.list, comment_id, &comment, err);
    if (r < 0)
        return r;
    struct comment deleted = *comment;
    deleted.scope_path = xdup(comment->scope_path);
    comment_list_remove(&edit.list, comment);
    r = comment_edit_save(&edit, err);
    if (r == 0)
        comment_tell(service, caller, &row, &deleted, "sandbox_comment_deleted", actor);
    free(deleted.scope_path);
    return r;
}
