#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/grid.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/rule_options.h"
#include "cli/sandbox_text.h"

static const char help[] =
    "usage: agentfense rules show SANDBOX            its rules, in order\n"
    "       agentfense rules set SANDBOX ...         replace them, also while it runs\n"
    "       agentfense rules explain SANDBOX PATH    which rule decides about a path, and why\n\n"
    "'agentfense rules WORD --help' tells more. 'agentfense policy' tries rules out without a sandbox.\n";

/* Those of a workspace are as it was made. */
#define RULES_HINT "whose rules are those of its 'agentfense create'; 'agentfense policy' shows and explains such"

static const struct option no_options[] = { API_LONG_OPTIONS };

static const char *type_text(Sandbox__V1__PatternType type)
{
    static const char *const names[] = { "-", "glob", "directory", "file" };

    return (size_t) type < ARRAY_LEN(names) ? names[type] : names[0];
}

static void print_rules(const Sandbox__V1__Sandbox *sandbox)
{
    static const char *const titles[] = { "LEVEL", "PRIORITY", "TYPE", "PATTERN", NULL };
    autodone(grid) struct grid grid;

    grid_init(&grid, titles);
    for (size_t i = 0; i < sandbox->n_permissions; i++) {
        const Sandbox__V1__PermissionRule *rule = sandbox->permissions[i];

        grid_add(&grid, permission_text(rule->permission));
        grid_add_number(&grid, rule->priority);
        grid_add(&grid, type_text(rule->type));
        grid_add(&grid, rule->pattern);
    }
    grid_print(&grid, stdout);
}

/* ---- show ---- */

static int run_show(struct api_call *call, struct err *err)
{
    Sandbox__V1__GetSandboxRequest request = SANDBOX__V1__GET_SANDBOX_REQUEST__INIT;
    autofree char *id = NULL;
    automessage answer = NULL;
    int r = lookup_over_codebase(call->client, call->words[0], RULES_HINT, &id, err);

    request.sandbox_id = id;
    if (r == 0)
        r = client_ask(call->client, "GetSandbox", &request.base, &answer, err);
    if (r == 0 && call->options.is_json)
        api_print_json(answer);
    else if (r == 0)
        print_rules((const void *) answer);
    return r;
}

