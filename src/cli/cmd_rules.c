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
#include "cli/policy_options.h"
#include "cli/rule_change.h"
#include "cli/sandbox_text.h"

static const char help[] =
    "usage: agentfense rules show SANDBOX            its rules, in order\n"
    "       agentfense rules add SANDBOX RULE...     more rules, PATTERN=LEVEL[@PRIORITY], also while it runs\n"
    "       agentfense rules rm SANDBOX PATTERN...   without the rules for these patterns\n"
    "       agentfense rules set SANDBOX ...         replace all of them, those of its preset too\n"
    "       agentfense rules explain SANDBOX PATH    which rule decides about a path, and why\n\n"
    "'agentfense rules WORD --help' prints its usage. 'agentfense policy' tries rules out without a sandbox.\n";

static const struct option no_options[] = { API_LONG_OPTIONS };

static const char *rules_type_text(Sandbox__V1__PatternType type)
{
    static const char *const names[] = { "-", "glob", "directory", "file" };

    return (size_t) type < ARRAY_LEN(names) ? names[type] : names[0];
}

static void rules_print(const Sandbox__V1__Sandbox *sandbox)
{
    static const char *const titles[] = { "LEVEL", "PRIORITY", "TYPE", "PATTERN", NULL };
    autodone(grid) struct grid grid;

    grid_init(&grid, titles);
    for (size_t i = 0; i < sandbox->n_permissions; i++) {
        const Sandbox__V1__PermissionRule *rule = sandbox->permissions[i];

        grid_add(&grid, permission_text(rule->permission));
        grid_add_number(&grid, rule->priority);
        grid_add(&grid, rules_type_text(rule->type));
        grid_add(&grid, rule->pattern);
    }
    grid_print(&grid, stdout);
}

/* ---- show ---- */

static int rules_run_show(struct api_call *call, struct err *err)
{
    automessage answer = NULL;
    int r = lookup_get_sandbox(call->client, call->words[0], &answer, err);

    if (r == 0 && call->options.is_json)
        api_print_json(answer);
    else if (r == 0)
        rules_print((const void *) answer);
    return r;
}

static const struct api_verb show_verb = {
    .name = "rules show",
    .last = API_LAST_SANDBOX,
    .help = "usage: agentfense rules show [options] SANDBOX\n\nPrints the rules of a sandbox in their order.\n\n" API_LAST_HELP
        API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 1,
    .words_max = 1,
    .run = rules_run_show,
};

/* ---- add, rm, set ---- */

enum { OPT_SHOW_HIDDEN = 1 };

#define SHOW_HIDDEN_OPTION                                                                                                     \
    {                                                                                                                          \
        "show-hidden", no_argument, NULL, OPT_SHOW_HIDDEN                                                                      \
    }
#define SHOW_HIDDEN_HELP                                                                                                       \
    "  --show-hidden          allow rules that show paths hidden now; without, they are refused, and the paths are named\n"

struct change_options {
    struct policy_options policy;
    bool shows_hidden;
    struct rule_list rules; /* the rules on the command line */
};

static int rules_take_change(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct change_options *o = call->own;

    (void) err;
    if (option == OPT_SHOW_HIDDEN)
        o->shows_hidden = true;
    else
        policy_options_take(&o->policy, option, argument);
    return 0;
}

static void rules_done_change(struct api_call *call)
{
    struct change_options *o = call->own;

    policy_options_done(&o->policy);
    rule_list_done(&o->rules);
}

/* Reads the sandbox and its rules. */
static int rules_read_sandbox(struct api_call *call, ProtobufCMessage **ret, struct rule_list *rules, struct err *err)
{
    int r = lookup_get_sandbox(call->client, call->words[0], ret, err);

    return r < 0 || !rules ? r : rule_change_read((const void *) *ret, rules, err);
}

static int rules_check_set(struct api_call *call, struct err *err)
{
    struct change_options *o = call->own;

    return policy_options_load(&o->policy, NULL, &o->rules, err);
}

static int rules_run_set(struct api_call *call, struct err *err)
{
    const struct change_options *o = call->own;
    automessage sandbox = NULL;
    int r = rules_read_sandbox(call, &sandbox, NULL, err);

    return r < 0 ? r : rule_change_make(call, (const void *) sandbox, &o->rules, o->shows_hidden, err);
}

static const struct option set_options[] = { SHOW_HIDDEN_OPTION, POLICY_LONG_OPTIONS, API_LONG_OPTIONS };

static const struct api_verb set_verb = {
    .name = "rules set",
    .last = API_LAST_SANDBOX,
    .help =
        "usage: agentfense rules set [options] SANDBOX\n\n"
        "Replaces all rules of a sandbox, those of its preset too, also of one that runs: they hold from the next operation\n"
        "on. 'rules add' and 'rules rm' keep the others.\n\n" POLICY_OPTIONS_HELP SHOW_HIDDEN_HELP API_LAST_HELP
            API_OPTIONS_HELP,
    .options = set_options,
    .words_min = 1,
    .words_max = 1,
    .own_size = sizeof(struct change_options),
    .take = rules_take_change,
    .check = rules_check_set,
    .run = rules_run_set,
    .done = rules_done_change,
};

static const struct option change_options[] = { SHOW_HIDDEN_OPTION, API_LONG_OPTIONS };

