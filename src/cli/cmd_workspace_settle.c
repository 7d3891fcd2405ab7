/* reject, restore, finish, discard, undo, conflicts and rebase of a workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_help.h"

enum { OPT_STRATEGY = 1, OPT_ACTOR, OPT_OUTCOME, OPT_STOP };

static const struct option options[] = {
    { "dry-run", no_argument, NULL, 'n' },
    { "list", no_argument, NULL, 'l' },
    { "strategy", required_argument, NULL, OPT_STRATEGY },
    { "outcome", required_argument, NULL, OPT_OUTCOME },
    { "actor", required_argument, NULL, OPT_ACTOR },
    { "stop", no_argument, NULL, OPT_STOP },
    API_LONG_OPTIONS,
};

struct settle_options {
    bool is_dry, lists, may_stop;
    const char *strategy, *actor, *outcome;
};

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct settle_options *o = call->own;

    (void) err;
    if (option == 'n')
        o->is_dry = true;
    else if (option == 'l')
        o->lists = true;
    else if (option == OPT_STRATEGY)
        o->strategy = argument;
    else if (option == OPT_OUTCOME)
        o->outcome = argument;
    else if (option == OPT_STOP)
        o->may_stop = true;
    else
        o->actor = argument;
    return 0;
}

/* An option of another of these verbs. */
static int check(struct api_call *call, struct err *err)
{
    const struct settle_options *o = call->own;
    const char *verb = call->verb->name;

    if (o->is_dry && strcmp(verb, "undo") != 0)
        return err_invalid(err, "--dry-run is not for this");
    if (o->strategy && strcmp(verb, "rebase") != 0)
        return err_invalid(err, "--strategy is for 'agentfense rebase'");
    if (o->outcome && strcmp(verb, "finish") != 0)
        return err_invalid(err, "--outcome is for 'agentfense finish'");
    if (o->may_stop && (strcmp(verb, "reject") == 0 || strcmp(verb, "conflicts") == 0))
        return err_invalid(err, "--stop is for 'agentfense approve', 'discard', 'undo' and 'rebase'");
    if (o->lists)
        return err_invalid(err, "the approvals of a workspace are listed by 'agentfense events WORKSPACE'");
    return 0;
}

static json_t *make_body(const struct api_call *call)
{
    const struct settle_options *o = call->own;
    json_t *body = json_object();

    if (o->actor)
        json_object_set_new(body, "actor", json_string(o->actor));
    if (o->is_dry)
        json_object_set_new(body, "dryRun", json_true());
    if (o->outcome)
        json_object_set_new(body, "outcome", json_string(o->outcome));
    if (o->may_stop)
        json_object_set_new(body, "stop", json_true());
    if (o->strategy)
        json_object_set_new(body, "strategy", json_string(o->strategy));
    return body;
}

static void print_paths(FILE *out, const char *before, const json_t *paths)
{
    const json_t *path;
    size_t i;

    json_array_foreach(paths, i, path)
    {
        fputs(before, out);
        output_escaped(out, json_is_string(path) ? json_string_value(path) : json_text(path, "projectPath"));
        fputc('\n', out);
    }
}

/* Files with how they stand, and why. */
static void print_files(const json_t *files)
{
    const json_t *file;
    size_t i;

    json_array_foreach(files, i, file)
    {
        const char *reason = json_text(file, "reason");

        printf("  %s: ", json_text(file, "state"));
        output_escaped(stdout, json_text(file, "projectPath"));
        if (*reason) {
            fputs(": ", stdout);
            output_escaped(stdout, reason);
        }
        putchar('\n');
    }
}

/* ---- reject, restore ---- */

/* The verb is the route's last component. */
static int decide_each(struct api_call *call, struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        char id[UUID_TEXT_MAX];
        autojson answer = NULL;
        int r = workspace_find(call->client, call->words[i], id, err);

        if (r == 0)
            r = workspace_decide(call, make_body(call), &answer, err, "/api/v1/sandboxes/%s/%s", id, call->verb->name);
        if (r != 0)
            return r;
        workspace_print(call, answer, id);
    }
    return 0;
}

