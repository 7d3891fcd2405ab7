#include "policy/preset.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct preset_rule {
    const char *pattern;
    enum level level;
    int32_t priority;
};

#define SECRET(pattern)                                                                                                        \
    {                                                                                                                          \
        pattern, LEVEL_NONE, 100                                                                                               \
    }

/* Files that are secret by what tools make of their names. */
// clang-format off
#define SECRETS                                                                                                                \
    SECRET("**/.env*"), SECRET("**/secrets/**"),                                                                               \
    SECRET("**/*.key"), SECRET("**/*.pem"), SECRET("**/*.p12"), SECRET("**/*.pfx"),                                            \
    SECRET("**/*.jks"), SECRET("**/*.keystore"), SECRET("**/*.kdbx"),                                                          \
    SECRET("**/.ssh/id_*"), SECRET("**/.gnupg/**"),                                                                            \
    SECRET("**/.npmrc"), SECRET("**/.netrc"), SECRET("**/.pypirc"), SECRET("**/.git-credentials"),                             \
    SECRET("**/.aws/**"), SECRET("**/.kube/**"), SECRET("**/.config/gcloud/**"), SECRET("**/.docker/config.json")

/*
 * What the names above catch although it is none: templates, certificate bundles without which pip and npm fail, and code of
 * installed packages. Each stands in the class of the rule it excepts from and is contained in it, so it opens nothing that
 * another secret rule hides. `at` is where it holds: "**" or "/output/" and the like.
 */
#define NOT_SECRET(at, level)                                                                                                  \
    { at "/.env*.example", level, 100 }, { at "/.env*.sample", level, 100 },                                                   \
    { at "/secrets/**/*.example", level, 100 }, { at "/secrets/**/*.sample", level, 100 },                                     \
    { at "/cacert.pem", level, 100 },                                                                                          \
    { at "/site-packages/**/*.pem", level, 100 }, { at "/node_modules/**/*.pem", level, 100 },                                 \
    { at "/site-packages/**/secrets/**", level, 100 }, { at "/node_modules/**/secrets/**", level, 100 }

#define NOT_CREDENTIALS(at, level)                                                                                             \
    { at "/credentials*.example", level, 100 }, { at "/credentials*.sample", level, 100 },                                     \
    { at "/site-packages/**/credentials*", level, 100 }, { at "/node_modules/**/credentials*", level, 100 }

static const struct preset_rule agent_safe[] = {
    { "**/*", LEVEL_READ, 0 },
    { "/output/**", LEVEL_WRITE, 10 },
    { "/tmp/**", LEVEL_WRITE, 10 },
    /* In the class of the exceptions below, so that none of them makes a lookup of .git search it for a template. */
    SECRET("**/.git/**"),
    SECRETS,
    SECRET("**/credentials*"),
    NOT_SECRET("**", LEVEL_READ),
    NOT_CREDENTIALS("**", LEVEL_READ),
    /* A virtual environment made in a writable place holds such files too, and installing into it writes them. */
    NOT_SECRET("/output/**", LEVEL_WRITE),
    NOT_CREDENTIALS("/output/**", LEVEL_WRITE),
    NOT_SECRET("/tmp/**", LEVEL_WRITE),
    NOT_CREDENTIALS("/tmp/**", LEVEL_WRITE),
};

/* Source named credentials.py has to build here, so only the data files of that name are hidden. */
static const struct preset_rule development[] = {
    { "**/*", LEVEL_WRITE, 0 },
    SECRETS,
    SECRET("**/credentials"), SECRET("**/credentials.json"), SECRET("**/credentials.yaml"), SECRET("**/credentials.yml"),
    SECRET("**/credentials.toml"), SECRET("**/credentials.ini"), SECRET("**/credentials.csv"),
    NOT_SECRET("**", LEVEL_WRITE),
};
// clang-format on

static const struct preset_rule full_access[] = { { "**/*", LEVEL_WRITE, 0 } };
static const struct preset_rule read_only[] = { { "**/*", LEVEL_READ, 0 } };
static const struct preset_rule view_only[] = { { "**/*", LEVEL_VIEW, 0 } };

static const struct preset presets[] = {
    { "agent-safe", "read everything, write to /output and /tmp; secrets and .git do not exist" },
    { "development", "read and write everything; secrets do not exist" },
    { "full-access", "read and write everything" },
    { "read-only", "read everything, write nothing" },
    { "view-only", "list everything, read nothing" },
};

static const struct {
    const struct preset_rule *rules;
    size_t count;
} contents[ARRAY_LEN(presets)] = {
    { agent_safe, ARRAY_LEN(agent_safe) }, { development, ARRAY_LEN(development) }, { full_access, ARRAY_LEN(full_access) },
    { read_only, ARRAY_LEN(read_only) },   { view_only, ARRAY_LEN(view_only) },
};

const struct preset *preset_list(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(presets);
    return presets;
}

static int refuse_name(const char *name, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add_str(&text, "unknown preset '");
    buf_add_excerpt(&text, name, strlen(name));
    buf_add_str(&text, "' (one of ");
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        buf_addf(&text, "%s%s", i ? ", " : "", presets[i].name);
    return err_invalid(err, "%s)", text.data);
}

int preset_add(const char *name, struct rule_list *rules, struct err *err)
{
    size_t p = 0;

    while (p < ARRAY_LEN(presets) && strcmp(presets[p].name, name) != 0)
        p++;
    if (p == ARRAY_LEN(presets))
        return refuse_name(name, err);
    if (rules->count + contents[p].count > RULES_MAX)
        return err_invalid(err, "more than %d rules with those of preset '%s'", RULES_MAX, name);
    for (size_t i = 0; i < contents[p].count; i++) {
        const struct preset_rule *rule = &contents[p].rules[i];
        int r = rule_list_add(rules, rule->pattern, strlen(rule->pattern), RULE_GLOB, rule->level, rule->priority, err);
        if (r < 0)
            return r;
        rules->items[rules->count - 1].preset = presets[p].name;
    }
    return 0;
}

static int32_t highest_priority(const struct rule_list *rules)
{
    int32_t highest = INT32_MIN;

    for (size_t i = 0; i < rules->count; i++) {
        if (rules->items[i].priority > highest)
            highest = rules->items[i].priority;
    }
    return highest;
}

int preset_extend(const char *name, const struct rule_list *additions, const struct rule_list *overrides,
                  struct rule_list *rules, struct err *err)
{
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;
    int r;

    r = preset_add(name, &all, err);
    if (r >= 0 && additions)
        r = rule_list_add_all(&all, additions, err);
    if (r < 0)
        return r;

    size_t raise_from = all.count;
    int32_t highest = highest_priority(&all);
    if (highest > INT32_MAX - 100)
        highest = INT32_MAX - 100;
    if (overrides)
        r = rule_list_add_all(&all, overrides, err);
    for (size_t i = raise_from; i < all.count; i++) {
        if (all.items[i].priority <= highest)
            all.items[i].priority = highest + 100;
    }
    if (r >= 0)
        r = rule_list_add_all(rules, &all, err);
    return r;
}
