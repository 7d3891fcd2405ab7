#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/output.h"
#include "cli/policy_options.h"
#include "cli/policy_tree.h"
#include "cli/verb.h"
#include "policy/explain.h"
#include "policy/lint.h"
#include "policy/preset.h"

static const char help[] =
    "usage: agentfense policy presets [--json]\n"
    "       agentfense policy show    RULES [--dir DIR [--tree]] [--json]\n"
    "       agentfense policy explain RULES [--dir DIR] [--json] PATH...\n"
    "       agentfense policy lint    RULES [--dir DIR] [--json]\n"
    "\n"
    "presets lists the presets. show prints the rules in force, with --tree every file of DIR and its level. explain shows\n"
    "which rule decides about a path, and why the others do not. lint finds rules that are probably not meant; it exits\n"
    "with 1 when something that should be hidden is not.\n"
    "\n"
    "RULES, at least one of:\n" POLICY_OPTIONS_HELP "\n"
    "  --dir DIR              the codebase the rules are for\n"
    "  --tree                 with show: every file of DIR with its level\n"
    "  --json                 JSON on standard output\n"
    "  -h, --help             this text\n";

struct options {
    struct policy_options policy;
    const char *dir;
    bool tree;
    bool json;
    char **paths; /* borrowed from argv */
    int path_count;
};

enum {
    OPT_DIR = 0x2000,
    OPT_TREE,
    OPT_JSON,
};

static const struct option long_options[] = {
    POLICY_LONG_OPTIONS,
    { "dir", required_argument, NULL, OPT_DIR },
    { "tree", no_argument, NULL, OPT_TREE },
    { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Loads the rules that the options name and compiles them for their codebase. */
static int load_rules(const struct options *options, struct ruleset **ret_rules, struct err *err)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    struct ruleset_options compile = { 0 };
    int r;

    r = policy_options_load(&options->policy, NULL, &list, err);
    if (r < 0)
        return r;
    if (options->dir) {
        r = policy_tree_has_workspace(options->dir, &compile.workspace_is_real, err);
        if (r < 0)
            return r;
    }
    return ruleset_new(&list, &compile, ret_rules, err);
}

static json_t *rule_json(const struct rule_list *list, size_t index)
{
    const struct rule *rule = &list->items[index];
    json_t *o = json_pack("{s:I, s:o, s:s, s:s, s:i}", "number", (json_int_t) index + 1, "pattern",
                          output_json_name(rule->pattern), "permission", level_name(rule->level), "type",
                          rule_type_name(rule->type == RULE_UNSPECIFIED ? RULE_GLOB : rule->type), "priority", rule->priority);

    if (rule->preset)
        json_object_set_new(o, "preset", json_string(rule->preset));
    return o;
}

static void print_rule(const struct rule_list *list, size_t index)
{
    const struct rule *rule = &list->items[index];

    printf("rule %zu ", index + 1);
    output_escaped(stdout, rule->pattern);
    printf(" = %s", level_name(rule->level));
    if (rule->priority != 0)
        printf(" @%d", rule->priority);
    if (rule->type == RULE_FILE || rule->type == RULE_DIRECTORY)
        printf(" (type %s)", rule_type_name(rule->type));
    if (rule->preset)
        printf(" (preset %s)", rule->preset);
}

static int run_presets(const struct options *options)
{
    size_t count;
    const struct preset *presets = preset_list(&count);
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++) {
        if (options->json)
            json_array_append_new(all, json_pack("{s:s, s:s}", "name", presets[i].name, "summary", presets[i].summary));
        else
            printf("%-12s %s\n", presets[i].name, presets[i].summary);
    }
    if (options->json)
        output_json(all);
    else
        json_decref(all);
    return EXIT_SUCCESS;
}

static const char *shown_level(const struct policy_tree_entry *entry)
{
    return entry->is_passage ? "passage" : level_name(entry->level);
}

