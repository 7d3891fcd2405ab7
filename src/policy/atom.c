#include "policy/atom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *atom_rank_name(enum atom_rank rank)
{
    return rank == ATOM_FILE ? "file" : rank == ATOM_DIRECTORY ? "directory" : "glob";
}

void atom_list_done(struct atom_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        pattern_free(list->items[i].pattern);
        pattern_free(list->items[i].cover);
    }
    free(list->items);
    *list = (struct atom_list){ 0 };
}

/* `.` is dropped as in any path. `..` is refused: it would leave the root, or is a mistake. */
static int atom_parse_component(struct pattern *pattern, const char *bytes, size_t len, bool wildcards, struct err *err)
{
    struct glob glob;
    int r;

    if (len == 0 || (len == 1 && bytes[0] == '.'))
        return 0;
    if (wildcards && len == 2 && memcmp(bytes, "**", 2) == 0) {
        pattern_add_any_depth(pattern);
        return 0;
    }
    if (wildcards) {
        r = glob_parse(bytes, len, &glob, err);
        if (r < 0)
            return r;
    } else {
        glob_init_literal(&glob, bytes, len);
    }
    if (glob.shape == GLOB_LITERAL && strcmp(glob.text, "..") == 0) {
        glob_done(&glob);
        return err_invalid(err, "'..' is not allowed in a pattern");
    }
    pattern_take_glob(pattern, &glob);
    return 0;
}

static int parse_components(const char *text, bool wildcards, struct pattern **ret_pattern, struct err *err)
{
    autoptr(pattern) pattern = pattern_new();
    int r;

    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "/");
        r = atom_parse_component(pattern, at, len, wildcards, err);
        if (r < 0)
            return r;
        at += len;
        at += strspn(at, "/");
    }
    *ret_pattern = steal_ptr(&pattern);
    return 0;
}

/* A name without a slash, except trailing ones. */
static bool is_bare(const char *text)
{
    size_t len = strcspn(text, "/");

    return len > 0 && text[len + strspn(text + len, "/")] == '\0';
}

static bool ends_in_slash(const char *text)
{
    return text[strlen(text) - 1] == '/';
}

/* Appends one atom. With `beneath` it covers the subtree as well, but ranks by the pattern as written. */
static void atom_list_add(struct atom_list *list, const struct rule *rule, uint32_t index, const struct pattern *pattern,
                          enum atom_rank rank, bool beneath)
{
    struct atom atom = {
        .rule = index,
        .level = rule->level,
        .class = atom_class(rule->priority, rank),
        .pattern = pattern_dup(pattern, 0),
        .specificity = pattern_specificity(pattern),
    };

    if (beneath)
        pattern_add_any_depth(atom.pattern);
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = atom;
}

/* A path without wildcards becomes a file atom for the path itself and a glob atom for all beneath. Containment in such a rule
 * means both together (`cover`). */
static void add_untyped_literal(struct atom_list *list, const struct rule *rule, uint32_t index, const struct pattern *pattern)
{
    autoptr(pattern) beneath = pattern_dup(pattern, 0);

    pattern_add_any_depth(beneath);
    atom_list_add(list, rule, index, pattern, ATOM_FILE, false);
    list->items[list->count - 1].cover = pattern_dup(beneath, 0);
    atom_list_add(list, rule, index, beneath, ATOM_GLOB, false);
}

static void atom_list_add_form(struct atom_list *list, const struct rule *rule, uint32_t index, const struct pattern *pattern,
                               bool literal)
{
    if (rule->type == RULE_FILE)
        atom_list_add(list, rule, index, pattern, ATOM_FILE, false);
    else if (rule->type == RULE_DIRECTORY || ends_in_slash(rule->pattern))
        atom_list_add(list, rule, index, pattern, ATOM_DIRECTORY, true);
    else if (literal)
        add_untyped_literal(list, rule, index, pattern);
    else
        atom_list_add(list, rule, index, pattern, ATOM_GLOB, false);
}

static bool names_workspace(const char *text, const struct pattern *pattern)
{
    if (text[0] != '/' || pattern->count == 0 || pattern->parts[0].any_depth)
        return false;
    const struct glob *first = &pattern->parts[0].glob;
    return first->shape == GLOB_LITERAL && strcmp(first->text, "workspace") == 0 && (pattern->count > 1 || ends_in_slash(text));
}

/* A bare name floats if it hides and is anchored if it grants; both show less. /workspace/x is stripped if it grants, and holds
 * in both forms if it hides, for the same reason. */
static void atom_list_add_reading(struct atom_list *list, const struct rule *rule, uint32_t index, struct pattern *pattern,
                                  bool strip_workspace)
{
    bool strip = strip_workspace && names_workspace(rule->pattern, pattern);
    bool literal = pattern_is_literal(pattern); /* before it may float: the `**` added then is no wildcard of the rule */

    if (rule->level == LEVEL_NONE && is_bare(rule->pattern) && pattern->count > 0)
        pattern_prepend_any_depth(pattern);
    if (strip) {
        autoptr(pattern) stripped = pattern_dup(pattern, 1);
        atom_list_add_form(list, rule, index, stripped, literal);
    }
    if (!strip || rule->level == LEVEL_NONE)
        atom_list_add_form(list, rule, index, pattern, literal);
}

int atom_list_add_rule(struct atom_list *list, const struct rule *rule, uint32_t index, bool strip_workspace, struct err *err)
{
    bool exact = rule->type == RULE_FILE || rule->type == RULE_DIRECTORY;
    autoptr(pattern) pattern = NULL;
    autoptr(pattern) as_glob = NULL;
    int r;

    r = parse_components(rule->pattern, !exact, &pattern, err);
    if (r < 0)
        return r;
    atom_list_add_reading(list, rule, index, pattern, strip_workspace);

    /* With type file or directory `*` is a plain character. Whoever hides `*.pem` with type file hardly means that, so such a
     * `none` rule holds in both readings. One that is not a valid glob (`/pages/[id`) has only the exact reading. */
    if (exact && rule->level == LEVEL_NONE && strpbrk(rule->pattern, "*?[\\") &&
        parse_components(rule->pattern, true, &as_glob, NULL) == 0)
        atom_list_add_reading(list, rule, index, as_glob, strip_workspace);
    return 0;
}

int atom_check_rule(const struct rule *rule, struct err *err)
{
    struct atom_list atoms = { 0 };
    int r = atom_list_add_rule(&atoms, rule, 0, true, err);

    atom_list_done(&atoms);
    return r;
}
