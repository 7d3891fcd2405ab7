#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/cpus_text.h"
#include "cli/lookup.h"
#include "cli/rule_options.h"
#include "cli/setting_options.h"
#include "cli/start_watch.h"
#include "cli/workspace_help.h"
#include "wire/runtime_type.h"
#include <sandbox/v1/codebase.pb-c.h>

static const char help[] =
    "usage: agentfense create [options] CODEBASE\n"
    "       agentfense create --scope DIR [options]\n\n"
    "Makes a sandbox over a codebase, and prints its id. 'agentfense start' starts it, 'agentfense exec' runs commands in "
    "it.\n\n" POLICY_OPTIONS_HELP "                         without any of these: --preset development\n"
    "  --start                start it, too\n"
    "  --name NAME            a name to call it by; the label `name`\n"
    "  --label KEY=VALUE      a label; may be given again\n"
    "  -e, --env NAME[=VALUE] a variable for every command in it; without a value, ours\n"
    "  --env-file FILE        the variables of a file of NAME=VALUE lines\n"
    "  -m, --memory SIZE      most memory (512M, 2G)\n"
    "  --cpus N               most processors it may use (0.5, 2)\n"
    "  --cpu-shares N         its weight against others\n"
    "  --pids N               most processes at once\n"
    "  --disk SIZE            most bytes of changes\n"
    "  --files N              most files and directories among the changes\n"
    "  --net none|host        network; in a container also bridge\n"
    "  --runtime bwrap|docker confined by bubblewrap or in a container; without it, as the server is configured\n"
    "  --image IMAGE          of the container; means --runtime docker\n"
    "  --expires SPAN         stop it after this time (2h)\n"
    "  --no-sync              commands' changes stay in it, and do not go into the codebase\n"
    "  --sync                 they do, whatever the server is configured to\n" API_OPTIONS_HELP
    "\nWith --scope it is a workspace, a sandbox over a live directory: the options for rules, "
    "and\n\n" CREATE_WORKSPACE_OPTIONS_HELP;

enum {
    OPT_START = 1,
    OPT_NAME,
    OPT_LABEL,
    OPT_ENV_FILE,
    OPT_CPUS,
    OPT_CPU_SHARES,
    OPT_PIDS,
    OPT_DISK,
    OPT_FILES,
    OPT_NET,
    OPT_RUNTIME,
    OPT_IMAGE,
    OPT_EXPIRES,
    OPT_NO_SYNC,
    OPT_SYNC,
};

static const struct option options[] = {
    POLICY_LONG_OPTIONS,
    { "start", no_argument, NULL, OPT_START },
    { "name", required_argument, NULL, OPT_NAME },
    { "label", required_argument, NULL, OPT_LABEL },
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "memory", required_argument, NULL, 'm' },
    { "cpus", required_argument, NULL, OPT_CPUS },
    { "cpu-shares", required_argument, NULL, OPT_CPU_SHARES },
    { "pids", required_argument, NULL, OPT_PIDS },
    { "disk", required_argument, NULL, OPT_DISK },
    { "files", required_argument, NULL, OPT_FILES },
    { "net", required_argument, NULL, OPT_NET },
    { "runtime", required_argument, NULL, OPT_RUNTIME },
    { "image", required_argument, NULL, OPT_IMAGE },
    { "expires", required_argument, NULL, OPT_EXPIRES },
    { "no-sync", no_argument, NULL, OPT_NO_SYNC },
    { "sync", no_argument, NULL, OPT_SYNC },
    API_LONG_OPTIONS,
};

struct create_options {
    struct policy_options policy;
    struct rule_messages rules;
    struct entry_list labels, env;
    Sandbox__V1__ResourceLimits limits;
    Google__Protobuf__Duration expires;
    bool has_limits, has_expires, starts;
    const char *net, *image;
    const struct runtime_type *runtime; /* NULL: as the server is configured */
    Sandbox__V1__SyncMode sync;
};

