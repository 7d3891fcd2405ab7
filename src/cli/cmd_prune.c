/* prune: frees the disk space of sandboxes that are no longer needed. 'gc' is an older name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/age.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/grid.h"
#include "cli/output.h"
#include "cli/setting_options.h"
#include <sandbox/v1/retention.pb-c.h>

static const char help[] =
    "usage: agentfense prune [options]\n\n"
    "Removes sandboxes that are no longer needed, and prints the space that frees. It never removes one that "
    "runs. Their changes go\n"
    "to the trash, from which 'agentfense restore' brings a sandbox back until the trash is emptied. "
    "Without a span the server's\n"
    "own retention holds.\n\n"
    "  -n, --dry-run          only show what could be freed\n"
    "  --older-than SPAN      remove those that were made so long ago (24h)\n"
    "  --idle SPAN            remove those that were not used for so long\n"
    "  --decided SPAN         remove those that were approved or rejected so long ago\n"
    "  --trash SPAN           free for good what was removed so long ago; 0s: all of the trash\n"
    "  --limit N              at most so many (default 100)\n" API_OPTIONS_HELP;

enum { OPT_OLDER_THAN = 1, OPT_IDLE, OPT_DECIDED, OPT_TRASH, OPT_LIMIT, OPT_ACTOR, OPT_TERMINAL };

static const struct option options[] = {
    { "dry-run", no_argument, NULL, 'n' },
    { "older-than", required_argument, NULL, OPT_OLDER_THAN },
    { "max-age", required_argument, NULL, OPT_OLDER_THAN },
    { "idle", required_argument, NULL, OPT_IDLE },
    { "decided", required_argument, NULL, OPT_DECIDED },
    { "trash", required_argument, NULL, OPT_TRASH },
    { "limit", required_argument, NULL, OPT_LIMIT },
    /* Ignored, for older scripts: the audit log gets the caller's name, and decided sandboxes are always included. */
    { "actor", required_argument, NULL, OPT_ACTOR },
    { "include-terminal", no_argument, NULL, OPT_TERMINAL },
    API_LONG_OPTIONS,
};

struct prune_options {
    Sandbox__V1__RetentionPolicy policy;
    Google__Protobuf__Duration max_age, idle, decided, trash;
    int64_t limit;
    bool is_dry, has_policy;
};

/* Unlike other durations, this one may be 0: at once. */
static int prune_take_span(struct prune_options *o, const char *option, const char *text, Google__Protobuf__Duration *span,
                           Google__Protobuf__Duration **ret, struct err *err)
{
    int64_t ns = 0;
    int r = clock_parse_duration(text, &ns, err);

    if (r < 0)
        return err_wrap(err, r, "%s", option);
    google__protobuf__duration__init(span);
    span->seconds = ns / CLOCK_NS_PER_SEC;
    span->nanos = (int32_t) (ns % CLOCK_NS_PER_SEC);
    *ret = span;
    o->has_policy = true;
    return 0;
}

static int prune_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct prune_options *o = call->own;

    if (!o->policy.base.descriptor)
        sandbox__v1__retention_policy__init(&o->policy);
    switch (option) {
    case 'n':
        o->is_dry = true;
        return 0;
    case OPT_OLDER_THAN:
        return prune_take_span(o, "--older-than", argument, &o->max_age, &o->policy.max_age, err);
    case OPT_IDLE:
        return prune_take_span(o, "--idle", argument, &o->idle, &o->policy.idle_timeout, err);
    case OPT_DECIDED:
        return prune_take_span(o, "--decided", argument, &o->decided, &o->policy.decided_delay, err);
    case OPT_TRASH:
        return prune_take_span(o, "--trash", argument, &o->trash, &o->policy.trash_delay, err);
    case OPT_LIMIT:
        return parse_number("--limit", argument, 1, 1000, &o->limit, err);
    default:
        return 0;
    }
}

static const char *prune_state_text(Sandbox__V1__CollectableState state)
{
    static const char *const names[] = { "-", "stopped", "error", "approved", "rejected" };

    return (size_t) state < ARRAY_LEN(names) ? names[state] : names[0];
}

static void prune_print_sandboxes(const Sandbox__V1__CollectResponse *told)
{
    static const char *const titles[] = { "ID", "NAME", "STATE", "CHANGES", "AGE", "REASON", NULL };
    autodone(grid) struct grid grid;
    char age[AGE_TEXT_MAX];

    grid_init(&grid, titles);
    for (size_t i = 0; i < told->n_sandboxes; i++) {
        const Sandbox__V1__CollectedSandbox *one = told->sandboxes[i];

        if (*one->error)
            continue;
        age_format(one->created_at ? one->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
        grid_add(&grid, one->sandbox_id);
        grid_add(&grid, *one->name ? one->name : "-");
        grid_add(&grid, prune_state_text(one->state));
        grid_add_size(&grid, one->changed_bytes);
        grid_add(&grid, age);
        grid_add(&grid, one->reason);
    }
    if (told->collected > 0)
        grid_print(&grid, stdout);
}

static void prune_print(const Sandbox__V1__CollectResponse *told)
{
    const char *would = told->dry_run ? "would remove" : "removed";
    char size[SIZE_TEXT_MAX], freed[SIZE_TEXT_MAX], kept[SIZE_TEXT_MAX];

    prune_print_sandboxes(told);
    size_format((uint64_t) told->collected_bytes, size);
    printf("%s %d sandbox%s with %s of changes%s\n", would, told->collected, told->collected == 1 ? "" : "es", size,
           told->sandboxes_truncated ? " (not all of them are listed)" : "");
    size_format((uint64_t) (told->trash_purged_bytes + told->pruned_bytes), freed);
    printf("%s %s: %lld sandbox%s from the trash, %lld approval%s that can no longer be undone\n",
           told->dry_run ? "would free" : "freed", freed, (long long) told->trash_purged, told->trash_purged == 1 ? "" : "es",
           (long long) told->pruned_approvals, told->pruned_approvals == 1 ? "" : "s");
    size_format((uint64_t) told->trash_kept_bytes, kept);
    if (told->trash_kept > 0)
        printf("%lld in the trash, %s; 'agentfense prune --trash 0s' frees them for good\n", (long long) told->trash_kept,
               kept);
}

static int prune_run(struct api_call *call, struct err *err)
{
    struct prune_options *o = call->own;
    Sandbox__V1__CollectRequest request = SANDBOX__V1__COLLECT_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.policy = o->has_policy ? &o->policy : NULL;
    request.dry_run = o->is_dry;
    request.max_sandboxes = (int32_t) o->limit;
    r = client_ask(call->client, "Collect", &request.base, &answer, err);
    const Sandbox__V1__CollectResponse *told = (void *) answer;
    if (r < 0)
        return r;
    if (call->options.is_json)
        api_print_json(answer);
    else if (!call->options.is_quiet)
        prune_print(told);
    for (size_t i = 0; i < told->n_sandboxes; i++) {
        const Sandbox__V1__CollectedSandbox *one = told->sandboxes[i];

        if (call->options.is_quiet && !call->options.is_json && !*one->error)
            puts(one->sandbox_id);
        if (!*one->error)
            continue;
        fprintf(stderr, "agentfense prune: %s: ", one->sandbox_id);
        output_escaped(stderr, one->error);
        fputc('\n', stderr);
    }
    return told->failed > 0 ? EXIT_FAILURE : 0;
}

int cmd_prune(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "prune",
        .help = help,
        .letters = "n",
        .options = options,
        .own_size = sizeof(struct prune_options),
        .take = prune_take,
        .run = prune_run,
    };

    return api_verb_run(&verb, argc, argv);
}
