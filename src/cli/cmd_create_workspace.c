/* create --scope DIR: a sandbox over a live directory. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/policy_options.h"
#include "cli/workspace.h"
#include "cli/workspace_help.h"
#include "policy/level.h"
#include "policy/rule.h"

enum {
    OPT_NO_LOCK = 1,
    OPT_OWNER_TYPE,
    OPT_DRIVER,
    OPT_IDEMPOTENCY,
    OPT_RESERVED_PATHS,
    OPT_START,
    OPT_PROFILE,
    OPT_BEHAVIOR,
    OPT_NAME,
    OPT_TAG,
    OPT_HOST_MOUNT,
};

static const struct option options[] = {
    POLICY_LONG_OPTIONS,
    { "scope", required_argument, NULL, 's' },
    { "project", required_argument, NULL, 'p' },
    { "reserve", required_argument, NULL, 'r' },
    { "reserved", required_argument, NULL, 'r' },
    { "reserved-paths", required_argument, NULL, OPT_RESERVED_PATHS },
    { "owner", required_argument, NULL, 'o' },
    { "owner-type", required_argument, NULL, OPT_OWNER_TYPE },
    { "no-lock", no_argument, NULL, OPT_NO_LOCK },
    { "driver", required_argument, NULL, OPT_DRIVER },
    { "key", required_argument, NULL, OPT_IDEMPOTENCY },
    { "profile", required_argument, NULL, OPT_PROFILE },
    { "behavior", required_argument, NULL, OPT_BEHAVIOR },
    { "start", no_argument, NULL, OPT_START },
    { "name", required_argument, NULL, OPT_NAME },
    { "tag", required_argument, NULL, OPT_TAG },
    { "host-mount", no_argument, NULL, OPT_HOST_MOUNT },
    API_LONG_OPTIONS,
};

struct create_options {
    struct policy_options policy;
    struct rule_list rules;
    const char *scope, *project, *owner, *owner_type, *driver, *key, *profile, *behavior, *name;
    json_t *reserved, *tags; /* owned: arrays */
    bool no_lock, host_mount;
};

static int add_text(json_t **list, const char *option, const char *bytes, size_t len, struct err *err)
{
    json_t *text = json_stringn(bytes, len);

    if (!text || len == 0) {
        json_decref(text);
        return err_invalid(err, "%s: it is UTF-8 and not empty", option);
    }
    if (!*list)
        *list = json_array();
    json_array_append_new(*list, text);
    return 0;
}

static int add_reserved(struct create_options *o, const char *path, size_t len, struct err *err)
{
    return add_text(&o->reserved, "--reserve", path, len, err);
}

/* One that could be the beginning of an id would sometimes mean another. */
static int set_name(struct create_options *o, const char *name, struct err *err)
{
    if (uuid_may_begin(name) || !workspace_may_be_name(name))
        return err_invalid(
            err, "--name '%s': a name is not empty, does not begin with sb_, and has a letter that is not a to f", name);
    o->name = name;
    return 0;
}

static int add_all_reserved(struct create_options *o, const char *list, struct err *err)
{
    int r = 0;

    for (const char *end; r == 0 && *list; list = *end ? end + 1 : end) {
        end = strchrnul(list, ',');
        r = add_reserved(o, list, (size_t) (end - list), err);
    }
    return r;
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct create_options *o = call->own;

    if (policy_options_take(&o->policy, option, argument))
        return 0;
    switch (option) {
    case 's':
        if (!*argument)
            return err_invalid(err, "--scope is empty; '.' is where you are");
        o->scope = argument;
        return 0;
    case 'p':
        o->project = argument;
        return 0;
    case 'r':
        return add_reserved(o, argument, strlen(argument), err);
    case OPT_RESERVED_PATHS:
        return add_all_reserved(o, argument, err);
    case 'o':
        o->owner = argument;
        return 0;
    case OPT_OWNER_TYPE:
        o->owner_type = argument;
        return 0;
    case OPT_DRIVER:
        o->driver = argument;
        return 0;
    case OPT_IDEMPOTENCY:
        o->key = argument;
        return 0;
    case OPT_PROFILE:
        o->profile = argument;
        return 0;
    case OPT_BEHAVIOR:
        o->behavior = argument;
        return 0;
    case OPT_NAME:
        return set_name(o, argument, err);
    case OPT_TAG:
        return add_text(&o->tags, "--tag", argument, strlen(argument), err);
    case OPT_NO_LOCK:
        o->no_lock = true;
        return 0;
    case OPT_HOST_MOUNT:
        o->host_mount = true;
        return 0;
    default:
        return 0; /* --start: it is, whether or not */
    }
}

