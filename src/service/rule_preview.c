#include "service/rule_preview.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"

#define PATHS_MAX 500000
#define WALK_NS (10 * CLOCK_NS_PER_SEC)
#define LOOK_EVERY 1000 /* paths between two checks of the clock */
#define PATTERNS_MAX 100
#define FINDINGS_MAX 200

struct looking {
    struct ruleset *was, *now; /* borrowed */
    struct lint *lint;
    struct rule_preview *out;
    const struct caller *caller;
    size_t max_changes;
    int64_t until_ns;
    struct rule_change *others; /* owned: changes that reveal nothing; appended at the end */
    size_t other_count, other_cap;
};

void rule_preview_done(struct rule_preview *preview)
{
    rule_list_done(&preview->rules);
    for (size_t i = 0; i < preview->count; i++)
        free(preview->changes[i].path);
    free(preview->changes);
    for (size_t i = 0; i < preview->pattern_count; i++)
        free(preview->patterns[i]);
    free(preview->patterns);
    for (size_t i = 0; i < preview->finding_count; i++)
        free(preview->findings[i].text);
    free(preview->findings);
    *preview = (struct rule_preview){ 0 };
}

static void note_change(struct looking *l, const char *path, enum level was, enum level now)
{
    struct rule_preview *out = l->out;
    const struct rule_change change = { .was = was, .now = now };

    out->changed++;
    out->revealed += was == LEVEL_NONE;
    out->hidden += now == LEVEL_NONE;
    if (was == LEVEL_NONE && out->count < l->max_changes) {
        vec_room(&out->changes, &out->cap, out->count);
        out->changes[out->count] = change;
        out->changes[out->count++].path = xdup(path);
    } else if (was != LEVEL_NONE && l->other_count < l->max_changes) {
        vec_room(&l->others, &l->other_cap, l->other_count);
        l->others[l->other_count] = change;
        l->others[l->other_count++].path = xdup(path);
    }
}

static void look_at(struct looking *l, const char *path)
{
    enum level was = ruleset_level_of(l->was, path), now = ruleset_level_of(l->now, path);

    l->out->paths++;
    if (was != now)
        note_change(l, path, was, now);
}

