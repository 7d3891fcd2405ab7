/* Replaces, changes, explains, previews and lints the rules of a sandbox. */
#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "policy/ruleset.h"
#include "service/rule_preview.h"
#include "service/sandboxes.h"

#define CHANGES_DEFAULT 100
#define CHANGES_MAX 1000
#define NAMES_MAX 10000

_Static_assert((int) SANDBOX__V1__LINT_SEVERITY__LINT_SEVERITY_ERROR == LINT_ERROR + 1, "severities");

int handle_update_permissions(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__UpdatePermissionsRequest *in = message;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(sandbox_info) struct sandbox_info info = { 0 };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = take_rules(in->permissions, in->n_permissions, &rules, err);
    if (r == 0)
        r = sandboxes_set_rules(request->service, &request->caller, in->sandbox_id, in->preset, &rules, &info, err);
    if (r >= 0)
        *ret = &make_sandbox(request->service, &info)->base;
    return r;
}

static char *make_reason(const struct rule_list *rules, const struct explained_rule *other)
{
    autofree char *line = xprintf("rule %zu '%s' %s: %s", other->rule + 1, rules->items[other->rule].pattern,
                                  level_name(rules->items[other->rule].level), other->reason);

    return make_text(line, strlen(line));
}

static Sandbox__V1__ExplainPermissionResponse *make_explanation(struct ruleset *compiled, const struct explanation *explanation)
{
    const struct rule_list *rules = ruleset_rules(compiled);
    Sandbox__V1__ExplainPermissionResponse *out = message_new(&sandbox__v1__explain_permission_response__descriptor);

    out->path = make_text(explanation->path, strlen(explanation->path));
    out->permission = (Sandbox__V1__Permission) (explanation->level + 1);
    out->passage = explanation->may_be_passage;
    if (explanation->rule != EXPLAIN_NO_RULE)
        out->rule = make_rule(&rules->items[explanation->rule]);
    out->reasons = xalloc((explanation->other_count + 1) * sizeof(*out->reasons));
    if (explanation->hidden_dir) {
        autofree char *line = xprintf("the directory '%s' above it is hidden", explanation->hidden_dir);
        out->reasons[out->n_reasons++] = make_text(line, strlen(line));
    }
    for (size_t i = 0; i < explanation->other_count; i++)
        out->reasons[out->n_reasons++] = make_reason(rules, &explanation->others[i]);
    return out;
}

int handle_explain_permission(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ExplainPermissionRequest *in = message;
    autoptr(ruleset) rules = NULL;
    autoptr(explanation) explanation = NULL;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->path, "path", err);
    if (r == 0)
        r = sandboxes_explain(request->service, &request->caller, id, in->path, &rules, &explanation, err);
    if (r == 0 && explanation)
        *ret = &make_explanation(rules, explanation)->base;
    return r;
}

/* ---- changing some ---- */

static int rules_edit(const struct request *request, const char *given, const struct rule_edit *edit, ProtobufCMessage **ret,
                      struct err *err)
{
    autodone(sandbox_info) struct sandbox_info info = { 0 };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, given, id, err);

    if (r == 0)
        r = sandboxes_edit_rules(request->service, &request->caller, id, edit, &info, err);
    if (r >= 0)
        *ret = &make_sandbox(request->service, &info)->base;
    return r;
}

int handle_add_permission_rules(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__AddPermissionRulesRequest *in = message;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    const struct rule_edit wanted = { .rules = &rules };
    int r = in->n_permissions ? take_rules(in->permissions, in->n_permissions, &rules, err)
                              : err_invalid(err, "permissions is required");

    return r < 0 ? r : rules_edit(request, in->sandbox_id, &wanted, ret, err);
}

int handle_remove_permission_rules(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    static const struct rule_list none = RULE_LIST_EMPTY;
    const Sandbox__V1__RemovePermissionRulesRequest *in = message;
    const struct rule_edit wanted = { .rules = &none,
                                      .patterns = (const char *const *) in->patterns,
                                      .pattern_count = in->n_patterns };

    if (in->n_patterns == 0 || in->n_patterns > NAMES_MAX)
        return err_invalid(err, "patterns must name between 1 and %d patterns", NAMES_MAX);
    return rules_edit(request, in->sandbox_id, &wanted, ret, err);
}

/* ---- what they would mean ---- */

static Sandbox__V1__LintFinding **make_findings(const struct rule_preview *preview, size_t *ret_count)
{
    Sandbox__V1__LintFinding **list = preview->finding_count ? xalloc(preview->finding_count * sizeof(*list)) : NULL;

    for (size_t i = 0; i < preview->finding_count; i++) {
        const struct rule_preview_finding *finding = &preview->findings[i];
        Sandbox__V1__LintFinding *out = list[i] = message_new(&sandbox__v1__lint_finding__descriptor);

        out->severity = (Sandbox__V1__LintSeverity) (finding->severity + 1);
        out->code = xdup(finding->code);
        out->rule = finding->rule == LINT_NO_RULE ? 0 : (int32_t) finding->rule + 1;
        out->other = finding->other == LINT_NO_RULE ? 0 : (int32_t) finding->other + 1;
        out->text = make_string(finding->text);
    }
    *ret_count = preview->finding_count;
    return list;
}

