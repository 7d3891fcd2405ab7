/* comments: lists, adds and resolves the comments of reviewers on the changes of a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/client_verbs.h"
#include "cli/output.h"
#include "cli/review_call.h"

#define PAGE 1000

enum { OPT_ADD = 1, OPT_LINE, OPT_OLD_LINE, OPT_HUNK, OPT_RESOLVE, OPT_REOPEN, OPT_DELETE, OPT_OPEN, OPT_ACTOR };

static const struct option options[] = {
    { "add", required_argument, NULL, OPT_ADD },           { "line", required_argument, NULL, OPT_LINE },
    { "old-line", required_argument, NULL, OPT_OLD_LINE }, { "hunk", required_argument, NULL, OPT_HUNK },
    { "resolve", required_argument, NULL, OPT_RESOLVE },   { "reopen", required_argument, NULL, OPT_REOPEN },
    { "delete", required_argument, NULL, OPT_DELETE },     { "open", no_argument, NULL, OPT_OPEN },
    { "actor", required_argument, NULL, OPT_ACTOR },       API_LONG_OPTIONS,
};

struct comments_options {
    int action; /* OPT_ADD, OPT_RESOLVE, OPT_REOPEN, OPT_DELETE; 0: list */
    char *text; /* of the action: the text to add, or the id of a comment */
    char *hunk, *actor;
    int32_t line;
    bool is_old_line, only_open;
};

static int comments_take_line(struct comments_options *o, bool is_old, const char *text, struct err *err)
{
    char *end;
    long line = strtol(text, &end, 10);

    if (*end || end == text || line < 1 || line > INT32_MAX)
        return err_invalid(err, "%s '%s' is not a line number", is_old ? "--old-line" : "--line", text);
    if (o->line)
        return err_invalid(err, "a comment is about one line: give --line or --old-line once");
    o->line = (int32_t) line;
    o->is_old_line = is_old;
    return 0;
}

static int comments_take_option(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct comments_options *o = call->own;

    if (argument && !utf8_is_valid(argument, strlen(argument)))
        return err_reject(err, -EINVAL, argument, "is not UTF-8");
    switch (option) {
    case OPT_LINE:
    case OPT_OLD_LINE:
        return comments_take_line(o, option == OPT_OLD_LINE, argument, err);
    case OPT_OPEN:
        o->only_open = true;
        return 0;
    case OPT_HUNK:
        o->hunk = (char *) argument;
        return 0;
    case OPT_ACTOR:
        o->actor = (char *) argument;
        return 0;
    default:
        if (o->action)
            return err_invalid(err, "--add, --resolve, --reopen and --delete exclude each other; choose one");
        o->action = option;
        o->text = (char *) argument;
        return 0;
    }
}

static int comments_check(struct api_call *call, struct err *err)
{
    const struct comments_options *o = call->own;

    if (o->action == OPT_ADD && call->word_count < 2)
        return err_invalid(err, "give the file that the comment is about: agentfense comments SANDBOX PATH --add TEXT");
    if (o->action && o->action != OPT_ADD && call->word_count > 1)
        return err_invalid(err, "a comment is named by its id; leave '%s' out", call->words[1]);
    if (o->action != OPT_ADD && (o->line || o->hunk))
        return err_invalid(err, "--line, --old-line and --hunk are for --add");
    return o->action && o->only_open ? err_invalid(err, "--open is for lists") : 0;
}

/* ---- printing ---- */

static void comments_print_lines(const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        autofree char *line = xdupn(text, len);

        fputs("  ", stdout);
        output_escaped(stdout, line);
        putchar('\n');
        text += len + (text[len] == '\n');
    }
}

static void comments_print(const Sandbox__V1__ReviewComment *comment)
{
    char time[CLOCK_TEXT_MAX] = "-";

    if (comment->created_at)
        clock_format((struct timespec){ .tv_sec = comment->created_at->seconds, .tv_nsec = comment->created_at->nanos }, 0,
                     time);
    output_escaped(stdout, comment->path);
    if (comment->line > 0)
        printf(":%d%s", comment->line, comment->old_line ? " (before)" : "");
    printf("  %s  %s  ", comment->id, time);
    output_escaped(stdout, *comment->actor ? comment->actor : comment->author);
    printf("%s%s\n", comment->resolved ? "  resolved" : "", comment->outdated ? "  outdated" : "");
    comments_print_lines(comment->text);
}

struct comments_list {
    const struct api_call *call;
    json_t *items; /* with --json */
};

static int comments_on_item(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const struct comments_list *list = cookie;

    (void) err;
    if (list->call->options.is_json)
        json_array_append_new(list->items, api_message_json(item));
    else if (list->call->options.is_quiet)
        puts(((const Sandbox__V1__ReviewComment *) (const void *) item)->id);
    else
        comments_print((const void *) item);
    return 0;
}

