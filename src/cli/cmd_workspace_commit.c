/* pending, provenance, commit and gc: of what was approved, and of workspaces that are over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/grid.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_table.h"

enum { OPT_PROJECT = 1, OPT_ACTOR, OPT_DRY_RUN, OPT_OLDER_THAN, OPT_IDLE, OPT_LIMIT, OPT_TRASH, OPT_TERMINAL, OPT_PATH };

static const struct option options[] = {
    { "project", required_argument, NULL, OPT_PROJECT },
    { "message", required_argument, NULL, 'm' },
    { "actor", required_argument, NULL, OPT_ACTOR },
    { "dry-run", no_argument, NULL, 'n' },
    { "older-than", required_argument, NULL, OPT_OLDER_THAN },
    { "max-age", required_argument, NULL, OPT_OLDER_THAN },
    { "idle", required_argument, NULL, OPT_IDLE },
    { "limit", required_argument, NULL, OPT_LIMIT },
    { "trash", required_argument, NULL, OPT_TRASH },
    { "include-terminal", no_argument, NULL, OPT_TERMINAL },
    { "path", required_argument, NULL, OPT_PATH },
    API_LONG_OPTIONS,
};

struct commit_options {
    const char *project, *message, *actor, *older_than, *idle, *limit, *path, *trash;
    bool is_dry, with_terminal;
};

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct commit_options *o = call->own;
    const char **place = option == OPT_PROJECT      ? &o->project
                         : option == 'm'            ? &o->message
                         : option == OPT_ACTOR      ? &o->actor
                         : option == OPT_OLDER_THAN ? &o->older_than
                         : option == OPT_TRASH      ? &o->trash
                         : option == OPT_IDLE       ? &o->idle
                         : option == OPT_LIMIT      ? &o->limit
                                                    : &o->path;

    (void) err;
    if (option == 'n')
        o->is_dry = true;
    else if (option == OPT_TERMINAL)
        o->with_terminal = true;
    else
        *place = argument;
    return 0;
}

/* Text of an option into the body; what is not UTF-8 is refused. */
static int set_text(json_t *body, const char *key, const char *text, struct err *err)
{
    json_t *value = text ? json_string(text) : NULL;

    if (text && !value)
        return err_invalid(err, "%s is not UTF-8", key);
    if (value)
        json_object_set_new(body, key, value);
    return 0;
}

/* A project that is not there has nothing, and is no project. */
static int find_project(const char *given, char **ret, struct err *err)
{
    autofree char *real = realpath(given, NULL);

    if (!real)
        return err_errno(err, -errno, "--project '%s'", given);
    *ret = steal_ptr(&real);
    return 0;
}

static int check_span(const char *option, const char *given, struct err *err)
{
    int64_t ns;
    int r = given ? clock_parse_duration(given, &ns, err) : 0;

    return r < 0 ? err_wrap(err, r, "%s", option) : 0;
}

static bool printed_as_json(const struct api_call *call, json_t *answer)
{
    if (call->options.is_json)
        output_json(json_incref(answer));
    return call->options.is_json;
}

/* ---- pending ---- */

static void add_pending(struct grid *grid, const json_t *item)
{
    grid_add(grid, json_text(item, "sandboxId"));
    grid_add(grid, *json_text(item, "sandboxOwner") ? json_text(item, "sandboxOwner") : "-");
    grid_add_number(grid, json_number(item, "fileCount"));
    grid_add(grid, json_text(item, "latestApplied"));
    grid_add(grid, json_text(item, "projectRoot"));
}

static int run_pending(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "WORKSPACE", "OWNER", "FILES", "APPROVED", "PROJECT", NULL };
    static const struct workspace_table table = { "summaries", "sandboxId", titles, add_pending };
    const struct commit_options *o = call->own;
    autodone(buf) struct buf path = BUF_EMPTY;
    autofree char *project = NULL;
    autojson answer = NULL;
    int r = o->project ? find_project(o->project, &project, err) : 0;

    if (r < 0)
        return r;
    buf_add_str(&path, "/api/v1/pending?limit=10000");
    workspace_add_query(&path, "projectRoot", project);
    r = workspace_ask(call, "GET", NULL, &answer, err, "%s", path.data);
    if (r == 0)
        workspace_table_print(&table, call, answer);
    return r;
}

/* ---- provenance ---- */

static void add_applied(struct grid *grid, const json_t *item)
{
    const char *commit = json_text(item, "commitHash");

    grid_add(grid, json_text(item, "appliedAt"));
    grid_add(grid, json_text(item, "changeType"));
    grid_add(grid, json_text(item, "sandboxId"));
    grid_add(grid, *json_text(item, "sandboxOwner") ? json_text(item, "sandboxOwner") : "-");
    grid_add(grid, json_object_get(item, "undoneAt") ? "(undone)" : *commit ? commit : "-");
}