/* Calls `on_entry` for each entry, except for those in hidden directories without visible files: the directory's own line suffices. */
static void each_shown(const struct policy_tree *tree, void (*on_entry)(const struct policy_tree_entry *entry, json_t *all),
                       json_t *all)
{
    const struct policy_tree_entry *closed = NULL;

    for (size_t i = 0; i < tree->count; i++) {
        const struct policy_tree_entry *e = &tree->entries[i];
        size_t len = closed ? strlen(closed->path) : 0;
        if (closed && strncmp(e->path, closed->path, len) == 0 && e->path[len] == '/')
            continue;
        closed = e->is_dir && e->level == LEVEL_NONE && !e->is_passage ? e : NULL;
        on_entry(e, all);
    }
}

static void add_entry_json(const struct policy_tree_entry *e, json_t *all)
{
    json_array_append_new(all, json_pack("{s:o, s:s, s:b, s:b}", "path", output_json_name(e->path), "level", shown_level(e),
                                         "directory", e->is_dir, "madeAtStart", e->is_made));
}

static void print_entry(const struct policy_tree_entry *e, json_t *all)
{
    (void) all;
    printf("%-8s", shown_level(e));
    output_escaped(stdout, e->path);
    printf("%s%s\n", e->is_dir ? "/" : "", e->is_made ? "  (made when a sandbox starts)" : "");
}

static int show_tree(const struct options *options, struct ruleset *rules, struct err *err)
{
    struct policy_tree tree;
    int r = policy_tree_init(&tree, options->dir, rules, err);

    if (r < 0)
        return output_error("policy", err);
    if (options->json) {
        json_t *all = json_array();
        each_shown(&tree, add_entry_json, all);
        output_json(all);
    } else {
        each_shown(&tree, print_entry, NULL);
    }
    policy_tree_done(&tree);
    return EXIT_SUCCESS;
}

static int run_show(const struct options *options)
{
    autoptr(ruleset) rules = NULL;
    struct err err = ERR_NONE;

    if (options->tree && !options->dir) {
        err_invalid(&err, "--tree needs --dir DIR");
        return output_error("policy", &err);
    }
    if (load_rules(options, &rules, &err) < 0)
        return output_error("policy", &err);
    if (options->tree)
        return show_tree(options, rules, &err);

    const struct rule_list *list = ruleset_rules(rules);
    json_t *all = json_array();
    for (size_t i = 0; i < list->count; i++) {
        if (options->json) {
            json_array_append_new(all, rule_json(list, i));
        } else {
            print_rule(list, i);
            putchar('\n');
        }
    }
    if (options->json)
        output_json(all);
    else
        json_decref(all);
    return EXIT_SUCCESS;
}

static const char *cause_name(enum explain_cause cause)
{
    static const char *const names[] = {
        [EXPLAIN_GRANTED] = "granted",
        [EXPLAIN_HIDDEN] = "hidden",
        [EXPLAIN_UNMATCHED] = "no-rule",
        [EXPLAIN_BENEATH] = "beneath-hidden-directory",
    };

    return names[cause];
}

static json_t *explanation_json(const struct rule_list *list, const struct explanation *e, const struct policy_tree *tree)
{
    const struct policy_tree_entry *entry = policy_tree_find(tree, e->path);
    json_t *others = json_array();
    json_t *o = json_pack("{s:o, s:s, s:s, s:b}", "path", output_json_name(e->path), "level", level_name(e->level), "cause",
                          cause_name(e->cause), "mayBePassage", e->may_be_passage);

    if (entry)
        json_object_set_new(o, "passage", json_boolean(entry->is_passage));
    if (e->rule != EXPLAIN_NO_RULE)
        json_object_set_new(o, "rule", rule_json(list, e->rule));
    if (e->hidden_dir)
        json_object_set_new(o, "hiddenDirectory", output_json_name(e->hidden_dir));
    for (size_t i = 0; i < e->other_count; i++) {
        json_t *other = rule_json(list, e->others[i].rule);
        json_object_set_new(other, "reason", json_string(e->others[i].reason));
        json_array_append_new(others, other);
    }
    json_object_set_new(o, "others", others);
    return o;
}

