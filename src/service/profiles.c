#include "service/profiles.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "service/service_int.h"

#define PROFILES_FILE "profiles.json"
#define EXECUTION_FILE "execution.json"
#define FILE_BYTES_MAX ((size_t) 8 << 20)

/* Held from reading a file to replacing it. Only this process writes the files: see service.c's lock. */
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct execution_limits maxima = { .cpu_sec = 3600, .processes = 1000, .open_files = 65536, .timeout_sec = 7200 };

/* ---- built-in profiles ---- */

static void set_builtin(struct profile *profile, const char *id, const char *name, const char *description)
{
    *profile = (struct profile){
        .id = xdup(id), .name = xdup(name), .description = xdup(description), .hostname = xdup(""), .is_builtin = true
    };
    pair_list_add(&profile->environment, "HOME", "/home/agent");
    pair_list_add(&profile->environment, "SHELL", "/bin/sh");
}

#define PATH_INSIDE "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/agentfense/bin"
#define TOOLS_INSIDE "/opt/host/bin"

static void add_builtins(struct profile_list *list)
{
    list->items = xalloc(2 * sizeof(*list->items));
    list->count = list->cap = 2;
    set_builtin(&list->items[0], "full", "Full isolation",
                "The project, the system's programs, no network, nothing else of the host.");
    pair_list_add(&list->items[0].environment, "PATH", PATH_INSIDE);
    set_builtin(&list->items[1], PROFILE_AWARE, "Aware of the user's tools",
                "As full, and the programs in the server's user's ~/.local/bin, to be run and not to be changed.");
    pair_list_add(&list->items[1].environment, "PATH", PATH_INSIDE ":" TOOLS_INSIDE);
    pair_list_add(&list->items[1].read_only, "$HOME/.local/bin", TOOLS_INSIDE);
}

/* ---- the files ---- */

static json_t *pairs_to_json(const struct pair_list *pairs)
{
    json_t *object = json_object();

    for (size_t i = 0; i < pairs->count; i++)
        json_object_set_new(object, pairs->items[i].key, json_string(pairs->items[i].value));
    return object;
}

static int pairs_of_json(const json_t *object, struct pair_list *ret)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *) (uintptr_t) object, key, value)
    {
        if (!json_is_string(value))
            return -EBADMSG;
        pair_list_add(ret, key, json_string_value(value));
    }
    return 0;
}

static json_t *profile_to_json(const struct profile *profile)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "id", profile->id, "name", profile->name, "description",
                     profile->description, "networkAccess", profile_network_name(profile->network), "readOnlyBinds",
                     pairs_to_json(&profile->read_only), "readWriteBinds", pairs_to_json(&profile->read_write), "environment",
                     pairs_to_json(&profile->environment), "hostname", profile->hostname);
}

static int profile_of_json(json_t *object, struct profile *ret, struct err *err)
{
    const char *id, *name, *description, *network, *hostname;
    json_t *read_only, *read_write, *environment;
    struct profile profile = { 0 };
    int r;

    if (json_unpack(object, "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "id", &id, "name", &name, "description", &description,
                    "networkAccess", &network, "readOnlyBinds", &read_only, "readWriteBinds", &read_write, "environment",
                    &environment, "hostname", &hostname) < 0)
        return err_set(err, ERR_DATA_LOSS, -EBADMSG, "a profile is malformed");
    r = profile_network_parse(network, &profile.network, err);
    if (r < 0)
        return r;
    profile.id = xdup(id);
    profile.name = xdup(name);
    profile.description = xdup(description);
    profile.hostname = xdup(hostname);
    if (pairs_of_json(read_only, &profile.read_only) < 0 || pairs_of_json(read_write, &profile.read_write) < 0 ||
        pairs_of_json(environment, &profile.environment) < 0) {
        profile_done(&profile);
        return err_set(err, ERR_DATA_LOSS, -EBADMSG, "a profile is malformed");
    }
    *ret = profile;
    return 0;
}

/* `ret` is NULL if the file does not exist. */
static int read_json(const struct service *service, const char *file, json_t **ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    json_error_t wrong;
    int r = file_read(service->state_dir.fd, file, FILE_BYTES_MAX, &text);

    *ret = NULL;
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_errno(err, r, "reading '%s/%s'", service->state_dir.path, file);
    *ret = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &wrong);
    if (!*ret)
        return err_set(err, ERR_DATA_LOSS, -EBADMSG, "'%s/%s' is malformed at line %d: %s", service->state_dir.path, file,
                       wrong.line, wrong.text);
    return 0;
}

