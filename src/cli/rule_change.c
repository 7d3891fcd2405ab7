#include "cli/rule_change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/rule_options.h"
#include "policy/preset.h"

#define NAMED_MAX 6

int rule_change_read(const Sandbox__V1__Sandbox *sandbox, struct rule_list *ret, struct err *err)
{
    for (size_t i = 0; i < sandbox->n_permissions; i++) {
        const Sandbox__V1__PermissionRule *rule = sandbox->permissions[i];
        /* The numbers are equal, but those of the level begin with UNSPECIFIED. */
        int r = rule_list_add(ret, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type,
                              (enum level)((int) rule->permission - 1), rule->priority, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- checking what becomes visible ---- */

/* Names the paths that would become visible, or if none exists yet, the rules that hide such paths. */
static size_t name_revealed(const Sandbox__V1__PreviewPermissionsResponse *preview, struct buf *out)
{
    size_t named = 0;

    for (size_t i = 0; i < preview->n_changes && named < NAMED_MAX; i++) {
        const Sandbox__V1__PermissionChange *change = preview->changes[i];
        if (change->before != SANDBOX__V1__PERMISSION__PERMISSION_NONE)
            break;
        buf_add_str(out, named++ > 0 ? ", " : "");
        buf_add_excerpt(out, change->path, strlen(change->path));
    }
    if (preview->revealed > 0)
        return (size_t) preview->revealed - named;
    for (size_t i = 0; i < preview->n_revealed_patterns && named < NAMED_MAX; i++) {
        buf_add_str(out, named++ > 0 ? ", " : "");
        buf_add_excerpt(out, preview->revealed_patterns[i], strlen(preview->revealed_patterns[i]));
    }
    return preview->n_revealed_patterns - named;
}

static int check_hidden(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *now,
                        struct err *err)
{
    Sandbox__V1__PreviewPermissionsRequest request = SANDBOX__V1__PREVIEW_PERMISSIONS_REQUEST__INIT;
    autodone(rule_messages) struct rule_messages messages = { 0 };
    autodone(buf) struct buf named = BUF_EMPTY;
    automessage answer = NULL;
    int r;

    if (now->count == 0) /* without rules everything is hidden */
        return 0;
    rule_messages_make(now, 0, &messages);
    request.sandbox_id = sandbox->id;
    request.n_permissions = messages.count;
    request.permissions = messages.items;
    request.max_changes = NAMED_MAX;
    r = client_ask(call->client, "PreviewPermissions", &request.base, &answer, err);
    if (r < 0)
        return r;
    const Sandbox__V1__PreviewPermissionsResponse *preview = (const void *) answer;
    if (preview->revealed == 0 && preview->n_revealed_patterns == 0)
        return 0;
    size_t more = name_revealed(preview, &named);
    autofree char *rest = more > 0 ? xprintf(" and %zu more", more) : xdup("");
    return err_set(
        err, ERR_FAILED_PRECONDITION, -EPERM,
        "these rules would show paths that are hidden now: %s%s. Nothing was changed. Give --show-hidden if that is intended; "
        "'agentfense rules add' keeps the existing rules",
        named.data ? named.data : "", rest);
}

/* ---- changing the rules ---- */

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
    const char *preset = preset_find(now, &preset_count);
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