static int take_cpus(const char *text, int64_t *ret, struct err *err)
{
    uint32_t quota_us = 0;
    int r = cpus_text_parse(text, &quota_us, err);

    *ret = quota_us;
    return r;
}

static int take_limit(struct create_options *o, int option, const char *argument, struct err *err)
{
    o->has_limits = true;
    switch (option) {
    case 'm':
        return parse_size_above_0("memory", argument, &o->limits.memory_bytes, err);
    case OPT_CPUS:
        return take_cpus(argument, &o->limits.cpu_quota, err);
    case OPT_CPU_SHARES:
        return parse_number("--cpu-shares", argument, 2, 262144, &o->limits.cpu_shares, err);
    case OPT_PIDS:
        return parse_number("--pids", argument, 1, 4194304, &o->limits.pids_limit, err);
    case OPT_FILES:
        return parse_number("--files", argument, 1, UINT32_MAX, &o->limits.disk_inodes, err);
    default:
        return parse_size_above_0("disk", argument, &o->limits.disk_bytes, err);
    }
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct create_options *o = call->own;
    int r;

    if (policy_options_take(&o->policy, option, argument))
        return 0;
    switch (option) {
    case OPT_START:
        o->starts = true;
        return 0;
    case OPT_NAME:
        entry_list_add(&o->labels, "name", strlen("name"), argument);
        return 0;
    case OPT_LABEL:
        return entry_list_add_pair(&o->labels, "label", argument, err);
    case 'e':
        return entry_list_add_env(&o->env, argument, err);
    case OPT_ENV_FILE:
        return entry_list_add_env_file(&o->env, argument, err);
    case OPT_NET:
        o->net = argument;
        return strcmp(argument, "none") == 0 || strcmp(argument, "host") == 0 || strcmp(argument, "bridge") == 0
                   ? 0
                   : err_invalid(err, "--net '%s' is none of none, host and bridge", argument);
    case OPT_RUNTIME:
        r = runtime_type_parse(argument, &o->runtime, err);
        return r < 0 ? err_wrap(err, r, "--runtime") : 0;
    case OPT_IMAGE:
        o->image = argument;
        return 0;
    case OPT_EXPIRES:
        o->has_expires = true;
        return parse_span("expires", argument, &o->expires, err);
    case OPT_NO_SYNC:
    case OPT_SYNC:
        o->sync = option == OPT_SYNC ? SANDBOX__V1__SYNC_MODE__SYNC_MODE_ON : SANDBOX__V1__SYNC_MODE__SYNC_MODE_OFF;
        return 0;
    default:
        return take_limit(o, option, argument, err);
    }
}

static int check(struct api_call *call, struct err *err)
{
    struct create_options *o = call->own;

    if (!o->policy.preset && o->policy.file_count == 0 && o->policy.short_count == 0)
        o->policy.preset = "development";
    if (o->image && o->runtime && !o->runtime->needs_image)
        return err_invalid(err, "--image is for containers: --runtime docker");
    if (o->image && !o->runtime)
        o->runtime = runtime_type_default(true);
    return rule_messages_load(&o->policy, &o->rules, err);
}

static void fill(struct create_options *o, Sandbox__V1__CreateSandboxRequest *request)
{
    static char empty[] = "";

    request->preset = o->policy.preset ? (char *) o->policy.preset : empty;
    request->n_permissions = o->rules.count;
    request->permissions = o->rules.items;
    request->n_labels = o->labels.count;
    request->labels = entry_list_as(&o->labels, Sandbox__V1__CreateSandboxRequest__LabelsEntry);
    request->n_env = o->env.count;
    request->env = entry_list_as(&o->env, Sandbox__V1__CreateSandboxRequest__EnvEntry);
    request->expires_in = o->has_expires ? &o->expires : NULL;
    request->network = o->net ? (char *) o->net : empty;
    request->sync_on_completion = o->sync;
    request->runtime = o->runtime ? (Sandbox__V1__RuntimeType) o->runtime->api_number : 0;
    request->image = o->image ? (char *) o->image : empty;
    if (o->has_limits) {
        Sandbox__V1__ResourceLimits given = o->limits;
        sandbox__v1__resource_limits__init(&o->limits);
        given.base = o->limits.base;
        o->limits = given;
        request->resources = &o->limits;
    }
}