static int run_provenance(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "APPROVED", "CHANGE", "WORKSPACE", "OWNER", "COMMIT", NULL };
    static const struct workspace_table table = { "changes", NULL, titles, add_applied };
    const struct commit_options *o = call->own;
    const char *word = call->word_count ? call->words[0] : o->path;
    autodone(buf) struct buf path = BUF_EMPTY;
    autofree char *project = o->project ? workspace_absolute(o->project) : NULL, *file = NULL;
    autojson answer = NULL;
    int r;

    if (!word)
        return err_invalid(err, "PATH is missing; usage: agentfense provenance [options] PATH");
    file = o->project ? xdup(word) : workspace_absolute(word);
    buf_add_str(&path, "/api/v1/provenance?limit=1000");
    workspace_add_query(&path, "path", file);
    workspace_add_query(&path, "projectRoot", project);
    r = workspace_ask(call, "GET", NULL, &answer, err, "%s", path.data);
    if (r == 0)
        workspace_table_print(&table, call, answer);
    return r;
}

/* ---- commit ---- */

static void print_preview(const json_t *answer)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(answer, "files"), i, file)
    {
        printf("  %s %s: ", json_text(file, "status"), json_text(file, "changeType"));
        output_escaped(stdout, json_text(file, "relativePath"));
        printf("%s%s\n", *json_text(file, "reason") ? " " : "", json_text(file, "reason"));
    }
    if (json_number(answer, "blockedFiles") > 0)
        puts("nothing can be committed before that");
    else
        printf("would commit %lld files\n", json_number(answer, "committableFiles"));
}

static int fill_commit(struct api_call *call, json_t *body, struct err *err)
{
    const struct commit_options *o = call->own;
    autofree char *project = o->project || call->word_count ? NULL : workspace_absolute(".");
    json_t *ids = json_array();
    int r = o->project ? find_project(o->project, &project, err) : 0;

    if (r == 0)
        r = set_text(body, "projectRoot", project, err);
    if (r == 0 && !o->is_dry)
        r = set_text(body, "commitMessage", o->message, err);
    if (r == 0)
        r = set_text(body, "actor", o->actor, err);
    for (int i = 0; r == 0 && i < call->word_count; i++) {
        char id[UUID_TEXT_MAX];
        autojson row = NULL;

        r = workspace_find(call->client, call->words[i], id, err);
        if (r == 0)
            json_array_append_new(ids, json_string(id));
        if (r == 0 && !json_object_get(body, "projectRoot")) {
            r = workspace_ask(call, "GET", NULL, &row, err, "/api/v1/sandboxes/%s", id);
            json_object_set_new(body, "projectRoot", json_string(json_text(row, "projectRoot")));
        }
    }
    if (json_array_size(ids) > 0)
        json_object_set(body, "sandboxIds", ids);
    json_decref(ids);
    return r;
}

static int run_commit(struct api_call *call, struct err *err)
{
    const struct commit_options *o = call->own;
    json_t *body = json_object();
    autojson answer = NULL;
    int r = fill_commit(call, body, err);

    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = workspace_decide(call, body, &answer, err, "/api/v1/commit-%s", o->is_dry ? "preview" : "pending");
    if (r != 0 || printed_as_json(call, answer))
        return r;
    if (o->is_dry)
        print_preview(answer);
    else if (json_number(answer, "filesCommitted") == 0)
        puts("nothing to commit");
    else
        printf("committed %lld file%s: %s\n", json_number(answer, "filesCommitted"),
               json_number(answer, "filesCommitted") == 1 ? "" : "s", json_text(answer, "commitHash"));
    return 0;
}

/* ---- gc ---- */

static int fill_gc(const struct commit_options *o, json_t *body, struct err *err)
{
    json_t *policy = json_object();
    char *end = NULL;
    long long limit = o->limit ? strtoll(o->limit, &end, 10) : 0;
    int r = o->limit && (*end || limit < 1) ? err_invalid(err, "--limit '%s' is no number above 0", o->limit) : 0;

    if (r == 0)
        r = check_span("--older-than", o->older_than, err);
    if (r == 0)
        r = check_span("--idle", o->idle, err);
    if (r == 0)
        r = check_span("--trash", o->trash, err);
    if (r == 0)
        r = set_text(policy, "maxAge", o->older_than, err);
    if (r == 0)
        r = set_text(policy, "idleTimeout", o->idle, err);
    if (r == 0)
        r = set_text(policy, "trashDelay", o->trash, err);
    if (r == 0)
        r = set_text(body, "actor", o->actor, err);
    if (o->with_terminal || o->older_than)
        json_object_set_new(policy, "statuses", json_pack("[s, s, s, s]", "stopped", "error", "approved", "rejected"));
    if (o->with_terminal && !o->older_than)
        json_object_set_new(policy, "includeTerminal", json_true());
    if (json_object_size(policy) > 0)
        json_object_set(body, "policy", policy);
    json_decref(policy);
    if (o->limit)
        json_object_set_new(body, "limit", json_integer(limit));
    if (o->is_dry)
        json_object_set_new(body, "dryRun", json_true());
    return r;
}

