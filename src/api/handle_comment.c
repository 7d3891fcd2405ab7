/* Reviewers' comments on the changes of a sandbox. */
#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/review_message.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/review_comments.h"

static Sandbox__V1__ReviewComment *make_comment(const struct review_comments *comments, const struct comment *comment)
{
    Sandbox__V1__ReviewComment *out = message_new(&sandbox__v1__review_comment__descriptor);

    out->id = xdup(comment->id);
    out->sandbox_id = xdup(comments->sandbox_id);
    set_change_paths(&out->file_id, &out->path, &out->scope_path, comments->sandbox_id, comments->prefix, comment->scope_path);
    out->hunk_id = xdup(comment->hunk_id);
    out->line = (int32_t) comment->line;
    out->old_line = comment->is_old_line;
    out->text = make_string(comment->text);
    out->author = make_string(comment->author);
    out->actor = make_string(comment->claimed);
    out->created_at = make_timestamp(comment->time_ns);
    out->resolved = comment->resolved_ns != 0;
    out->resolved_by = make_string(comment->resolved_by);
    out->resolved_at = make_timestamp(comment->resolved_ns);
    out->outdated = comment->is_outdated;
    return out;
}

int handle_add_review_comment(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__AddReviewCommentRequest *in = message;
    const struct review_comment_request wanted = { .path = in->path,
                                                   .file_id = in->file_id,
                                                   .hunk_id = in->hunk_id,
                                                   .line = (uint32_t) in->line,
                                                   .is_old_line = in->old_line,
                                                   .text = in->text,
                                                   .actor = in->actor };
    autodone(review_comments) struct review_comments added = { .prefix = NULL };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0 && in->line < 0)
        r = err_invalid(err, "line must not be negative");
    if (r == 0)
        r = reviews_comment_add(request->service, &request->caller, id, &wanted, &added, err);
    if (r == 0)
        *ret = &make_comment(&added, &added.list.items[0])->base;
    return r;
}

/* `path` is clean, without a leading slash; "" is everything. */
static bool path_is_at_or_beneath(const char *path, const char *file)
{
    size_t len = strlen(path);

    return len == 0 || (strncmp(path, file, len) == 0 && (file[len] == '\0' || file[len] == '/'));
}

static bool comment_is_at(const char *wanted, const struct review_comments *comments, const struct comment *comment)
{
    autofree char *path =
        *comments->prefix ? xprintf("%s/%s", comments->prefix, comment->scope_path) : xdup(comment->scope_path);

    return path_is_at_or_beneath(wanted, path) || path_is_at_or_beneath(wanted, comment->scope_path);
}

/* A token is the id of the last of its page. */
int handle_list_review_comments(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListReviewCommentsRequest *in = message;
    autodone(review_comments) struct review_comments comments = { .prefix = NULL };
    autodone(buf) struct buf wanted = BUF_EMPTY;
    size_t max = take_bounded_page_size(in->page_size), bytes = 0, last = 0;
    bool is_behind = !*in->page_token, is_full = false;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0 && path_clean(*in->path ? in->path : "/", *in->path ? strlen(in->path) : 1, &wanted) < 0)
        r = err_reject(err, -EINVAL, in->path, "is no path of a file");
    if (r == 0)
        r = reviews_comment_list(request->service, &request->caller, id, &comments, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListReviewCommentsResponse *out = message_new(&sandbox__v1__list_review_comments_response__descriptor);
    out->comments = xalloc((comments.list.count + 1) * sizeof(*out->comments));
    for (size_t i = 0; i < comments.list.count; i++) {
        const struct comment *comment = &comments.list.items[i];

        if ((!in->open || comment->resolved_ns == 0) && comment_is_at(wanted.data + 1, &comments, comment)) {
            out->total++;
            out->unresolved += comment->resolved_ns == 0;
            is_full |= out->n_comments >= max || bytes >= REVIEW_ANSWER_BYTES;
            if (is_behind && is_full && !out->next_page_token[0])
                out->next_page_token = xdup(comments.list.items[last].id);
            if (is_behind && !is_full) {
                out->comments[out->n_comments] = make_comment(&comments, comment);
                bytes += protobuf_c_message_get_packed_size(&out->comments[out->n_comments++]->base);
                last = i;
            }
        }
        is_behind |= strcmp(comment->id, in->page_token) == 0;
    }
    *ret = &out->base;
    if (is_behind)
        return 0;
    request_free(ret);
    *ret = NULL;
    return err_invalid(err, "page_token is not of this list");
}

int handle_resolve_review_comment(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ResolveReviewCommentRequest *in = message;
    autodone(review_comments) struct review_comments comments = { .prefix = NULL };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->comment_id, "comment_id", err);
    if (r == 0)
        r = reviews_comment_resolve(request->service, &request->caller, id, in->comment_id, in->reopen, in->actor, &comments,
                                    err);
    if (r == 0)
        *ret = &make_comment(&comments, &comments.list.items[0])->base;
    return r;
}

int handle_delete_review_comment(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DeleteReviewCommentRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->comment_id, "comment_id", err);
    if (r == 0)
        r = reviews_comment_delete(request->service, &request->caller, id, in->comment_id, in->actor, err);
    if (r == 0)
        *ret = make_empty();
    return r;
}
