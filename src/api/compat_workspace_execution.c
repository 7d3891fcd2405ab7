/* Profiles and limits of commands. */
#include <errno.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "service/known_keys.h"
#include "service/profiles.h"

/* ---- profiles ---- */

static json_t *make_profile_pairs(const struct pair_list *pairs)
{
    json_t *object = json_object();

    for (size_t i = 0; i < pairs->count; i++)
        json_object_set_new(object, pairs->items[i].key, json_string(pairs->items[i].value));
    return object;
}

static json_t *make_profile(const struct profile *profile)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:o, s:o, s:s}", "id", profile->id, "name", profile->name, "description",
                     profile->description, "builtin", profile->is_builtin, "networkAccess",
                     profile_network_name(profile->network), "readOnlyBinds", make_profile_pairs(&profile->read_only),
                     "readWriteBinds", make_profile_pairs(&profile->read_write), "environment",
                     make_profile_pairs(&profile->environment), "hostname", profile->hostname);
}

int compat_profile_list(struct ws *ws, struct err *err)
{
    autodone(profile_list) struct profile_list list = { 0 };
    int r = profiles_list(ws->service, &list, err);

    if (r < 0)
        return r;
    json_t *array = json_array();
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(array, make_profile(&list.items[i]));
    return compat_answer(ws, 200, array);
}

int compat_profile_get(struct ws *ws, struct err *err)
{
    autodone(profile) struct profile profile = { 0 };
    int r = profiles_get(ws->service, web_capture(ws->web, "profile"), &profile, err);

    if (r == -ENOENT)
        compat_hint(ws, "GET /api/v1/config/profiles lists those that there are");
    return r < 0 ? r : compat_answer(ws, 200, make_profile(&profile));
}

static int profile_read_pairs(const json_t *body, const char *key, struct pair_list *ret, struct err *err)
{
    const json_t *pairs = NULL;
    const char *name;
    json_t *value;
    int r = compat_get_pairs(body, key, PROFILE_PAIRS_MAX, &pairs, err);

    if (r < 0 || !pairs)
        return r;
    json_object_foreach((json_t *) (uintptr_t) pairs, name, value) pair_list_add(ret, name, json_string_value(value));
    return 0;
}

static int profile_read_text(const json_t *body, const char *key, char **ret, struct err *err)
{
    const char *text = "";
    int r = compat_get_text(body, key, 0, &text, err);

    *ret = xdup(text);
    return r;
}

static int profile_read(const struct ws *ws, struct profile *ret, struct err *err)
{
    const char *network = "";
    int r;

    ret->id = xdup(web_capture(ws->web, "profile"));
    r = profile_read_text(ws->body, "name", &ret->name, err);
    if (r == 0)
        r = profile_read_text(ws->body, "description", &ret->description, err);
    if (r == 0)
        r = profile_read_text(ws->body, "hostname", &ret->hostname, err);
    if (r == 0)
        r = compat_get_text(ws->body, "networkAccess", 0, &network, err);
    if (r == 0)
        r = profile_network_parse(network, &ret->network, err);
    if (r == 0)
        r = profile_read_pairs(ws->body, "readOnlyBinds", &ret->read_only, err);
    if (r == 0)
        r = profile_read_pairs(ws->body, "readWriteBinds", &ret->read_write, err);
    if (r == 0)
        r = profile_read_pairs(ws->body, "environment", &ret->environment, err);
    return r;
}

int compat_profile_put(struct ws *ws, struct err *err)
{
    autodone(profile) struct profile profile = { 0 };
    int r = profile_read(ws, &profile, err);

    if (r == 0)
        r = profiles_put(ws->service, &ws->caller, &profile, err);
    return r < 0 ? r : compat_answer(ws, 200, make_profile(&profile));
}

int compat_profile_delete(struct ws *ws, struct err *err)
{
    int r = profiles_delete(ws->service, &ws->caller, web_capture(ws->web, "profile"), err);

    return r < 0 ? r : compat_answer_empty(ws, 204);
}

/* ---- limits ---- */

static json_t *make_execution_limits(const struct execution_limits *limits)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "memoryLimitMB", (json_int_t) limits->memory_mb, "cpuTimeSec",
                     (json_int_t) limits->cpu_sec, "maxProcesses", (json_int_t) limits->processes, "maxOpenFiles",
                     (json_int_t) limits->open_files, "timeoutSec", (json_int_t) limits->timeout_sec);
}

static json_t *make_execution_config(const struct execution_config *config)
{
    return json_pack("{s:o, s:o, s:s}", "defaultResourceLimits", make_execution_limits(&config->defaults), "maxResourceLimits",
                     make_execution_limits(&config->maxima), "defaultIsolationProfile", config->default_profile);
}

int compat_execution_get(struct ws *ws, struct err *err)
{
    autodone(execution_config) struct execution_config config = { 0 };
    int r = execution_config_get(ws->service, &config, err);

    return r < 0 ? r : compat_answer(ws, 200, make_execution_config(&config));
}

static int execution_read_limits(const json_t *body, const char *key, struct execution_limits *ret, struct err *err)
{
    static const char *const keys[] = { "memoryLimitMB", "cpuTimeSec", "maxProcesses", "maxOpenFiles", "timeoutSec", NULL };
    const json_t *limits = NULL;
    int r = compat_get_object(body, key, &limits, err);

    if (r == 0 && limits)
        r = known_keys_check(limits, keys, key, err);
    return r < 0 ? r : compat_command_read_limits(limits, ret, err);
}

int compat_execution_put(struct ws *ws, struct err *err)
{
    autodone(execution_config) struct execution_config config = { 0 };
    const char *profile = PROFILE_DEFAULT;
    int r = execution_read_limits(ws->body, "defaultResourceLimits", &config.defaults, err);

    if (r == 0)
        r = execution_read_limits(ws->body, "maxResourceLimits", &config.maxima, err);
    if (r == 0)
        r = compat_get_text(ws->body, "defaultIsolationProfile", 0, &profile, err);
    config.default_profile = xdup(profile);
    if (r == 0)
        r = execution_config_put(ws->service, &ws->caller, &config, err);
    return r < 0 ? r : compat_answer(ws, 200, make_execution_config(&config));
}
