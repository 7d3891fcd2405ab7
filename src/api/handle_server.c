/* The server: its status, its drivers, and profiles and limits of commands. */
#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/profiles.h"
#include "service/sandbox_run.h"
#include "service/service.h"
#include <sandbox/v1/server.pb-c.h>

#define PAIRS_MAX PROFILE_PAIRS_MAX

_Static_assert((int) SANDBOX__V1__PROFILE_NETWORK__PROFILE_NETWORK_FULL == PROFILE_NETWORK_FULL + 1, "networks");

/* ---- status ---- */

static Sandbox__V1__SandboxCounts *make_counts(const struct sandbox_count counts[SANDBOX_STATE_COUNT])
{
    Sandbox__V1__SandboxCounts *out = message_new(&sandbox__v1__sandbox_counts__descriptor);

    out->creating = counts[SANDBOX_STATE_CREATING].count;
    out->active = counts[SANDBOX_STATE_ACTIVE].count;
    out->stopped = counts[SANDBOX_STATE_STOPPED].count;
    out->approved = counts[SANDBOX_STATE_APPROVED].count;
    out->rejected = counts[SANDBOX_STATE_REJECTED].count;
    out->error = counts[SANDBOX_STATE_ERROR].count;
    out->deleted = counts[SANDBOX_STATE_DELETED].count;
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        if (i == SANDBOX_STATE_DELETED)
            continue;
        out->total += counts[i].count;
        out->changed_bytes += counts[i].size_bytes;
    }
    return out;
}

static Google__Protobuf__Duration *make_average(uint64_t sum_ns, uint64_t count)
{
    return count > 0 ? make_duration((int64_t) (sum_ns / count)) : NULL;
}

static Sandbox__V1__ServerTotals *make_totals(const struct sandbox_totals *totals)
{
    Sandbox__V1__ServerTotals *out = message_new(&sandbox__v1__server_totals__descriptor);

    out->created = (int64_t) totals->created;
    out->stopped = (int64_t) totals->stopped;
    out->approved = (int64_t) totals->approved;
    out->rejected = (int64_t) totals->rejected;
    out->deleted = (int64_t) totals->deleted;
    out->errors = (int64_t) totals->errors;
    out->collections = (int64_t) totals->gc_runs;
    out->collected = (int64_t) totals->gc_deleted;
    out->diffs = (int64_t) totals->diffs;
    out->applied = (int64_t) totals->patches;
    out->create_time = make_average(totals->create_ns, totals->created);
    out->diff_time = make_average(totals->diff_ns, totals->diffs);
    return out;
}

static void server_add_processes(const char *id, size_t tracked, size_t running, void *cookie)
{
    Sandbox__V1__ServerStatus *out = cookie;

    (void) id;
    out->processes += (int64_t) tracked;
    out->running_processes += (int64_t) running;
}

int handle_get_server_status(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    Sandbox__V1__ServerStatus *out = message_new(&sandbox__v1__server_status__descriptor);
    struct sandbox_totals *totals = sandboxes_totals(request->service);
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    struct err ignored = ERR_NONE;

    (void) message;
    (void) err;
    out->version = xdup(AGENTFENSE_VERSION);
    out->uptime = make_duration(clock_now_ns() - totals->started_ns);
    out->driver = make_string(sandbox_driver_choose(request->service, "", NULL));
    out->ready = service_check(request->service, &ignored) == 0 &&
                 sandboxes_count(request->service, &request->caller, SANDBOX_BASE_ANY, counts, &ignored) >= 0;
    if (out->ready)
        out->sandboxes = make_counts(counts);
    sandbox_process_count(request->service, &request->caller, server_add_processes, out);
    if (request->caller.is_admin) {
        out->totals = make_totals(totals);
        out->commands = sandboxes_processes(request->service);
        out->project_root = make_string(sandboxes_project_root(request->service));
    }
    *ret = &out->base;
    return 0;
}

/* ---- drivers ---- */

