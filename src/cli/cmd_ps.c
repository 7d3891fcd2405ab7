#include <errno.h>
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
#include "cli/workspace_list.h"

static const char help[] =
    "usage: agentfense ps [options]\n"
    "       agentfense ps -w [options]\n\n"
    "Lists the sandboxes of 'agentfense create', and of whoever else uses the API. Those of 'agentfense run' are listed by\n"
    "'agentfense ls', those over live directories with -w.\n\n"
    "  -w, --workspaces       the sandboxes of 'agentfense create --scope' instead\n"
    "  --owner OWNER          with -w: only those of an owner\n"
    "  --codebase CODEBASE    only those over it\n"
    "  --status STATUS        only those that are pending, running, stopped or in error;\n"
    "                         with -w: active, stopped, approved, rejected, deleted or error\n" API_OPTIONS_HELP;

enum { OPT_CODEBASE = 1, OPT_STATUS, OPT_OWNER };

static const struct option options[] = {
    { "codebase", required_argument, NULL, OPT_CODEBASE },
    { "status", required_argument, NULL, OPT_STATUS },
    { "workspaces", no_argument, NULL, 'w' },
    { "owner", required_argument, NULL, OPT_OWNER },
    API_LONG_OPTIONS,
};

struct ps_options {
    const char *codebase, *owner, *status_text;
    Sandbox__V1__SandboxStatus status;
    bool is_of_workspaces;
};

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct ps_options *o = call->own;

    (void) err;
    switch (option) {
    case OPT_CODEBASE:
        o->codebase = argument;
        return 0;
    case OPT_OWNER:
        o->owner = argument;
        return 0;
    case 'w':
        o->is_of_workspaces = true;
        return 0;
    default:
        o->status_text = argument;
        return 0;
    }
}

static int check(struct api_call *call, struct err *err)
{
    struct ps_options *o = call->own;
    const char *argument = o->status_text;

    if (o->is_of_workspaces && o->codebase)
        return err_invalid(err, "workspaces are over no codebase");
    if (!o->is_of_workspaces && o->owner)
        return err_invalid(err, "--owner is for workspaces: -w");
    if (!argument || o->is_of_workspaces)
        return 0;
    for (int status = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING;
         status <= (int) SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_ERROR; status++) {
        if (strcasecmp(argument, sandbox_status_text((Sandbox__V1__SandboxStatus) status)) == 0) {
            o->status = (Sandbox__V1__SandboxStatus) status;
            return 0;
        }
    }
    return err_invalid(err, "--status '%s' is none of pending, running, stopped, error", argument);
}

static const char *name_of(const Sandbox__V1__Sandbox *sandbox)
{
    for (size_t i = 0; i < sandbox->n_labels; i++) {
        if (strcmp(sandbox->labels[i]->key, "name") == 0)
            return sandbox->labels[i]->value;
    }
    return "-";
}

static void add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Sandbox *sandbox = (const void *) item;
    char age[AGE_TEXT_MAX];

    age_format(sandbox->created_at ? sandbox->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, sandbox->id);
    grid_add(grid, name_of(sandbox));
    grid_add_coloured(grid, sandbox_status_text(sandbox->status), sandbox_status_colour(sandbox->status));
    grid_add(grid, sandbox->codebase_id);
    grid_add(grid, age);
    grid_add(grid, *sandbox->status_reason ? sandbox->status_reason : "-");
}

static int run(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "ID", "NAME", "STATUS", "CODEBASE", "AGE", "REASON", NULL };
    static const struct listing listing = { "ListSandboxes", &sandbox__v1__list_sandboxes_response__descriptor, titles,
                                            add_row };
    const struct ps_options *o = call->own;
    if (o->is_of_workspaces)
        return workspace_list(call, o->status_text, o->owner, err);
    Sandbox__V1__ListSandboxesRequest request = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    autofree char *codebase = NULL;
    int r = o->codebase ? lookup_codebase(call->client, o->codebase, &codebase, err) : 0;

    if (r < 0)
        return r;
    if (codebase)
        request.codebase_id = codebase;
    request.status = o->status;
    return listing_print(call, &listing, &request.base, err);
}

int cmd_ps(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "ps",
        .help = help,
        .options = options,
        .own_size = sizeof(struct ps_options),
        .letters = "w",
        .take = take,
        .check = check,
        .run = run,
    };

    return api_verb_run(&verb, argc, argv);
}