static int on_entry(const struct file_entry *entry, void *cookie)
{
    struct looking *l = cookie;
    struct pollfd cancel = { .fd = l->caller->cancel_fd, .events = POLLIN };
    autofree char *path = xprintf("/%s", entry->path);

    if (l->out->paths % LOOK_EVERY == 0 && cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
        return -ECANCELED;
    if (l->out->paths >= PATHS_MAX || (l->out->paths % LOOK_EVERY == 0 && clock_now_ns() > l->until_ns)) {
        l->out->is_incomplete = true;
        return FILE_WALK_STOP;
    }
    look_at(l, path);
    lint_add_path(l->lint, path);
    return strcmp(entry->name, ".git") == 0 ? FILE_WALK_SKIP : FILE_WALK_ON;
}

static int look_at_named(struct looking *l, const struct rule_preview_request *wish, struct err *err)
{
    for (size_t i = 0; i < wish->path_count; i++) {
        autodone(buf) struct buf clean = BUF_EMPTY;
        int r = path_clean(wish->paths[i], strlen(wish->paths[i]), &clean);

        if (r < 0)
            return err_reject(err, -EINVAL, wish->paths[i], "is no path");
        look_at(l, clean.data);
    }
    return 0;
}

/* ---- files that do not exist yet ---- */

/* Makes a path that a pattern may match, with `star` for "*" and `above` for "**". */
static void make_example(const char *pattern, const char *star, const char *above, struct buf *out)
{
    buf_clear(out);
    buf_add_char(out, '/');
    for (const char *at = pattern; *at; at++) {
        if (strncmp(at, "**", 2) == 0) {
            buf_add_str(out, above);
            at++;
        } else if (*at == '*') {
            buf_add_str(out, star);
        } else if (*at == '[' && strchr(at + 1, ']')) {
            buf_add_char(out, at[1] == '!' || at[1] == '^' ? 'x' : at[1]);
            at = strchr(at + 1, ']');
        } else if (*at == '?') {
            buf_add_char(out, 'x');
        } else {
            at += *at == '\\' && at[1];
            buf_add_char(out, *at);
        }
    }
}

static bool would_reveal(const struct looking *l, const char *pattern)
{
    static const char *const texts[] = { "", "x", "any.other" };
    autodone(buf) struct buf example = BUF_EMPTY, path = BUF_EMPTY;

    for (size_t i = 0; i < ARRAY_LEN(texts) * ARRAY_LEN(texts); i++) {
        make_example(pattern, texts[i % ARRAY_LEN(texts)], texts[i / ARRAY_LEN(texts)], &example);
        buf_clear(&path);
        if (path_clean(example.data, example.len, &path) == 0 && ruleset_level_of(l->was, path.data) == LEVEL_NONE &&
            ruleset_level_of(l->now, path.data) != LEVEL_NONE)
            return true;
    }
    return false;
}

static void look_at_patterns(struct looking *l)
{
    const struct rule_list *was = ruleset_rules(l->was);
    struct rule_preview *out = l->out;

    for (size_t i = 0; i < was->count && out->pattern_count < PATTERNS_MAX; i++) {
        if (was->items[i].level != LEVEL_NONE || !would_reveal(l, was->items[i].pattern))
            continue;
        vec_room(&out->patterns, &out->pattern_cap, out->pattern_count);
        out->patterns[out->pattern_count++] = xdup(was->items[i].pattern);
    }
}

/* ---- preview ---- */

/* After an incomplete walk, a rule without a match may match a path that was not visited. */
static bool is_known(const struct looking *l, const struct lint_finding *finding)
{
    return !l->out->is_incomplete || strcmp(finding->code, "matches-nothing") != 0;
}

static void take_findings(struct looking *l)
{
    const struct lint_finding *findings;
    struct rule_preview *out = l->out;
    size_t count;

    lint_finish(l->lint);
    findings = lint_findings(l->lint, &count);
    count = count < FINDINGS_MAX ? count : FINDINGS_MAX;
    out->findings = xalloc((count + 1) * sizeof(*out->findings));
    for (size_t i = 0; i < count; i++) {
        if (!is_known(l, &findings[i]))
            continue;
        out->findings[out->finding_count++] = (struct rule_preview_finding){ .severity = findings[i].severity,
                                                                             .code = findings[i].code,
                                                                             .rule = findings[i].rule,
                                                                             .other = findings[i].other,
                                                                             .text = xdup(findings[i].text) };
    }
}

static void join_changes(struct looking *l)
{
    struct rule_preview *out = l->out;

    for (size_t i = 0; i < l->other_count; i++) {
        if (out->count >= l->max_changes) {
            free(l->others[i].path);
            continue;
        }
        vec_room(&out->changes, &out->cap, out->count);
        out->changes[out->count++] = l->others[i];
    }
    free(l->others);
}

int rule_preview_run(struct rule_base *base, const struct caller *caller, const struct rule_preview_request *wish,
                     struct rule_preview *ret, struct err *err)
{
    static const struct rule_list none = RULE_LIST_EMPTY;
    const struct rule_edit as_it_is = { .rules = &none };
    struct looking l = { .was = base->compiled,
                         .out = ret,
                         .caller = caller,
                         .max_changes = wish->max_changes,
                         .until_ns = clock_now_ns() + WALK_NS };
    autoptr(ruleset) now = NULL;
    autoptr(lint) lint = NULL;
    int r = rule_edit_apply(wish->edit ? wish->edit : &as_it_is, &base->rules, &ret->rules, err);

    if (r == 0)
        r = rule_base_compile(base, &ret->rules, &now, err);
    if (r < 0)
        return r;
    l.now = now;
    l.was = base->compiled ? base->compiled : now;
    l.lint = lint = lint_new(now);
    if (wish->path_count > 0)
        r = look_at_named(&l, wish, err);
    else
        r = file_walk_sorted(base->fd, ".", on_entry, &l, err);
    join_changes(&l);
    if (r < 0)
        return r == -ECANCELED ? err_set(err, ERR_CANCELLED, r, "the call was cancelled") : r;
    if (base->compiled)
        look_at_patterns(&l);
    take_findings(&l);
    return 0;
}
