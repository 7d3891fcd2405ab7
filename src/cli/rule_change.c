#include "cli/rule_change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/rule_options.h"
#include "policy/preset.h"
#include "policy/ruleset.h"
#include <sandbox/v1/codebase.pb-c.h>

#define NAMED_MAX 6

int rule_change_read(const Sandbox__V1__Sandbox *sandbox, struct rule_list *ret, struct err *err)
{
    for (size_t i = 0; i < sandbox->n_permissions; i++) {
        const Sandbox__V1__PermissionRule *rule = sandbox->permissions[i];
        /* Numbered alike, but for the level's unspecified. */
        int r = rule_list_add(ret, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type,
                              (enum level)((int) rule->permission - 1), rule->priority, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- what would be shown ---- */

struct comparison {
    struct ruleset *was, *now; /* owned */
    struct buf named;          /* some of what would be shown */
    size_t count;
    char **paths; /* owned, like its elements: of the codebase */
    size_t path_count, path_cap;
    bool workspace_is_real;
};

static void comparison_done(struct comparison *c)
{
    ruleset_unref(c->was);
    ruleset_unref(c->now);
    buf_done(&c->named);
    for (size_t i = 0; i < c->path_count; i++)
        free(c->paths[i]);
    free(c->paths);
}

static bool would_show(const struct comparison *c, const char *path)
{
    return ruleset_level_of(c->was, path) == LEVEL_NONE && ruleset_level_of(c->now, path) != LEVEL_NONE;
}

static void name_shown(struct comparison *c, const char *text)
{
    if (c->count++ >= NAMED_MAX)
        return;
    buf_add_str(&c->named, c->count > 1 ? ", " : "");
    buf_add_excerpt(&c->named, text, strlen(text));
}

static int on_path(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__FileInfo *file = (const void *) item;
    struct comparison *c = cookie;

    (void) err;
    vec_room(&c->paths, &c->path_cap, c->path_count);
    c->paths[c->path_count++] = xprintf("/%s", file->path + (*file->path == '/'));
    c->workspace_is_real |= file->is_dir && strcmp(c->paths[c->path_count - 1], "/workspace") == 0;
    return 0;
}

static int list_paths(struct api_call *call, const char *codebase_id, struct comparison *c, struct err *err)
{
    Sandbox__V1__ListFilesRequest request = SANDBOX__V1__LIST_FILES_REQUEST__INIT;

    request.codebase_id = (char *) codebase_id;
    request.recursive = true;
    request.page_size = 1000;
    return client_list(call->client, "ListFiles", &request.base, on_path, c, err);
}

/* A path that a pattern may mean: `star` for what a star matches, with `above` for the components that two of them do. */
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

static bool would_show_pattern(const struct comparison *c, const char *pattern)
{
    static const char *const texts[] = { "", "x", "any.other" };
    autodone(buf) struct buf example = BUF_EMPTY, path = BUF_EMPTY;

    for (size_t i = 0; i < ARRAY_LEN(texts) * ARRAY_LEN(texts); i++) {
        make_example(pattern, texts[i % ARRAY_LEN(texts)], texts[i / ARRAY_LEN(texts)], &example);
        if (path_clean(example.data, example.len, &path) == 0 && would_show(c, path.data))
            return true;
    }
    return false;
}

static int compare(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *was,
                   const struct rule_list *now, struct comparison *c, struct err *err)
{
    struct ruleset_options options = { 0 };
    int r = list_paths(call, sandbox->codebase_id, c, err);

    options.workspace_is_real = c->workspace_is_real;
    if (r == 0)
        r = ruleset_new(was, &options, &c->was, err);
    if (r == 0)
        r = ruleset_new(now, &options, &c->now, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < c->path_count; i++) {
        if (would_show(c, c->paths[i]))
            name_shown(c, c->paths[i]);
    }
    /* Files that are not there yet. Named by the rule that hides them, and only if nothing that is there says enough. */
    for (size_t i = 0; c->count == 0 && i < was->count; i++) {
        if (was->items[i].level == LEVEL_NONE && would_show_pattern(c, was->items[i].pattern))
            name_shown(c, was->items[i].pattern);
    }
    return 0;
}

static int check_hidden(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *now,
                        struct err *err)
{
    autodone(rule_list) struct rule_list was = RULE_LIST_EMPTY;
    autodone(comparison) struct comparison c = { 0 };
    int r = rule_change_read(sandbox, &was, err);

    if (r == 0)
        r = compare(call, sandbox, &was, now, &c, err);
    if (r < 0 || c.count == 0)
        return r;
    autofree char *more = c.count > NAMED_MAX ? xprintf(" and %zu more", c.count - NAMED_MAX) : xdup("");
    return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                   "these rules would show what is hidden now: %s%s. Nothing was changed. Say --show-hidden if you mean it; "
                   "'agentfense rules add' keeps the rules that there are",
                   c.named.data, more);
}

/* ---- changing them ---- */

/* The preset whose rules these begin with; the server knows them as its own then, and does not warn of them. */
static const char *find_preset(const struct rule_list *rules, size_t *ret_count)
{
    size_t count;
    const struct preset *presets = preset_list(&count);
    const char *found = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        autodone(rule_list) struct rule_list own = RULE_LIST_EMPTY;
        size_t same = 0;
        if (preset_add(presets[i].name, &own, NULL) < 0)
            continue;
        while (same < own.count && same < rules->count && strcmp(own.items[same].pattern, rules->items[same].pattern) == 0 &&
               own.items[same].level == rules->items[same].level && own.items[same].priority == rules->items[same].priority)
            same++;
        if (same == own.count && own.count > *ret_count) {
            found = presets[i].name;
            *ret_count = own.count;
        }
    }
    return found;
}

int rule_change_make(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *now, bool shows_hidden,
                     struct err *err)
{
    Sandbox__V1__UpdatePermissionsRequest request = SANDBOX__V1__UPDATE_PERMISSIONS_REQUEST__INIT;
    autodone(rule_messages) struct rule_messages messages = { 0 };
    automessage answer = NULL;
    size_t preset_count;
    int r = shows_hidden ? 0 : check_hidden(call, sandbox, now, err);

    if (r < 0)
        return r;
    const char *preset = find_preset(now, &preset_count);
    rule_messages_make(now, preset_count, &messages);
    request.sandbox_id = sandbox->id;
    if (preset)
        request.preset = (char *) preset;
    request.n_permissions = messages.count;
    request.permissions = messages.items;
    r = client_ask(call->client, "UpdatePermissions", &request.base, &answer, err);
    if (r < 0)
        return r;
    const Sandbox__V1__Sandbox *changed = (void *) answer;
    for (size_t i = 0; i < changed->n_warnings && !call->options.is_quiet; i++)
        fprintf(stderr, "agentfense %s: %s\n", call->verb->name, changed->warnings[i]);
    api_print(call, answer, changed->id);
    return 0;
}