/* The API lets labels be equal; but who makes a second one could call neither of them by it. A sandbox belongs to its codebase's owner. */
static int check_name(struct api_call *call, const char *codebase, const char *name, struct err *err)
{
    Sandbox__V1__GetCodebaseRequest request = SANDBOX__V1__GET_CODEBASE_REQUEST__INIT;
    autofree char *taken = NULL;
    automessage answer = NULL;
    int r;

    request.codebase_id = (char *) codebase;
    r = client_ask(call->client, "GetCodebase", &request.base, &answer, err);
    if (r == 0)
        r = lookup_sandbox_named(call->client, name, ((const Sandbox__V1__Codebase *) (void *) answer)->owner_id, &taken, err);
    if (r < 0 || !taken)
        return r;
    return err_set(err, ERR_ALREADY_EXISTS, -EEXIST,
                   "there is a sandbox '%s' already, %s; take another name, or remove it: 'agentfense rm %s'", name, taken,
                   name);
}

static int check_names(struct api_call *call, const char *codebase, struct err *err)
{
    const struct entry_list *labels = &((const struct create_options *) call->own)->labels;
    int r = 0;

    for (size_t i = 0; r == 0 && i < labels->count; i++) {
        if (strcmp(labels->items[i]->key, "name") == 0)
            r = check_name(call, codebase, labels->items[i]->value, err);
    }
    return r;
}

static int run(struct api_call *call, struct err *err)
{
    struct create_options *o = call->own;
    Sandbox__V1__CreateSandboxRequest request = SANDBOX__V1__CREATE_SANDBOX_REQUEST__INIT;
    autofree char *codebase = NULL;
    automessage made = NULL;
    automessage started = NULL;
    int r = lookup_codebase(call->client, call->words[0], &codebase, err);

    if (r == 0)
        r = check_names(call, codebase, err);
    if (r < 0)
        return r;
    fill(o, &request);
    request.codebase_id = codebase;
    r = client_ask(call->client, "CreateSandbox", &request.base, &made, err);
    if (r < 0)
        return r;
    const Sandbox__V1__Sandbox *sandbox = (void *) made;
    for (size_t i = 0; i < sandbox->n_warnings && !call->options.is_quiet; i++)
        fprintf(stderr, "agentfense create: %s\n", sandbox->warnings[i]);
    if (o->starts)
        r = start_watched(call, sandbox->id, &started, err);
    if (r < 0)
        return err_wrap(err, r, "sandbox %s was made, but does not start", sandbox->id);
    api_print(call, started ? started : made, sandbox->id);
    return 0;
}

static void done(struct api_call *call)
{
    struct create_options *o = call->own;

    policy_options_done(&o->policy);
    rule_messages_done(&o->rules);
    entry_list_done(&o->labels);
    entry_list_done(&o->env);
}

static const struct api_verb create_verb = {
    .name = "create",
    .help = help,
    .letters = "e:m:",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .own_size = sizeof(struct create_options),
    .take = take,
    .check = check,
    .run = run,
    .done = done,
};

/* Nothing else begins so, and no value of another option is likely to. */
static bool is_of_workspace(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--scope") == 0 || strncmp(argv[i], "--scope=", 8) == 0 || strcmp(argv[i], "-s") == 0)
            return true;
    }
    return false;
}

int cmd_create(int argc, char **argv)
{
    if (is_of_workspace(argc, argv))
        return cmd_create_workspace(argc, argv);
    return api_verb_run(&create_verb, argc, argv);
}