static Sandbox__V1__PreviewPermissionsResponse *make_preview(const struct rule_preview *preview)
{
    Sandbox__V1__PreviewPermissionsResponse *out = message_new(&sandbox__v1__preview_permissions_response__descriptor);

    out->permissions = xalloc((preview->rules.count + 1) * sizeof(*out->permissions));
    for (size_t i = 0; i < preview->rules.count; i++)
        out->permissions[out->n_permissions++] = make_rule(&preview->rules.items[i]);
    out->changes = xalloc((preview->count + 1) * sizeof(*out->changes));
    for (size_t i = 0; i < preview->count; i++) {
        Sandbox__V1__PermissionChange *change = out->changes[out->n_changes++] =
            message_new(&sandbox__v1__permission_change__descriptor);

        change->path = make_string(preview->changes[i].path);
        change->before = (Sandbox__V1__Permission) (preview->changes[i].was + 1);
        change->after = (Sandbox__V1__Permission) (preview->changes[i].now + 1);
    }
    out->revealed = (int64_t) preview->revealed;
    out->hidden = (int64_t) preview->hidden;
    out->changed = (int64_t) preview->changed;
    out->paths = (int64_t) preview->paths;
    out->incomplete = preview->is_incomplete;
    out->n_revealed_patterns = preview->pattern_count;
    out->revealed_patterns = make_texts(preview->patterns, preview->pattern_count);
    out->findings = make_findings(preview, &out->n_findings);
    return out;
}

/* Owns the rules of a request. */
struct wanted_edit {
    struct rule_edit edit;
    struct rule_list rules; /* owned */
};

static int rules_take_edit(const Sandbox__V1__PreviewPermissionsRequest *in, struct wanted_edit *ret, struct err *err)
{
    bool replaces = *in->preset || in->n_permissions, changes = in->n_add || in->n_remove_patterns;

    if (replaces == changes)
        return err_invalid(err, replaces
                                    ? "preset and permissions take the place of all rules: add and remove_patterns go without"
                                    : "preset, permissions, add or remove_patterns is required");
    if (in->n_remove_patterns > NAMES_MAX)
        return err_invalid(err, "remove_patterns has more than %d patterns", NAMES_MAX);
    ret->edit = (struct rule_edit){ .replaces = replaces,
                                    .preset = in->preset,
                                    .rules = &ret->rules,
                                    .patterns = (const char *const *) in->remove_patterns,
                                    .pattern_count = in->n_remove_patterns };
    return take_rules(replaces ? in->permissions : in->add, replaces ? in->n_permissions : in->n_add, &ret->rules, err);
}

int handle_preview_permissions(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__PreviewPermissionsRequest *in = message;
    struct wanted_edit wanted = { .rules = RULE_LIST_EMPTY };
    struct rule_preview_request wish = { .edit = &wanted.edit,
                                         .paths = (const char *const *) in->paths,
                                         .path_count = in->n_paths,
                                         .max_changes = in->max_changes ? (size_t) in->max_changes : CHANGES_DEFAULT };
    autodone(rule_preview) struct rule_preview preview = { 0 };
    autodone(rule_base) struct rule_base base = RULE_BASE_NONE;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0 && (in->max_changes < 0 || in->max_changes > CHANGES_MAX || in->n_paths > NAMES_MAX))
        r = err_invalid(err, "max_changes must be between 0 and %d, and paths name at most %d", CHANGES_MAX, NAMES_MAX);
    if (r == 0)
        r = rules_take_edit(in, &wanted, err);
    if (r == 0)
        r = rule_base_open(request->service, &request->caller, id, &base, err);
    if (r == 0)
        r = rule_preview_run(&base, &request->caller, &wish, &preview, err);
    if (r == 0)
        *ret = &make_preview(&preview)->base;
    rule_list_done(&wanted.rules);
    return r;
}

static int lint_open_base(const struct request *request, const Sandbox__V1__LintPermissionsRequest *in, struct rule_base *ret,
                          struct err *err)
{
    char id[SANDBOX_ID_MAX];
    int r;

    if (*in->sandbox_id && *in->codebase_id)
        return err_invalid(err, "sandbox_id and codebase_id are both given");
    if (*in->codebase_id && !*in->preset && !in->n_permissions)
        return err_invalid(err, "preset or permissions is required with codebase_id");
    if (*in->codebase_id)
        return rule_base_open_codebase(request->service, &request->caller, in->codebase_id, ret, err);
    r = request_find_sandbox(request, in->sandbox_id, id, err);
    return r < 0 ? r : rule_base_open(request->service, &request->caller, id, ret, err);
}

int handle_lint_permissions(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__LintPermissionsRequest *in = message;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    const struct rule_edit given = { .replaces = true, .preset = in->preset, .rules = &rules };
    const struct rule_preview_request wish = { .edit = *in->preset || in->n_permissions ? &given : NULL };
    autodone(rule_preview) struct rule_preview preview = { 0 };
    autodone(rule_base) struct rule_base base = RULE_BASE_NONE;
    int r = take_rules(in->permissions, in->n_permissions, &rules, err);

    if (r == 0)
        r = lint_open_base(request, in, &base, err);
    if (r == 0)
        r = rule_preview_run(&base, &request->caller, &wish, &preview, err);
    if (r < 0)
        return r;
    Sandbox__V1__LintPermissionsResponse *out = message_new(&sandbox__v1__lint_permissions_response__descriptor);
    out->findings = make_findings(&preview, &out->n_findings);
    out->paths = (int64_t) preview.paths;
    out->incomplete = preview.is_incomplete;
    *ret = &out->base;
    return 0;
}