static int run_reject(struct api_call *call, struct err *err)
{
    return decide_each(call, err);
}

static int run_restore(struct api_call *call, struct err *err)
{
    return decide_each(call, err);
}

/* ---- finish ---- */

static int run_finish(struct api_call *call, struct err *err)
{
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    const char *reason;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0)
        r = workspace_decide(call, make_body(call), &answer, err, "/api/v1/sandboxes/%s/finish", id);
    if (r != 0)
        return r;
    reason = json_text(answer, "reason");
    if (call->options.is_json) {
        workspace_print(call, answer, NULL);
    } else if (!call->options.is_quiet) {
        printf("decided: %s", json_text(answer, "decision"));
        if (*reason)
            fputs(" (", stdout);
        output_escaped(stdout, reason);
        printf("%s; it is %s\n", *reason ? ")" : "", json_text(answer, "status"));
    }
    return 0;
}

/* ---- discard ---- */

static int run_discard(struct api_call *call, struct err *err)
{
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    json_t *body, *paths = json_array();
    int r = workspace_find(call->client, call->words[0], id, err);

    for (int i = 1; r == 0 && i < call->word_count; i++)
        if (json_array_append_new(paths, json_string(call->words[i])) < 0)
            r = err_reject(err, -EINVAL, call->words[i], "is not UTF-8");
    if (r < 0) {
        json_decref(paths);
        return r;
    }
    body = make_body(call);
    json_object_set_new(body, "filePaths", paths);
    r = workspace_decide(call, body, &answer, err, "/api/v1/sandboxes/%s/discard", id);
    if (r != 0)
        return r;
    if (call->options.is_json)
        workspace_print(call, answer, NULL);
    else if (!call->options.is_quiet)
        printf("discarded the changes of %lld file%s; %lld stay\n", json_number(answer, "discarded"),
               json_number(answer, "discarded") == 1 ? "" : "s", json_number(answer, "remaining"));
    return 0;
}

/* ---- undo ---- */

static int run_undo(struct api_call *call, struct err *err)
{
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    json_t *body;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r < 0)
        return r;
    body = make_body(call);
    if (call->word_count > 1)
        json_object_set_new(body, "approvalId", json_string(call->words[1]));
    r = workspace_decide(call, body, &answer, err, "/api/v1/sandboxes/%s/undo", id);
    if (r == EXIT_REFUSED && !call->options.is_json)
        print_paths(stderr, "  changed since: ", json_object_get(json_object_get(answer, "details"), "changedSince"));
    if (r != 0)
        return r;
    if (call->options.is_json)
        workspace_print(call, answer, NULL);
    else if (!call->options.is_quiet && json_is_true(json_object_get(answer, "dryRun")))
        printf("would take back approval %s\n", json_text(answer, "approvalId"));
    else if (!call->options.is_quiet)
        printf("took back %lld path%s of approval %s\n", json_number(answer, "undone"),
               json_number(answer, "undone") == 1 ? "" : "s", json_text(answer, "approvalId"));
    if (!call->options.is_json && *json_text(answer, "note"))
        fprintf(stderr,
                "its paths are reserved by another workspace; 'agentfense restore %.8s' reopens it when they are free\n", id);
    return 0;
}

/* ---- conflicts, rebase ---- */