static int check(struct api_call *call, struct err *err)
{
    struct create_options *o = call->own;
    struct policy_options own = o->policy;

    own.preset = NULL; /* is the server's to know */
    if (own.file_count == 0 && own.short_count == 0)
        return 0;
    return policy_options_load(&own, NULL, &o->rules, err);
}

static json_t *rules_json(const struct rule_list *rules)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->items[i];
        json_t *one = json_pack("{s:s, s:s, s:i}", "pattern", rule->pattern, "permission", level_name(rule->level), "priority",
                                (int) rule->priority);
        if (rule->type != RULE_UNSPECIFIED)
            json_object_set_new(one, "type", json_string(rule_type_name(rule->type)));
        json_array_append_new(list, one);
    }
    return list;
}

static int set_text(json_t *body, const char *key, const char *text, struct err *err)
{
    json_t *value = text ? json_string(text) : NULL;

    if (text && !value)
        return err_invalid(err, "%s is not UTF-8", key);
    if (value)
        json_object_set_new(body, key, value);
    return 0;
}

/* What is in it is the server's to judge. */
static int set_behavior(json_t *body, const char *path, struct err *err)
{
    json_error_t where;
    json_t *value = path ? json_load_file(path, JSON_REJECT_DUPLICATES, &where) : NULL;

    if (path && !value)
        return err_invalid(err, "--behavior '%s': %s (line %d)", path, where.text, where.line);
    if (value)
        json_object_set_new(body, "behavior", value);
    return 0;
}

static int set_metadata(json_t *body, const char *name, struct err *err)
{
    json_t *metadata = json_object();
    int r = set_text(metadata, WORKSPACE_NAME_KEY, name, err);

    if (r == 0 && json_object_size(metadata) > 0)
        json_object_set(body, "metadata", metadata);
    json_decref(metadata);
    return r;
}

/* Without a project of its own the scope is one. A scope counts from here, as paths do on a command line, unless the project has it. */
static int fill(struct create_options *o, json_t *body, struct err *err)
{
    autofree char *scope = o->scope ? workspace_absolute(o->scope) : NULL;
    autofree char *project = o->project ? workspace_absolute(o->project) : NULL;
    int r = set_text(body, "projectRoot", project ? project : scope, err);

    if (r == 0)
        r = set_text(body, "scopePath", scope, err);
    if (r == 0)
        r = set_text(body, "owner", o->owner, err);
    if (r == 0)
        r = set_text(body, "ownerType", o->owner_type, err);
    if (r == 0)
        r = set_text(body, "driver", o->driver, err);
    if (r == 0)
        r = set_text(body, "preset", o->policy.preset, err);
    if (r == 0)
        r = set_text(body, "profile", o->profile, err);
    if (r == 0)
        r = set_behavior(body, o->behavior, err);
    if (r == 0)
        r = set_text(body, "idempotencyKey", o->key, err);
    if (r == 0)
        r = set_metadata(body, o->name, err);
    if (r < 0)
        return r;
    if (o->reserved)
        json_object_set(body, "reservedPaths", o->reserved);
    if (o->tags)
        json_object_set(body, "tags", o->tags);
    if (o->no_lock)
        json_object_set_new(body, "noLock", json_true());
    if (o->host_mount)
        json_object_set_new(body, "hostMount", json_true());
    if (o->rules.count > 0)
        json_object_set_new(body, "rules", rules_json(&o->rules));
    return 0;
}

static int run(struct api_call *call, struct err *err)
{
    autojson made = NULL;
    json_t *body = json_object();
    int r = fill(call->own, body, err);

    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = workspace_ask(call, "POST", body, &made, err, "/api/v1/sandboxes");
    if (r == 0)
        workspace_print(call, made, json_text(made, "id"));
    return r;
}

static void done(struct api_call *call)
{
    struct create_options *o = call->own;

    policy_options_done(&o->policy);
    rule_list_done(&o->rules);
    json_decref(o->reserved);
    json_decref(o->tags);
}

int cmd_create_workspace(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "create",
        .help = CREATE_WORKSPACE_HELP API_OPTIONS_HELP,
        .letters = "s:p:r:o:",
        .options = options,
        .own_size = sizeof(struct create_options),
        .take = take,
        .check = check,
        .run = run,
        .done = done,
    };

    return api_verb_run(&verb, argc, argv);
}