/* Explains whether a hidden directory is still listed because it leads to visible files. */
static void print_passage(const struct explanation *e, const struct policy_tree *tree)
{
    const struct policy_tree_entry *entry = tree ? policy_tree_find(tree, e->path) : NULL;

    if (strcmp(e->path, "/") == 0 && e->level == LEVEL_NONE)
        printf("  the root is always there; it lists only what is visible\n");
    else if (entry && entry->is_passage)
        printf("  the directory is shown all the same, as a passage: it lists only what is visible in it\n");
    else if (e->may_be_passage && !entry)
        printf("  as a directory it is shown if something visible exists in it, and only that is listed\n");
}

static void print_explanation(const struct rule_list *list, const struct explanation *e, const struct policy_tree *tree)
{
    output_escaped(stdout, e->path);
    printf(": %s\n", level_name(e->level));
    if (e->cause == EXPLAIN_UNMATCHED) {
        printf("  no rule matches%s\n", strcmp(e->path, "/") == 0 ? "" : ", so it does not exist");
    } else {
        printf(e->cause == EXPLAIN_GRANTED ? "  by " : "  hidden by ");
        print_rule(list, e->rule);
        if (e->hidden_dir) {
            printf("\n  which hides the directory ");
            output_escaped(stdout, e->hidden_dir);
            printf(" and what lies in it");
        }
        putchar('\n');
    }
    for (size_t i = 0; i < e->other_count; i++) {
        printf("  not ");
        print_rule(list, e->others[i].rule);
        printf(": %s\n", e->others[i].reason);
    }
    print_passage(e, tree);
}