static const struct api_verb show_verb = {
    .name = "rules show",
    .help =
        "usage: agentfense rules show [options] SANDBOX\n\nPrints the rules of a sandbox in their order.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- set ---- */

static const struct option set_options[] = { POLICY_LONG_OPTIONS, API_LONG_OPTIONS };

struct set_options {
    struct policy_options policy;
    struct rule_messages rules;
};

static int take_set(struct api_call *call, int option, const char *argument, struct err *err)
{
    (void) err;
    policy_options_take(&((struct set_options *) call->own)->policy, option, argument);
    return 0;
}

static int check_set(struct api_call *call, struct err *err)
{
    struct set_options *o = call->own;

    if (!o->policy.preset && o->policy.file_count == 0 && o->policy.short_count == 0)
        return err_invalid(err, "no rules: name a --preset, a --policy file or a --rule");
    return rule_messages_load(&o->policy, &o->rules, err);
}

static int run_set(struct api_call *call, struct err *err)
{
    struct set_options *o = call->own;
    Sandbox__V1__UpdatePermissionsRequest request = SANDBOX__V1__UPDATE_PERMISSIONS_REQUEST__INIT;
    autofree char *id = NULL;
    automessage answer = NULL;
    int r = lookup_over_codebase(call->client, call->words[0], RULES_HINT, &id, err);

    if (r < 0)
        return r;
    request.sandbox_id = id;
    if (o->policy.preset)
        request.preset = (char *) o->policy.preset;
    request.n_permissions = o->rules.count;
    request.permissions = o->rules.items;
    r = client_ask(call->client, "UpdatePermissions", &request.base, &answer, err);
    if (r < 0)
        return r;
    const Sandbox__V1__Sandbox *sandbox = (void *) answer;
    for (size_t i = 0; i < sandbox->n_warnings && !call->options.is_quiet; i++)
        fprintf(stderr, "agentfense rules set: %s\n", sandbox->warnings[i]);
    api_print(call, answer, id);
    return 0;
}

static void done_set(struct api_call *call)
{
    struct set_options *o = call->own;

    policy_options_done(&o->policy);
    rule_messages_done(&o->rules);
}

static const struct api_verb set_verb = {
    .name = "rules set",
    .help =
        "usage: agentfense rules set [options] SANDBOX\n\n"
        "Replaces the rules of a sandbox, also of one that runs: they hold from the next operation on.\n\n" POLICY_OPTIONS_HELP
            API_OPTIONS_HELP,
    .options = set_options,
    .words_min = 1,
    .words_max = 1,
    .own_size = sizeof(struct set_options),
    .take = take_set,
    .check = check_set,
    .run = run_set,
    .done = done_set,
};

/* ---- explain ---- */

static void print_decider(const Sandbox__V1__PermissionRule *rule, bool is_hidden)
{
    fputs(is_hidden ? "  hidden by " : "  by ", stdout);
    output_escaped(stdout, rule->pattern);
    printf(" = %s", permission_text(rule->permission));
    if (rule->priority != 0)
        printf(" @%" PRId32, rule->priority);
    putchar('\n');
}

/* As 'agentfense policy explain' has it. Whether the path exists, and anything in it, is not asked. */
static void print_explanation(const Sandbox__V1__ExplainPermissionResponse *answer)
{
    bool is_root = strcmp(answer->path, "/") == 0;
    bool is_hidden = answer->permission == SANDBOX__V1__PERMISSION__PERMISSION_NONE;

    output_escaped(stdout, answer->path);
    printf(": %s\n", permission_text(answer->permission));
    if (answer->rule)
        print_decider(answer->rule, is_hidden);
    else
        printf("  no rule matches%s\n", is_root ? "" : ", so it does not exist");
    for (size_t i = 0; i < answer->n_reasons; i++) {
        fputs(strncmp(answer->reasons[i], "rule ", 5) == 0 ? "  not " : "  ", stdout);
        output_escaped(stdout, answer->reasons[i]);
        putchar('\n');
    }
    if (is_root && is_hidden)
        puts("  the root is always there; it lists only what is visible");
    else if (answer->passage)
        puts("  as a directory it is shown if something visible exists in it, and only that is listed");
}

static int run_explain(struct api_call *call, struct err *err)
{
    Sandbox__V1__ExplainPermissionRequest request = SANDBOX__V1__EXPLAIN_PERMISSION_REQUEST__INIT;
    autofree char *id = NULL;
    automessage answer = NULL;
    int r = lookup_over_codebase(call->client, call->words[0], RULES_HINT, &id, err);

    request.sandbox_id = id;
    request.path = call->words[1];
    if (r == 0)
        r = client_ask(call->client, "ExplainPermission", &request.base, &answer, err);
    if (r != 0)
        return r;
    const Sandbox__V1__ExplainPermissionResponse *told = (void *) answer;
    if (call->options.is_json)
        api_print_json(answer);
    else if (call->options.is_quiet)
        puts(permission_text(told->permission));
    else
        print_explanation(told);
    return 0;
}

static const struct api_verb explain_verb = {
    .name = "rules explain",
    .help = "usage: agentfense rules explain [options] SANDBOX PATH\n\n"
            "Tells what a sandbox may do with a path, by which rule, and what that rule beat. -q: the level "
            "alone.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 2,
    .words_max = 2,
    .run = run_explain,
};

int cmd_rules(int argc, char **argv)
{
    static const struct api_verb *const verbs[] = { &show_verb, &set_verb, &explain_verb };

    return api_verb_run_one_of("rules", help, verbs, ARRAY_LEN(verbs), argc, argv);
}