static ProtobufCMessage *make_drivers(struct service *service)
{
    Sandbox__V1__ListDriversResponse *out = message_new(&sandbox__v1__list_drivers_response__descriptor);
    char reason[DRIVER_TRIAL_REASON_MAX], preferred[SANDBOX_DRIVER_MAX];
    const char *selected = sandbox_driver_choose(service, "", reason);

    sandbox_driver_preferred(service, preferred);
    out->preference = make_string(preferred);
    out->selected_reason = make_string(reason);
    out->drivers = xalloc(DRIVER_TRIAL_COUNT * sizeof(*out->drivers));
    for (const char *const *name = driver_trial_names; *name; name++) {
        Sandbox__V1__Driver *driver = out->drivers[out->n_drivers++] = message_new(&sandbox__v1__driver__descriptor);
        struct driver_trial trial;

        sandbox_driver_try(service, *name, &trial);
        driver->name = xdup(*name);
        driver->description = xdup(sandbox_driver_describe(*name));
        driver->available = trial.works;
        driver->trial = make_string(trial.reason);
        driver->checks_rules = strcmp(*name, SANDBOX_DRIVER) == 0;
        driver->selected = strcmp(*name, selected) == 0;
    }
    return &out->base;
}

int handle_list_drivers(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    (void) message;
    (void) err;
    *ret = make_drivers(request->service);
    return 0;
}

int handle_select_driver(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__SelectDriverRequest *in = message;
    int r = request_need(in->driver, "driver", err);

    if (r == 0)
        r = sandbox_driver_prefer(request->service, &request->caller, in->driver, err);
    if (r == 0)
        *ret = make_drivers(request->service);
    return r;
}

/* ---- limits of commands ---- */

static Sandbox__V1__CommandLimits *make_command_limits(const struct execution_limits *limits)
{
    Sandbox__V1__CommandLimits *out = message_new(&sandbox__v1__command_limits__descriptor);

    out->memory_mb = limits->memory_mb;
    out->cpu_seconds = limits->cpu_sec;
    out->processes = limits->processes;
    out->open_files = limits->open_files;
    out->timeout_seconds = limits->timeout_sec;
    return out;
}

static ProtobufCMessage *make_execution_config(const struct execution_config *config)
{
    Sandbox__V1__ExecutionConfig *out = message_new(&sandbox__v1__execution_config__descriptor);

    out->defaults = make_command_limits(&config->defaults);
    out->maxima = make_command_limits(&config->maxima);
    out->default_profile = make_string(config->default_profile);
    return &out->base;
}

int handle_get_execution_config(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    autodone(execution_config) struct execution_config config = { 0 };
    int r = execution_config_get(request->service, &config, err);

    (void) message;
    if (r == 0)
        *ret = make_execution_config(&config);
    return r;
}

static int take_command_limits(const Sandbox__V1__CommandLimits *in, const char *name, struct execution_limits *ret,
                               struct err *err)
{
    if (!in)
        return 0;
    if (in->memory_mb < 0 || in->cpu_seconds < 0 || in->processes < 0 || in->open_files < 0 || in->timeout_seconds < 0)
        return err_invalid(err, "%s must not be negative", name);
    *ret = (struct execution_limits){ in->memory_mb, in->cpu_seconds, in->processes, in->open_files, in->timeout_seconds };
    return 0;
}

int handle_set_execution_config(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__SetExecutionConfigRequest *in = message;
    autodone(execution_config) struct execution_config config = { 0 };
    int r = in->config ? 0 : err_invalid(err, "config is required");

    if (r == 0)
        r = take_command_limits(in->config->defaults, "config.defaults", &config.defaults, err);
    if (r == 0)
        r = take_command_limits(in->config->maxima, "config.maxima", &config.maxima, err);
    if (r < 0)
        return r;
    config.default_profile = xdup(*in->config->default_profile ? in->config->default_profile : PROFILE_DEFAULT);
    r = execution_config_put(request->service, &request->caller, &config, err);
    if (r == 0)
        *ret = make_execution_config(&config);
    return r;
}

/* ---- profiles ---- */

