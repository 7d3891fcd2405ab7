#include "review/acceptance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "policy/glob.h"

struct segment {
    bool is_any_number; /* `**` */
    struct glob glob;
};

struct acceptance_glob {
    char *text;               /* owned; as given */
    struct segment *segments; /* owned */
    size_t count, cap;
    bool is_bad;
};

const char *acceptance_status_name(enum acceptance_status status)
{
    static const char *const names[] = { "accepted", "denied", "ignored", "binary_ignored" };

    return names[status];
}

/* ---- parsing ---- */

static void add_segment(struct acceptance_glob *glob, const struct path_component *c)
{
    struct segment segment = { .is_any_number = path_component_is(c, "**") };

    if (segment.is_any_number && glob->count > 0 && glob->segments[glob->count - 1].is_any_number)
        return;
    if (!segment.is_any_number && glob_parse(c->name, c->len, &segment.glob, NULL) < 0) {
        glob->is_bad = true;
        return;
    }
    vec_room(&glob->segments, &glob->cap, glob->count);
    glob->segments[glob->count++] = segment;
}

int acceptance_add_glob(struct acceptance_criteria *criteria, const char *text)
{
    struct acceptance_glob glob = { .text = NULL };
    const char *end = text + strlen(text);
    struct path_component c;

    if (criteria->glob_count == ACCEPTANCE_GLOBS_MAX)
        return -E2BIG;
    for (const char *at = text; path_next_component(&at, end, &c) && !glob.is_bad;) {
        if (!path_component_is(&c, "."))
            add_segment(&glob, &c);
    }
    glob.text = xdup(text);
    glob.is_bad |= glob.count == 0;
    vec_room(&criteria->globs, &criteria->glob_cap, criteria->glob_count);
    criteria->globs[criteria->glob_count++] = glob;
    return glob.is_bad;
}

static void lowercase_text(char *text)
{
    for (; *text; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char) (*text | 0x20);
    }
}

int acceptance_add_extension(struct acceptance_criteria *criteria, const char *extension)
{
    char *text;

    if (criteria->extension_count == ACCEPTANCE_GLOBS_MAX)
        return -E2BIG;
    text = xprintf("%s%s", extension[0] == '.' ? "" : ".", extension);
    lowercase_text(text);
    vec_room(&criteria->extensions, &criteria->extension_cap, criteria->extension_count);
    criteria->extensions[criteria->extension_count++] = text;
    return 0;
}

/* ---- matching ---- */

/* Like stars in a name: if the rest does not match, the last `**` takes one more segment. Earlier ones need no second try. */
static bool glob_meets(const struct acceptance_glob *glob, const char *path)
{
    const char *end = path + strlen(path), *at = path, *again_at = NULL;
    size_t i = 0, again = 0;
    struct path_component c;

    if (glob->is_bad)
        return false;
    for (;;) {
        const char *next = at;
        if (i < glob->count && glob->segments[i].is_any_number) {
            again = ++i;
            again_at = at;
            continue;
        }
        bool is_at_end = !path_next_component(&next, end, &c);
        if (is_at_end && i == glob->count)
            return true;
        if (!is_at_end && i < glob->count && glob_matches(&glob->segments[i].glob, c.name, c.len)) {
            at = next;
            i++;
            continue;
        }
        if (!again_at || !path_next_component(&again_at, end, &c))
            return false;
        at = again_at;
        i = again;
    }
}

static const char *meets_glob(const struct acceptance_criteria *criteria, const char *path)
{
    for (size_t i = 0; i < criteria->glob_count; i++) {
        if (glob_meets(&criteria->globs[i], path))
            return criteria->globs[i].text;
    }
    return NULL;
}

static const char *meets_extension(const struct acceptance_criteria *criteria, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash + 1 : path, '.');
    autofree char *extension = xdup(dot ? dot : "");

    lowercase_text(extension);
    for (size_t i = 0; i < criteria->extension_count; i++) {
        if (strcmp(criteria->extensions[i], extension) == 0)
            return criteria->extensions[i];
    }
    return NULL;
}

static bool is_empty(const struct acceptance_criteria *criteria)
{
    return criteria->glob_count == 0 && criteria->extension_count == 0;
}

static bool meets_criteria(const struct acceptance_criteria *criteria, const char *path, const char **ret_rule)
{
    const char *glob = meets_glob(criteria, path), *extension = meets_extension(criteria, path);

    if ((criteria->glob_count > 0 && !glob) || (criteria->extension_count > 0 && !extension))
        return false;
    *ret_rule = glob ? glob : extension;
    return true;
}

struct acceptance_verdict acceptance_check(const struct acceptance *acceptance, const char *project_path, bool is_binary)
{
    const char *rule = NULL;

    if (acceptance->ignores_binary && is_binary)
        return (struct acceptance_verdict){ ACCEPTANCE_BINARY_IGNORED, "binary files are ignored", NULL };
    if (!is_empty(&acceptance->deny) && meets_criteria(&acceptance->deny, project_path, &rule))
        return (struct acceptance_verdict){ ACCEPTANCE_DENIED, "matches what is denied", rule };
    if (is_empty(&acceptance->allow))
        return (struct acceptance_verdict){ ACCEPTANCE_ACCEPTED, NULL, NULL };
    if (meets_criteria(&acceptance->allow, project_path, &rule))
        return (struct acceptance_verdict){ ACCEPTANCE_ACCEPTED, "matches what is allowed", rule };
    return (struct acceptance_verdict){ ACCEPTANCE_IGNORED, "matches nothing that is allowed", NULL };
}

static void criteria_done(struct acceptance_criteria *criteria)
{
    for (size_t i = 0; i < criteria->glob_count; i++) {
        struct acceptance_glob *glob = &criteria->globs[i];
        for (size_t k = 0; k < glob->count; k++)
            glob_done(&glob->segments[k].glob);
        free(glob->segments);
        free(glob->text);
    }
    for (size_t i = 0; i < criteria->extension_count; i++)
        free(criteria->extensions[i]);
    free(criteria->globs);
    free(criteria->extensions);
}

void acceptance_done(struct acceptance *acceptance)
{
    criteria_done(&acceptance->allow);
    criteria_done(&acceptance->deny);
    *acceptance = (struct acceptance){ .ignores_binary = false };
}
