/* ls: every sandbox, whoever made it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/age.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/listing.h"
#include "cli/lookup.h"
#include "cli/sandbox_text.h"
#include <sandbox/v1/sandbox.pb-c.h>

static const char help[] =
    "usage: agentfense ls [options]\n\n"
    "Lists all sandboxes, the oldest first. -q: their ids.\n\n"
    "  --status STATUS        only those that are pending, running, stopped, error or deleted; without: all but deleted ones\n"
    "  --decision DECISION    only those that are open, approved or rejected\n"
    "  --codebase CODEBASE    only those over this codebase\n"
    "  --directory DIR        only those over this directory\n"
    "  --owner NAME           only those that were made for this name\n"
    "  --tag TAG              only those with this tag; may be given again\n" API_OPTIONS_HELP;

enum { OPT_CODEBASE = 1, OPT_STATUS, OPT_DECISION, OPT_DIRECTORY, OPT_OWNER, OPT_TAG };

static const struct option options[] = {
    { "status", required_argument, NULL, OPT_STATUS },
    { "decision", required_argument, NULL, OPT_DECISION },
    { "codebase", required_argument, NULL, OPT_CODEBASE },
    { "directory", required_argument, NULL, OPT_DIRECTORY },
    { "owner", required_argument, NULL, OPT_OWNER },
    { "tag", required_argument, NULL, OPT_TAG },
    { "workspaces", no_argument, NULL, 'w' },
    API_LONG_OPTIONS,
};

#define TAGS_MAX 8

struct ls_options {
    const char *codebase, *directory, *owner;
    char *tags[TAGS_MAX]; /* borrowed */
    size_t tag_count;
    Sandbox__V1__SandboxStatus status;
    Sandbox__V1__SandboxDecision decision;
    bool only_directories;
};

static int ls_take_status(struct ls_options *o, const char *text, struct err *err)
{
    for (int status = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING;
         status <= (int) SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_DELETED; status++) {
        if (strcasecmp(text, sandbox_status_text((Sandbox__V1__SandboxStatus) status)) == 0) {
            o->status = (Sandbox__V1__SandboxStatus) status;
            return 0;
        }
    }
    return err_invalid(err, "--status '%s' is none of pending, running, stopped, error, deleted", text);
}

static int ls_take_decision(struct ls_options *o, const char *text, struct err *err)
{
    for (int decision = SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_OPEN;
         decision <= (int) SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_REJECTED; decision++) {
        if (strcasecmp(text, sandbox_decision_text((Sandbox__V1__SandboxDecision) decision)) == 0) {
            o->decision = (Sandbox__V1__SandboxDecision) decision;
            return 0;
        }
    }
    return err_invalid(err, "--decision '%s' is none of open, approved, rejected", text);
}

static int ls_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct ls_options *o = call->own;

    switch (option) {
    case OPT_CODEBASE:
        o->codebase = argument;
        return 0;
    case OPT_DIRECTORY:
        o->directory = argument;
        return 0;
    case OPT_OWNER:
        o->owner = argument;
        return 0;
    case OPT_TAG:
        if (o->tag_count == TAGS_MAX)
            return err_invalid(err, "more than %d --tag", TAGS_MAX);
        o->tags[o->tag_count++] = (char *) argument;
        return 0;
    case OPT_STATUS:
        return ls_take_status(o, argument, err);
    case OPT_DECISION:
        return ls_take_decision(o, argument, err);
    default: /* 'ps -w' is how older scripts list sandboxes over directories */
        o->only_directories = true;
        return 0;
    }
}

static void ls_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Sandbox *sandbox = (const void *) item;
    char age[AGE_TEXT_MAX];

    age_format(sandbox->created_at ? sandbox->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, sandbox->id);
    grid_add(grid, *sandbox->name ? sandbox->name : "-");
    grid_add_coloured(grid, sandbox_status_text(sandbox->status), sandbox_status_colour(sandbox->status));
    grid_add(grid, sandbox_decision_text(sandbox->decision));
    grid_add_number(grid, sandbox->changed_files);
    grid_add(grid, age);
    grid_add(grid, *sandbox->codebase_id ? sandbox->codebase_id : sandbox->directory);
    grid_add(grid, *sandbox->status_reason ? sandbox->status_reason : "-");
}

static int ls_run(struct api_call *call, struct err *err)
{
    static char empty[] = "";
    static const char *const titles[] = { "ID", "NAME", "STATUS", "DECISION", "CHANGES", "AGE", "BASE", "REASON", NULL };
    static const struct listing listing = { "ListSandboxes", &sandbox__v1__list_sandboxes_response__descriptor, titles,
                                            ls_add_row };
    struct ls_options *o = call->own;
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    autofree char *codebase = NULL, *directory = o->directory ? realpath(o->directory, NULL) : NULL;
    int r = o->codebase ? lookup_codebase(call->client, o->codebase, &codebase, err) : 0;

    if (r < 0)
        return r;
    request.codebase_id = codebase ? codebase : empty;
    request.directory = directory ? directory : o->directory ? (char *) o->directory : empty;
    request.creator = o->owner ? (char *) o->owner : empty;
    request.n_tags = o->tag_count;
    request.tags = o->tags;
    request.status = o->status;
    request.decision = o->decision;
    request.base_kind = o->only_directories ? SANDBOX__V1__SANDBOX_BASE__SANDBOX_BASE_DIRECTORY : 0;
    return listing_print(call, &listing, &request.base, err);
}

int cmd_ls(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "ls",
        .help = help,
        .letters = "w",
        .options = options,
        .own_size = sizeof(struct ls_options),
        .take = ls_take,
        .run = ls_run,
    };

    return api_verb_run(&verb, argc, argv);
}