/* Takes ownership of the value. */
static int write_json(const struct service *service, const char *file, json_t *value, struct err *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    int r = text ? file_replace(service->state_dir.fd, file, text, strlen(text), 0600) : -ENOMEM;

    free(text);
    json_decref(value);
    return r < 0 ? err_errno(err, r, "writing '%s/%s'", service->state_dir.path, file) : 0;
}

/* The caller holds the lock. */
static int load_profiles(const struct service *service, struct profile_list *ret, struct err *err)
{
    struct profile_list list = { 0 };
    json_t *array, *item;
    size_t i;
    int r = read_json(service, PROFILES_FILE, &array, err);

    if (r < 0)
        return r;
    add_builtins(&list);
    json_array_foreach(array, i, item)
    {
        vec_room(&list.items, &list.cap, list.count);
        r = profile_of_json(item, &list.items[list.count], err);
        if (r < 0)
            break;
        list.count++;
    }
    json_decref(array);
    if (r < 0) {
        profile_list_done(&list);
        return err_wrap(err, r, "'%s/%s'", service->state_dir.path, PROFILES_FILE);
    }
    *ret = list;
    return 0;
}

static int store_profiles(const struct service *service, const struct profile_list *list, struct err *err)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->count; i++) {
        if (!list->items[i].is_builtin)
            json_array_append_new(array, profile_to_json(&list->items[i]));
    }
    return write_json(service, PROFILES_FILE, array, err);
}

/* ---- requests ---- */

static int check_admin(const struct caller *caller, struct err *err)
{
    return caller->is_admin
               ? 0
               : err_set(err, ERR_PERMISSION_DENIED, -EPERM, "only an administrator may change how sandboxes are confined");
}

int profiles_list(struct service *service, struct profile_list *ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&files_lock);
    r = load_profiles(service, ret, err);
    pthread_mutex_unlock(&files_lock);
    return r;
}

static struct profile *find(const struct profile_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].id, id) == 0)
            return &list->items[i];
    }
    return NULL;
}

static int refuse_unknown(const struct profile_list *list, const char *id, struct err *err)
{
    autodone(buf) struct buf what = BUF_EMPTY;

    if (!err)
        return -ENOENT;
    buf_add_str(&what, "is no profile; there are ");
    for (size_t i = 0; i < list->count; i++)
        buf_addf(&what, "%s%s", i > 0 ? ", " : "", list->items[i].id);
    err_reject(err, -ENOENT, id, what.data);
    err->code = ERR_NOT_FOUND;
    return err_set_reason(err, -ENOENT, "PROFILE_UNKNOWN");
}

int profiles_get(struct service *service, const char *id, struct profile *ret, struct err *err)
{
    autodone(profile_list) struct profile_list list = { 0 };
    autodone(execution_config) struct execution_config config = { 0 };
    struct profile *found;
    int r = *id ? 0 : execution_config_get(service, &config, err);

    if (r == 0)
        r = profiles_list(service, &list, err);
    if (r < 0)
        return r;
    id = *id ? id : config.default_profile;
    found = find(&list, id);
    if (!found && strcmp(id, PROFILE_AWARE_ALIAS) == 0)
        found = find(&list, PROFILE_AWARE);
    if (!found)
        return refuse_unknown(&list, id, err);
    *ret = *found;
    *found = (struct profile){ 0 };
    return 0;
}

static void copy_pairs(struct pair_list *to, const struct pair_list *from)
{
    for (size_t i = 0; i < from->count; i++)
        pair_list_add(to, from->items[i].key, from->items[i].value);
}

static void set_profile(struct profile_list *list, const struct profile *from)
{
    struct profile *to = find(list, from->id);

    if (!to) {
        vec_room(&list->items, &list->cap, list->count);
        to = &list->items[list->count++];
        *to = (struct profile){ 0 };
    }
    profile_done(to);
    *to = (struct profile){ .id = xdup(from->id),
                            .name = xdup(from->name),
                            .description = xdup(from->description),
                            .hostname = xdup(from->hostname),
                            .network = from->network };
    copy_pairs(&to->read_only, &from->read_only);
    copy_pairs(&to->read_write, &from->read_write);
    copy_pairs(&to->environment, &from->environment);
}

static int check_builtin(const struct profile_list *list, const char *id, struct err *err)
{
    const struct profile *found = find(list, id);

    return found && found->is_builtin ? err_reject(err, -EINVAL, id, "is built in and stays as it is") : 0;
}