static int rules_check_add(struct api_call *call, struct err *err)
{
    struct change_options *o = call->own;
    int r = 0;

    for (int i = 1; r == 0 && i < call->word_count; i++)
        r = rule_list_add_short(&o->rules, call->words[i], err);
    return r;
}

static int rules_run_add(struct api_call *call, struct err *err)
{
    const struct change_options *o = call->own;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    automessage sandbox = NULL;
    int r = rules_read_sandbox(call, &sandbox, &rules, err);

    if (r == 0)
        r = rule_list_add_all(&rules, &o->rules, err);
    return r < 0 ? r : rule_change_make(call, (const void *) sandbox, &rules, o->shows_hidden, err);
}

static const struct api_verb add_verb = {
    .name = "rules add",
    .last = API_LAST_SANDBOX,
    .help = "usage: agentfense rules add [options] SANDBOX PATTERN=LEVEL[@PRIORITY]...\n\n"
            "Adds rules behind those that a sandbox has, also of one that runs.\n\n" SHOW_HIDDEN_HELP API_LAST_HELP
                API_OPTIONS_HELP,
    .options = change_options,
    .words_min = 2,
    .words_max = -1,
    .own_size = sizeof(struct change_options),
    .take = rules_take_change,
    .check = rules_check_add,
    .run = rules_run_add,
    .done = rules_done_change,
};

static bool rules_has_word(const struct api_call *call, const char *pattern)
{
    for (int i = 1; i < call->word_count; i++) {
        if (strcmp(call->words[i], pattern) == 0)
            return true;
    }
    return false;
}

static int rules_check_patterns(const struct api_call *call, const struct rule_list *rules, struct err *err)
{
    for (int i = 1; i < call->word_count; i++) {
        bool is_there = false;
        for (size_t j = 0; j < rules->count; j++)
            is_there |= strcmp(call->words[i], rules->items[j].pattern) == 0;
        if (!is_there)
            return err_set(err, ERR_NOT_FOUND, -ENOENT,
                           "the sandbox has no rule '%s'; 'agentfense rules show' has them as they are", call->words[i]);
    }
    return 0;
}

static int rules_run_rm(struct api_call *call, struct err *err)
{
    const struct change_options *o = call->own;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY, kept = RULE_LIST_EMPTY;
    automessage sandbox = NULL;
    int r = rules_read_sandbox(call, &sandbox, &rules, err);

    if (r == 0)
        r = rules_check_patterns(call, &rules, err);
    for (size_t i = 0; r == 0 && i < rules.count; i++) {
        const struct rule *rule = &rules.items[i];
        if (!rules_has_word(call, rule->pattern))
            r = rule_list_add(&kept, rule->pattern, strlen(rule->pattern), rule->type, rule->level, rule->priority, err);
    }
    return r < 0 ? r : rule_change_make(call, (const void *) sandbox, &kept, o->shows_hidden, err);
}

static const struct api_verb rm_verb = {
    .name = "rules rm",
    .last = API_LAST_SANDBOX,
    .help = "usage: agentfense rules rm [options] SANDBOX PATTERN...\n\n"
            "Removes the rules of a sandbox that have one of these patterns, as 'agentfense rules show' prints "
            "them.\n\n" SHOW_HIDDEN_HELP API_LAST_HELP API_OPTIONS_HELP,
    .options = change_options,
    .words_min = 2,
    .words_max = -1,
    .own_size = sizeof(struct change_options),
    .take = rules_take_change,
    .run = rules_run_rm,
    .done = rules_done_change,
};

/* ---- explain ---- */

static void rules_print_decider(const Sandbox__V1__PermissionRule *rule, bool is_hidden)
{
    fputs(is_hidden ? "  hidden by " : "  by ", stdout);
    output_escaped(stdout, rule->pattern);
    printf(" = %s", permission_text(rule->permission));
    if (rule->priority != 0)
        printf(" @%" PRId32, rule->priority);
    putchar('\n');
}

/* Prints in the format of 'agentfense policy explain', without the lines on whether the path exists and what it contains. */
static void rules_print_explanation(const Sandbox__V1__ExplainPermissionResponse *answer)
{
    bool is_root = strcmp(answer->path, "/") == 0;
    bool is_hidden = answer->permission == SANDBOX__V1__PERMISSION__PERMISSION_NONE;

    output_escaped(stdout, answer->path);
    printf(": %s\n", permission_text(answer->permission));
    if (answer->rule)
        rules_print_decider(answer->rule, is_hidden);
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

static int rules_run_explain(struct api_call *call, struct err *err)
{
    Sandbox__V1__ExplainPermissionRequest request = SANDBOX__V1__EXPLAIN_PERMISSION_REQUEST__INIT;
    autofree char *id = NULL;
    automessage answer = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

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
        rules_print_explanation(told);
    return 0;
}

static const struct api_verb explain_verb = {
    .name = "rules explain",
    .last = API_LAST_SANDBOX,
    .help = "usage: agentfense rules explain [options] SANDBOX PATH\n\n"
            "Shows what a sandbox may do with a path, which rule decides that, and which rules lose to it. -q: the level "
            "alone.\n\n" API_LAST_HELP API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 2,
    .words_max = 2,
    .run = rules_run_explain,
};

int cmd_rules(int argc, char **argv)
{
    static const struct api_verb *const verbs[] = { &show_verb, &add_verb, &rm_verb, &set_verb, &explain_verb };

    return api_verb_run_one_of("rules", help, verbs, ARRAY_LEN(verbs), argc, argv);
}