/* ---- the actions ---- */

static int comments_run_list(struct api_call *call, struct err *err)
{
    const struct comments_options *o = call->own;
    Sandbox__V1__ListReviewCommentsRequest request = SANDBOX__V1__LIST_REVIEW_COMMENTS_REQUEST__INIT;
    struct comments_list list = { call, json_array() };
    int r;

    request.sandbox_id = call->words[0];
    request.path = call->word_count > 1 ? call->words[1] : (char *) "";
    request.open = o->only_open;
    request.page_size = PAGE;
    r = review_list(call, "ListReviewComments", &request.base, comments_on_item, &list, err);
    if (r == 0 && call->options.is_json)
        output_json(json_pack("{s:O}", "comments", list.items));
    json_decref(list.items);
    return r;
}

static int comments_run_add(struct api_call *call, struct err *err)
{
    const struct comments_options *o = call->own;
    Sandbox__V1__AddReviewCommentRequest request = SANDBOX__V1__ADD_REVIEW_COMMENT_REQUEST__INIT;
    autodone(review_paths) struct review_paths paths = { 0 };
    automessage answer = NULL;
    int r = review_paths_take(call, 1, &paths, err);

    if (r != 0)
        return r;
    request.sandbox_id = call->words[0];
    if (paths.path_count > 0)
        request.path = paths.paths[0];
    else
        request.file_id = paths.ids[0];
    request.hunk_id = o->hunk ? o->hunk : (char *) "";
    request.line = o->line;
    request.old_line = o->is_old_line;
    request.text = o->text;
    request.actor = o->actor ? o->actor : (char *) "";
    r = review_ask(call, call->words[0], "AddReviewComment", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, ((const Sandbox__V1__ReviewComment *) (const void *) answer)->id);
    return r;
}

static int comments_run_resolve(struct api_call *call, struct err *err)
{
    const struct comments_options *o = call->own;
    Sandbox__V1__ResolveReviewCommentRequest request = SANDBOX__V1__RESOLVE_REVIEW_COMMENT_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = call->words[0];
    request.comment_id = o->text;
    request.reopen = o->action == OPT_REOPEN;
    request.actor = o->actor ? o->actor : (char *) "";
    r = review_ask(call, call->words[0], "ResolveReviewComment", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, o->text);
    return r;
}

static int comments_run_delete(struct api_call *call, struct err *err)
{
    const struct comments_options *o = call->own;
    Sandbox__V1__DeleteReviewCommentRequest request = SANDBOX__V1__DELETE_REVIEW_COMMENT_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = call->words[0];
    request.comment_id = o->text;
    request.actor = o->actor ? o->actor : (char *) "";
    r = review_ask(call, call->words[0], "DeleteReviewComment", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, o->text);
    return r;
}

static int comments_run(struct api_call *call, struct err *err)
{
    switch (((const struct comments_options *) call->own)->action) {
    case OPT_ADD:
        return comments_run_add(call, err);
    case OPT_DELETE:
        return comments_run_delete(call, err);
    case 0:
        return comments_run_list(call, err);
    default:
        return comments_run_resolve(call, err);
    }
}

int cmd_comments(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "comments",
        .last = API_LAST_WORKSPACE,
        .help =
            "usage: agentfense comments SANDBOX [PATH] [--open]\n"
            "       agentfense comments SANDBOX PATH --add TEXT [--line N | --old-line N | --hunk ID]\n"
            "       agentfense comments SANDBOX --resolve ID | --reopen ID | --delete ID\n\n"
            "Lists reviewers' comments on the changes of a sandbox, at and below PATH or all, the oldest first; adds one; or\n"
            "resolves one. A comment stays until it is deleted, also when the change no longer exists.\n\n"
            "  --open                 only comments that are not resolved\n"
            "  --add TEXT             comment on the change of PATH\n"
            "  --line N               on this line of the new text\n"
            "  --old-line N           on this line of the text before the change\n"
            "  --hunk ID              on this hunk; 'agentfense diff --json' prints the ids\n"
            "  --resolve ID           mark the comment as resolved\n"
            "  --reopen ID            mark it as open again\n"
            "  --delete ID            remove the comment\n"
            "  --actor NAME           who does this\n" API_LAST_HELP API_OPTIONS_HELP,
        .options = options,
        .words_min = 1,
        .words_max = 2,
        .own_size = sizeof(struct comments_options),
        .take = comments_take_option,
        .check = comments_check,
        .run = comments_run,
    };

    return api_verb_run(&verb, argc, argv);
}