/* The entries of the three maps are messages of three types with the same fields. */
#define MAKE_PAIRS(out, field, Entry, entry_init, pairs)                                                                       \
    do {                                                                                                                       \
        (out)->field = xalloc(((pairs)->count + 1) * sizeof(*(out)->field));                                                   \
        for (size_t i_ = 0; i_ < (pairs)->count; i_++) {                                                                       \
            Entry *entry_ = (out)->field[(out)->n_##field++] = xnew(Entry);                                                    \
            entry_init(entry_);                                                                                                \
            entry_->key = make_string((pairs)->items[i_].key);                                                                 \
            entry_->value = make_string((pairs)->items[i_].value);                                                             \
        }                                                                                                                      \
    } while (0)

#define TAKE_PAIRS(in, field, pairs, r, err)                                                                                   \
    do {                                                                                                                       \
        if ((r) == 0 && (in)->n_##field > PAIRS_MAX)                                                                           \
            (r) = err_invalid(err, #field " has more than %d entries", PAIRS_MAX);                                             \
        for (size_t i_ = 0; (r) == 0 && i_ < (in)->n_##field; i_++)                                                            \
            pair_list_add(pairs, (in)->field[i_]->key, (in)->field[i_]->value);                                                \
    } while (0)

static Sandbox__V1__Profile *make_profile(const struct profile *profile)
{
    Sandbox__V1__Profile *out = message_new(&sandbox__v1__profile__descriptor);

    out->id = make_string(profile->id);
    out->name = make_string(profile->name);
    out->description = make_string(profile->description);
    out->builtin = profile->is_builtin;
    out->network = (Sandbox__V1__ProfileNetwork) (profile->network + 1);
    out->hostname = make_string(profile->hostname);
    MAKE_PAIRS(out, read_only, Sandbox__V1__Profile__ReadOnlyEntry, sandbox__v1__profile__read_only_entry__init,
               &profile->read_only);
    MAKE_PAIRS(out, read_write, Sandbox__V1__Profile__ReadWriteEntry, sandbox__v1__profile__read_write_entry__init,
               &profile->read_write);
    MAKE_PAIRS(out, environment, Sandbox__V1__Profile__EnvironmentEntry, sandbox__v1__profile__environment_entry__init,
               &profile->environment);
    return out;
}

int handle_list_profiles(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    autodone(profile_list) struct profile_list list = { 0 };
    int r = profiles_list(request->service, &list, err);

    (void) message;
    if (r < 0)
        return r;
    Sandbox__V1__ListProfilesResponse *out = message_new(&sandbox__v1__list_profiles_response__descriptor);
    out->profiles = xalloc((list.count + 1) * sizeof(*out->profiles));
    for (size_t i = 0; i < list.count; i++)
        out->profiles[out->n_profiles++] = make_profile(&list.items[i]);
    *ret = &out->base;
    return 0;
}

int handle_get_profile(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetProfileRequest *in = message;
    autodone(profile) struct profile profile = { 0 };
    int r = request_need(in->profile_id, "profile_id", err);

    if (r == 0)
        r = profiles_get(request->service, in->profile_id, &profile, err);
    if (r == 0)
        *ret = &make_profile(&profile)->base;
    return r;
}

int handle_put_profile(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__PutProfileRequest *in = message;
    const Sandbox__V1__Profile *from = in->profile;
    autodone(profile) struct profile profile = { 0 };
    int r = request_need(in->profile_id, "profile_id", err);

    if (r == 0 && !from)
        r = err_invalid(err, "profile is required");
    if (r == 0 && *from->id && strcmp(from->id, in->profile_id) != 0)
        r = err_invalid(err, "profile.id '%s' is not profile_id '%s'", from->id, in->profile_id);
    if (r == 0 && (from->network < 0 || from->network > SANDBOX__V1__PROFILE_NETWORK__PROFILE_NETWORK_FULL))
        r = err_invalid(err, "profile.network %d is not known", (int) from->network);
    if (r < 0)
        return r;
    profile = (struct profile){ .id = xdup(in->profile_id),
                                .name = xdup(from->name),
                                .description = xdup(from->description),
                                .hostname = xdup(from->hostname),
                                .network = from->network ? (enum profile_network)(from->network - 1) : PROFILE_NETWORK_NONE };
    TAKE_PAIRS(from, read_only, &profile.read_only, r, err);
    TAKE_PAIRS(from, read_write, &profile.read_write, r, err);
    TAKE_PAIRS(from, environment, &profile.environment, r, err);
    if (r == 0)
        r = profiles_put(request->service, &request->caller, &profile, err);
    if (r == 0)
        *ret = &make_profile(&profile)->base;
    return r;
}

int handle_delete_profile(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DeleteProfileRequest *in = message;
    int r = request_need(in->profile_id, "profile_id", err);

    if (r == 0)
        r = profiles_delete(request->service, &request->caller, in->profile_id, err);
    if (r == 0)
        *ret = make_empty();
    return r;
}
