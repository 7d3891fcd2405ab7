#include "cli/policy_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "policy/policy_file.h"
#include "policy/preset.h"

void policy_options_done(struct policy_options *options)
{
    free(options->files);
    free(options->shorts);
    *options = (struct policy_options){ 0 };
}

bool policy_options_take(struct policy_options *options, int option, const char *argument)
{
    switch (option) {
    case POLICY_OPT_PRESET:
        options->preset = argument;
        return true;
    case POLICY_OPT_POLICY:
        vec_room(&options->files, &options->file_cap, options->file_count);
        options->files[options->file_count++] = argument;
        return true;
    case POLICY_OPT_RULE:
        vec_room(&options->shorts, &options->short_cap, options->short_count);
        options->shorts[options->short_count++] = argument;
        return true;
    default:
        return false;
    }
}

static int load(const struct policy_options *options, const char *preset, struct rule_list *rules, struct err *err)
{
    int r = 0;

    if (preset)
        r = preset_add(preset, rules, err);
    for (size_t i = 0; r >= 0 && i < options->file_count; i++)
        r = policy_file_load(options->files[i], rules, err);
    for (size_t i = 0; r >= 0 && i < options->short_count; i++)
        r = rule_list_add_short(rules, options->shorts[i], err);
    return r;
}

int policy_options_load(const struct policy_options *options, const char *default_preset, struct rule_list *ret_rules,
                        struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    const char *preset = options->preset;
    int r;

    if (!preset && options->file_count == 0 && options->short_count == 0) {
        if (!default_preset)
            return err_invalid(err, "no rules: name a --preset, a --policy file or a --rule");
        preset = default_preset;
    }
    r = load(options, preset, &rules, err);
    if (r < 0)
        return r;
    *ret_rules = rules;
    rules = RULE_LIST_EMPTY;
    return 0;
}
