/* gc: removes sandboxes that nobody needs any more. */
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

enum { OPT_ACTOR = 1, OPT_OLDER_THAN, OPT_IDLE, OPT_LIMIT, OPT_TRASH, OPT_TERMINAL };

static const struct option options[] = {
    { "actor", required_argument, NULL, OPT_ACTOR },
    { "dry-run", no_argument, NULL, 'n' },
    { "older-than", required_argument, NULL, OPT_OLDER_THAN },
    { "max-age", required_argument, NULL, OPT_OLDER_THAN },
    { "idle", required_argument, NULL, OPT_IDLE },
    { "limit", required_argument, NULL, OPT_LIMIT },
    { "trash", required_argument, NULL, OPT_TRASH },
    { "include-terminal", no_argument, NULL, OPT_TERMINAL },
    API_LONG_OPTIONS,
};

struct gc_options {
    const char *actor, *older_than, *idle, *limit, *trash;
    bool is_dry, with_terminal;
};

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct gc_options *o = call->own;

    (void) err;
    if (option == 'n')
        o->is_dry = true;
    else if (option == OPT_TERMINAL)
        o->with_terminal = true;
    else
        *(option == OPT_OLDER_THAN ? &o->older_than
          : option == OPT_TRASH    ? &o->trash
          : option == OPT_IDLE     ? &o->idle
          : option == OPT_LIMIT    ? &o->limit
                                   : &o->actor) = argument;
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

static int fill_gc(const struct gc_options *o, json_t *body, struct err *err)
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

int cmd_gc(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "gc",
        .help = "usage: agentfense gc [options]\n\n"
                "Removes workspaces that nobody needs any more. Those that are active stay; those that go can be had again "
                "from the trash\n"
                "('agentfense restore') until they go from there. Without options: as the server is configured.\n\n"
                "  --older-than SPAN      those made longer ago (24h, 90m)\n"
                "  --idle SPAN            those not used for so long\n"
                "  --include-terminal     those approved or rejected, too, however new\n"
                "  --trash SPAN           what was removed longer ago goes for good (0s: all of it)\n"
                "  --limit N              at most so many, the oldest first\n"
                "  -n, --dry-run          only tell which\n" API_OPTIONS_HELP,
        .letters = "n",
        .options = options,
        .own_size = sizeof(struct gc_options),
        .take = take,
        .run = run_gc,
    };

    return api_verb_run(&verb, argc, argv);
}