/* Strips /workspace from a path, because people name files as they appear in the sandbox. */
static const char *without_workspace(const struct options *options, const char *path)
{
    static const char workspace[] = "/workspace";
    size_t len = sizeof(workspace) - 1;
    bool real = false;

    if (strncmp(path, workspace, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return path;
    if (options->dir && policy_tree_has_workspace(options->dir, &real, NULL) < 0)
        return path;
    return real ? path : path[len] ? path + len : "/";
}

static int run_explain(const struct options *options)
{
    autoptr(ruleset) rules = NULL;
    struct policy_tree tree = { 0 };
    struct err err = ERR_NONE;
    json_t *all = json_array();
    int code = EXIT_SUCCESS;

    if (options->path_count == 0)
        err_invalid(&err, "explain needs a PATH; usage: agentfense policy explain RULES [--dir DIR] [--json] PATH...");
    else if (load_rules(options, &rules, &err) == 0 && options->dir)
        policy_tree_init(&tree, options->dir, rules, &err);
    for (int i = 0; err.code == ERR_OK && i < options->path_count; i++) {
        autoptr(explanation) e = NULL;
        if (explain_path(rules, without_workspace(options, options->paths[i]), &e, &err) < 0)
            break;
        if (options->json)
            json_array_append_new(all, explanation_json(ruleset_rules(rules), e, &tree));
        else
            print_explanation(ruleset_rules(rules), e, options->dir ? &tree : NULL);
    }
    if (err.code != ERR_OK)
        code = output_error("policy", &err);
    else if (options->json)
        output_json(json_incref(all));
    json_decref(all);
    policy_tree_done(&tree);
    return code;
}

static int see_codebase(const struct options *options, struct ruleset *rules, struct lint *lint, struct err *err)
{
    struct policy_tree tree;
    int r = policy_tree_init(&tree, options->dir, rules, err);

    if (r < 0)
        return r;
    lint_add_path(lint, "/");
    for (size_t i = 0; i < tree.count; i++) {
        if (tree.entries[i].is_made)
            continue;
        lint_add_path(lint, tree.entries[i].path);
    }
    policy_tree_done(&tree);
    return 0;
}

static void print_findings(const struct lint_finding *findings, size_t count)
{
    if (count == 0)
        puts("no findings");
    for (size_t i = 0; i < count; i++)
        printf("%s: %s [%s]\n", findings[i].severity == LINT_ERROR ? "error" : "warning", findings[i].text, findings[i].code);
}

static void print_findings_json(const struct rule_list *list, const struct lint_finding *findings, size_t count)
{
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++) {
        const struct lint_finding *f = &findings[i];
        json_t *o = json_pack("{s:s, s:s, s:s}", "severity", f->severity == LINT_ERROR ? "error" : "warning", "code", f->code,
                              "text", f->text);
        if (f->rule != LINT_NO_RULE)
            json_object_set_new(o, "rule", rule_json(list, f->rule));
        if (f->other != LINT_NO_RULE)
            json_object_set_new(o, "otherRule", rule_json(list, f->other));
        json_array_append_new(all, o);
    }
    output_json(all);
}

static int run_lint(const struct options *options)
{
    autoptr(ruleset) rules = NULL;
    autoptr(lint) lint = NULL;
    struct err err = ERR_NONE;
    size_t count;

    if (load_rules(options, &rules, &err) < 0)
        return output_error("policy", &err);
    lint = lint_new(rules);
    if (options->dir && see_codebase(options, rules, lint, &err) < 0)
        return output_error("policy", &err);
    lint_finish(lint);
    const struct lint_finding *findings = lint_findings(lint, &count);
    if (options->json)
        print_findings_json(ruleset_rules(rules), findings, count);
    else
        print_findings(findings, count);
    return count > 0 && findings[0].severity == LINT_ERROR ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct {
    const char *name;
    int (*run)(const struct options *options);
    bool takes_paths;
} subverbs[] = {
    { "presets", run_presets, false },
    { "show", run_show, false },
    { "explain", run_explain, true },
    { "lint", run_lint, false },
};

/* Returns 0 to go on, or -1 - CODE to exit with CODE. */
static int parse_options(int argc, char **argv, struct options *options)
{
    int option;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (policy_options_take(&options->policy, option, optarg))
            continue;
        switch (option) {
        case OPT_DIR:
            options->dir = optarg;
            break;
        case OPT_TREE:
            options->tree = true;
            break;
        case OPT_JSON:
            options->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return -1 - EXIT_SUCCESS;
        default:
            fputs("'agentfense policy --help' lists the options\n", stderr);
            return -1 - EXIT_USAGE;
        }
    }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return 0;
}

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "agentfense policy: %s '", what);
    output_escaped(stderr, value);
    fputs("'; 'agentfense policy --help' prints the usage\n", stderr);
    return EXIT_USAGE;
}

static int run_policy(int argc, char **argv)
{
    struct options options = { 0 };
    const char *name = argc > 1 ? argv[1] : "--help";
    int code;

    if (argc <= 1)
        fputs("agentfense policy: the second word must be presets, show, explain or lint\n", stderr);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        fputs(help, argc > 1 ? stdout : stderr);
        return argc > 1 ? EXIT_SUCCESS : EXIT_USAGE;
    }
    for (size_t i = 0; i < ARRAY_LEN(subverbs); i++) {
        if (strcmp(name, subverbs[i].name) != 0)
            continue;
        argv[1] = argv[0]; /* getopt(3) prints argv[0] in its errors */
        code = parse_options(argc - 1, argv + 1, &options);
        if (code < 0)
            code = -1 - code;
        else if (options.path_count > 0 && !subverbs[i].takes_paths)
            code = refuse("unexpected argument", options.paths[0]);
        else
            code = subverbs[i].run(&options);
        policy_options_done(&options.policy);
        return code;
    }
    return refuse("unknown subcommand", name);
}

const struct verb verb_policy = {
    .name = "policy",
    .summary = "show, explain and check the rules that decide what a sandbox sees",
    .run = run_policy,
};