/* What is removed now is in the trash, too, and not counted here. */
static void print_trash(const json_t *trash, bool is_dry)
{
    long long kept = json_number(trash, "kept"), purged = json_number(trash, "purged");

    if (purged > 0)
        printf("%s %lld from the trash, %lld KiB on disk\n", is_dry ? "would remove" : "removed", purged,
               json_number(trash, "purgedBytes") / 1024);
    if (kept > 0)
        printf("%lld in the trash, %lld KiB on disk\n", kept, json_number(trash, "keptBytes") / 1024);
}

static void print_collected(const json_t *answer)
{
    static const char *const titles[] = { "ID", "STATUS", "SIZE", "CREATED", "REASON", NULL };
    const json_t *item;
    struct grid grid;
    size_t i;

    grid_init(&grid, titles);
    json_array_foreach(json_object_get(answer, "collected"), i, item)
    {
        grid_add(&grid, json_text(item, "id"));
        grid_add(&grid, json_text(item, "status"));
        grid_add_size(&grid, json_number(item, "sizeBytes"));
        grid_add(&grid, json_text(item, "createdAt"));
        grid_add(&grid, json_text(item, "reason"));
    }
    if (json_number(answer, "totalCollected") > 0)
        grid_print(&grid, stdout);
    grid_done(&grid);
    printf("%s %lld workspace%s\n", json_is_true(json_object_get(answer, "dryRun")) ? "would remove" : "removed",
           json_number(answer, "totalCollected"), json_number(answer, "totalCollected") == 1 ? "" : "s");
    print_trash(json_object_get(answer, "trash"), json_is_true(json_object_get(answer, "dryRun")));
    json_array_foreach(json_object_get(answer, "errors"), i, item)
    {
        fprintf(stderr, "agentfense gc: %s: ", json_text(item, "sandboxId"));
        output_escaped(stderr, json_text(item, "error"));
        fputc('\n', stderr);
    }
}

static int run_gc(struct api_call *call, struct err *err)
{
    json_t *body = json_object(), *item;
    autojson answer = NULL;
    size_t i;
    int r = fill_gc(call->own, body, err);

    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = workspace_ask(call, "POST", body, &answer, err, "/api/v1/gc");
    if (r < 0 || printed_as_json(call, answer))
        return r;
    if (call->options.is_quiet)
        json_array_foreach(json_object_get(answer, "collected"), i, item) puts(json_text(item, "id"));
    else
        print_collected(answer);
    return json_array_size(json_object_get(answer, "errors")) > 0 ? EXIT_REFUSED : 0;
}

#define COMMIT_VERB(verb, most, help_text)                                                                                     \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .help = help_text API_OPTIONS_HELP,                                                                                \
            .letters = "m:n",                                                                                                  \
            .options = options,                                                                                                \
            .words_max = most,                                                                                                 \
            .own_size = sizeof(struct commit_options),                                                                         \
            .take = take,                                                                                                      \
            .run = run_##verb,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

COMMIT_VERB(pending, 0,
            "usage: agentfense pending [options]\n\n"
            "Lists the workspaces of which something was approved that is not committed yet.\n\n"
            "  --project DIR          only of this project\n")
COMMIT_VERB(provenance, 1,
            "usage: agentfense provenance [options] PATH\n\n"
            "Tells which workspaces changed a file, who approved it, and in which commit it went.\n\n"
            "  --project DIR          the project that PATH counts from; without: PATH counts from here\n")
COMMIT_VERB(
    commit, -1,
    "usage: agentfense commit [options] [WORKSPACE...]\n\n"
    "Commits what was approved and is not committed yet: of the workspaces that are named, or of the project here. What\n"
    "else is staged or changed stays out, also in the same files.\n\n"
    "  -m, --message TEXT     the message; without: one that tells what is in it\n"
    "  --project DIR          the project; without: that of the first workspace, or the directory here\n"
    "  --actor NAME           who says so: 'Name <mail>'\n"
    "  -n, --dry-run          only tell what would be committed\n")
COMMIT_VERB(
    gc, 0,
    "usage: agentfense gc [options]\n\n"
    "Removes workspaces that nobody needs any more. Those that are active stay; those that go can be had again from the trash\n"
    "('agentfense restore') until they go from there. Without options: as the server is configured.\n\n"
    "  --older-than SPAN      those made longer ago (24h, 90m)\n"
    "  --idle SPAN            those not used for so long\n"
    "  --include-terminal     those approved or rejected, too, however new\n"
    "  --trash SPAN           what was removed longer ago goes for good (0s: all of it)\n"
    "  --limit N              at most so many, the oldest first\n"
    "  -n, --dry-run          only tell which\n")