int profiles_put(struct service *service, const struct caller *caller, const struct profile *profile, struct err *err)
{
    autodone(profile_list) struct profile_list list = { 0 };
    int r = check_admin(caller, err);

    if (r == 0)
        r = profile_check(profile, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&files_lock);
    r = load_profiles(service, &list, err);
    if (r == 0)
        r = check_builtin(&list, profile->id, err);
    if (r == 0 && list.count >= PROFILES_MAX && !find(&list, profile->id))
        r = err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOSPC, "there are %d profiles already", PROFILES_MAX);
    if (r == 0) {
        set_profile(&list, profile);
        r = store_profiles(service, &list, err);
    }
    pthread_mutex_unlock(&files_lock);
    return r;
}

int profiles_delete(struct service *service, const struct caller *caller, const char *id, struct err *err)
{
    autodone(profile_list) struct profile_list list = { 0 };
    autodone(execution_config) struct execution_config config = { 0 };
    int r = check_admin(caller, err);

    if (r < 0)
        return r;
    r = execution_config_get(service, &config, err);
    if (r < 0)
        return r;
    if (strcmp(config.default_profile, id) == 0 && strcmp(id, PROFILE_DEFAULT) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "profile '%s' is the default", id);
    pthread_mutex_lock(&files_lock);
    r = load_profiles(service, &list, err);
    if (r == 0)
        r = check_builtin(&list, id, err);
    struct profile *found = r == 0 ? find(&list, id) : NULL;
    if (r == 0 && !found)
        r = err_reject(err, -EINVAL, id, "is no profile");
    if (r == 0) {
        profile_done(found);
        memmove(found, found + 1, (size_t) (list.items + list.count - found - 1) * sizeof(*found));
        list.count--;
        r = store_profiles(service, &list, err);
    }
    pthread_mutex_unlock(&files_lock);
    return r;
}

static json_t *limits_to_json(const struct execution_limits *limits)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "memoryLimitMB", (json_int_t) limits->memory_mb, "cpuTimeSec",
                     (json_int_t) limits->cpu_sec, "maxProcesses", (json_int_t) limits->processes, "maxOpenFiles",
                     (json_int_t) limits->open_files, "timeoutSec", (json_int_t) limits->timeout_sec);
}

static int limits_of_json(json_t *object, struct execution_limits *ret)
{
    json_int_t memory, cpu, processes, files, timeout;

    if (json_unpack(object, "{s:I, s:I, s:I, s:I, s:I}", "memoryLimitMB", &memory, "cpuTimeSec", &cpu, "maxProcesses",
                    &processes, "maxOpenFiles", &files, "timeoutSec", &timeout) < 0)
        return -EBADMSG;
    *ret = (struct execution_limits){ memory, cpu, processes, files, timeout };
    return 0;
}

int execution_config_get(struct service *service, struct execution_config *ret, struct err *err)
{
    struct execution_config config = { .maxima = maxima };
    json_t *file = NULL, *defaults, *most;
    const char *profile = PROFILE_DEFAULT;
    int r;

    pthread_mutex_lock(&files_lock);
    r = read_json(service, EXECUTION_FILE, &file, err);
    pthread_mutex_unlock(&files_lock);
    if (r == 0 && file &&
        (json_unpack(file, "{s:o, s:o, s:s}", "defaultResourceLimits", &defaults, "maxResourceLimits", &most,
                     "defaultIsolationProfile", &profile) < 0 ||
         limits_of_json(defaults, &config.defaults) < 0 || limits_of_json(most, &config.maxima) < 0))
        r = err_set(err, ERR_DATA_LOSS, -EBADMSG, "'%s/%s' is malformed", service->state_dir.path, EXECUTION_FILE);
    if (r == 0) {
        config.default_profile = xdup(profile);
        *ret = config;
    }
    json_decref(file);
    return r;
}

int execution_config_put(struct service *service, const struct caller *caller, const struct execution_config *config,
                         struct err *err)
{
    autodone(profile) struct profile profile = { 0 };
    int r = check_admin(caller, err);

    if (r == 0)
        r = execution_config_check(config, err);
    if (r == 0)
        r = profiles_get(service, config->default_profile, &profile, err);
    if (r == -ENOENT)
        return err_reject(err, -EINVAL, config->default_profile, "is no profile");
    if (r < 0)
        return r;
    pthread_mutex_lock(&files_lock);
    r = write_json(service, EXECUTION_FILE,
                   json_pack("{s:o, s:o, s:s}", "defaultResourceLimits", limits_to_json(&config->defaults), "maxResourceLimits",
                             limits_to_json(&config->maxima), "defaultIsolationProfile", config->default_profile),
                   err);
    pthread_mutex_unlock(&files_lock);
    return r;
}