static int run_conflicts(struct api_call *call, struct err *err)
{
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    bool is_conflict;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0)
        r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/sandboxes/%s/conflicts", id);
    if (r < 0)
        return r;
    is_conflict = json_is_true(json_object_get(answer, "hasConflict"));
    if (call->options.is_json) {
        workspace_print(call, answer, NULL);
    } else if (!call->options.is_quiet) {
        size_t moved = json_array_size(json_object_get(answer, "repoChangedFiles"));

        print_files(json_object_get(answer, "files"));
        printf("%zu conflict%s; %zu of its files changed in the project too\n",
               json_array_size(json_object_get(answer, "conflictingFiles")),
               json_array_size(json_object_get(answer, "conflictingFiles")) == 1 ? "" : "s", moved);
    }
    return is_conflict ? EXIT_REFUSED : 0;
}

static int run_rebase(struct api_call *call, struct err *err)
{
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    bool is_done;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0)
        r = workspace_decide(call, make_body(call), &answer, err, "/api/v1/sandboxes/%s/rebase", id);
    if (r != 0)
        return r;
    is_done = json_is_true(json_object_get(answer, "success"));
    if (call->options.is_json) {
        workspace_print(call, answer, NULL);
    } else if (!call->options.is_quiet) {
        print_files(json_object_get(answer, "files"));
        if (is_done)
            puts("its changes stand on the project as it is now");
        else
            printf("%zu conflicts are left\n", json_array_size(json_object_get(answer, "conflictingFiles")));
    }
    return is_done ? 0 : EXIT_REFUSED;
}

#define SETTLE_VERB(verb, least, most, help_text)                                                                              \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .last = API_LAST_WORKSPACE,                                                                                        \
            .help = help_text API_LAST_HELP API_OPTIONS_HELP,                                                                  \
            .letters = "nl",                                                                                                   \
            .options = options,                                                                                                \
            .words_min = least,                                                                                                \
            .words_max = most,                                                                                                 \
            .own_size = sizeof(struct settle_options),                                                                         \
            .take = take,                                                                                                      \
            .check = check,                                                                                                    \
            .run = run_##verb,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

SETTLE_VERB(
    reject, 1, -1,
    "usage: agentfense reject [options] WORKSPACE...\n\n"
    "Ends a workspace: its processes and its mount go, nothing of it is written, and its changes stay on disk until it\n"
    "is collected ('agentfense gc'). 'agentfense restore' brings it back.\n\n"
    "  --actor NAME           who says so\n")
SETTLE_VERB(
    restore, 1, -1,
    "usage: agentfense restore [options] WORKSPACE...\n\n"
    "Brings a workspace back that was rejected, approved or removed: it is stopped then, with all its changes. One that was\n"
    "removed can be restored for as long as the server keeps it ('agentfense inspect' tells until when), unless it was "
    "removed\n"
    "with --purge.\n\n"
    "  --actor NAME           who says so\n")
SETTLE_VERB(
    finish, 1, 1,
    "usage: agentfense finish [options] WORKSPACE\n\n"
    "Tells that the agent's work in a workspace is over. It is approved or rejected then, if it was made so that this needs "
    "no\n"
    "person (autoApprove, autoReject), and stopped or removed, if it was made so (stopOn, deleteOn). Otherwise it stays.\n\n"
    "  --outcome NAME         completed (without: this), failed or cancelled\n"
    "  --actor NAME           who says so\n")
SETTLE_VERB(discard, 2, -1, DISCARD_HELP)
SETTLE_VERB(undo, 1, 2, UNDO_HELP)
SETTLE_VERB(
    conflicts, 1, 1,
    "usage: agentfense conflicts [options] WORKSPACE\n\n"
    "Tells how the changes of a workspace stand to the project as it is now: what can be written as it is, what would be\n"
    "merged, and what is in conflict. Exits with 1 when there are conflicts.\n\n")
SETTLE_VERB(rebase, 1, 1,
            "usage: agentfense rebase [options] WORKSPACE\n\n"
            "Brings the changes of a workspace onto the project as it is now. Exits with 1 when conflicts are left.\n\n"
            "  --strategy NAME        regenerate, merge, ours or theirs\n"
            "  --stop                 it may be stopped for this and started again, where its driver needs that\n"
            "  --actor NAME           who says so\n")
