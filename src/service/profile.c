#include "service/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"

#define TEXT_MAX 4096
#define HOSTNAME_MAX 63

static const char *const network_names[] = { "none", "localhost", "full" };

void profile_done(struct profile *profile)
{
    free(profile->id);
    free(profile->name);
    free(profile->description);
    free(profile->hostname);
    pair_list_done(&profile->read_only);
    pair_list_done(&profile->read_write);
    pair_list_done(&profile->environment);
    *profile = (struct profile){ 0 };
}

void profile_list_done(struct profile_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        profile_done(&list->items[i]);
    free(list->items);
    *list = (struct profile_list){ 0 };
}

const char *profile_network_name(enum profile_network network)
{
    return network_names[network];
}

int profile_network_parse(const char *text, enum profile_network *ret, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(network_names); i++) {
        if (strcmp(text, network_names[i]) != 0)
            continue;
        *ret = (enum profile_network) i;
        return 0;
    }
    return err_reject(err, -EINVAL, text, "is no networkAccess; there are 'none', 'localhost' and 'full'");
}

/* ---- validation ---- */

static bool id_is_sound(const char *id)
{
    size_t len = strlen(id);

    return len > 0 && len < PROFILE_ID_MAX &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len && *id != '.' && *id != '-';
}

/* Paths that the sandbox itself uses. The agent could write below a mount point there: see SECURITY.md. */
static bool is_ours(const char *path)
{
    static const char *const places[] = { "/workspace", "/proc", "/dev", "/sys", "/usr", "/bin", "/lib",
                                          "/lib64",     "/sbin", "/etc", "/tmp", "/run", NULL };

    for (size_t i = 0; places[i]; i++) {
        if (path_is_beneath(places[i], path))
            return true;
    }
    return strcmp(path, "/") == 0;
}

static int check_bind(const struct pair *bind, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (strlen(bind->key) >= TEXT_MAX || strlen(bind->value) >= TEXT_MAX)
        return err_invalid(err, "a bind's path is too long");
    if (*bind->key != '/' && strncmp(bind->key, "$HOME", 5) != 0)
        return err_reject(err, -EINVAL, bind->key, "is no absolute path of the host");
    if (path_clean(bind->value, strlen(bind->value), &clean) < 0 || *bind->value != '/')
        return err_reject(err, -EINVAL, bind->value, "is no absolute path inside the sandbox");
    if (is_ours(clean.data))
        return err_reject(err, -EINVAL, bind->value, "is a place of the sandbox's own, where nothing can be bound");
    return 0;
}

static bool variable_is_sound(const char *name)
{
    return *name && !strchr(name, '=') && strlen(name) < TEXT_MAX;
}

int profile_check(const struct profile *profile, struct err *err)
{
    const struct pair_list *binds[] = { &profile->read_only, &profile->read_write };
    int r = 0;

    if (!id_is_sound(profile->id))
        return err_reject(err, -EINVAL, profile->id, "is no id of a profile: 1 to 63 letters, digits, '.', '_' and '-'");
    if (profile->network == PROFILE_NETWORK_LOCALHOST)
        return err_invalid(err, "networkAccess 'localhost' cannot be had: a sandbox has no network or the host's");
    if (strlen(profile->hostname) > HOSTNAME_MAX ||
        strspn(profile->hostname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") !=
            strlen(profile->hostname))
        return err_reject(err, -EINVAL, profile->hostname, "is no host name");
    for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
        if (binds[i]->count > PROFILE_PAIRS_MAX)
            return err_invalid(err, "a profile has at most %d binds", PROFILE_PAIRS_MAX);
        for (size_t j = 0; r == 0 && j < binds[i]->count; j++)
            r = check_bind(&binds[i]->items[j], err);
    }
    for (size_t i = 0; r == 0 && i < profile->environment.count; i++) {
        if (!variable_is_sound(profile->environment.items[i].key))
            r = err_reject(err, -EINVAL, profile->environment.items[i].key, "is no name of a variable");
    }
    return r;
}

/* ---- application ---- */

/* Replaces "$NAME" by the server's variable of that name, or by nothing if it is not set. */
static char *expand(const char *text)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    while (*text) {
        size_t len = *text == '$' ? strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") : 0;

        if (len == 0) {
            buf_add_char(&out, *text++);
            continue;
        }
        autofree char *name = xdupn(text + 1, len);
        const char *value = getenv(name);
        if (value)
            buf_add_str(&out, value);
        text += len + 1;
    }
    return buf_dup_take(&out);
}

/* In sources, replaces only a leading $HOME: the path in any other variable would be there by accident. */
static char *expand_source(const char *text)
{
    struct passwd room, *user = NULL;
    char names[1024];
    const char *home = getenv("HOME");

    if (strncmp(text, "$HOME", 5) != 0 || (text[5] && text[5] != '/'))
        return xdup(text);
    if (!home && getpwuid_r(geteuid(), &room, names, sizeof(names), &user) == 0 && user)
        home = user->pw_dir;
    return home && *home == '/' ? xprintf("%s%s", home, text + 5) : xdup("");
}

static int add_binds(const struct profile *profile, const struct pair_list *binds, bool read_only, struct sandbox_spec *spec,
                     struct err *err)
{
    for (size_t i = 0; i < binds->count; i++) {
        autofree char *source = expand_source(binds->items[i].key);
        autodone(buf) struct buf inside = BUF_EMPTY;
        struct stat st;

        if (path_clean(binds->items[i].value, strlen(binds->items[i].value), &inside) < 0)
            return err_reject(err, -EINVAL, binds->items[i].value, "is no path inside the sandbox");
        if (*source != '/' || stat(source, &st) < 0) {
            if (profile->is_builtin)
                continue;
            return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "profile '%s' binds '%s', which is not there", profile->id,
                           binds->items[i].key);
        }
        sandbox_spec_add_mount(spec, source, inside.data, read_only);
    }
    return 0;
}

int profile_expand_env(const struct profile *profile, struct sandbox_spec *spec)
{
    for (size_t i = 0; i < profile->environment.count; i++) {
        autofree char *value = expand(profile->environment.items[i].value);
        autofree char *assignment = xprintf("%s=%s", profile->environment.items[i].key, value);

        sandbox_spec_add_env(spec, assignment);
    }
    return 0;
}

int profile_apply(const struct profile *profile, bool allows_network, struct sandbox_spec *spec, struct err *err)
{
    int r = profile_check(profile, err);

    if (r == 0 && profile->network == PROFILE_NETWORK_FULL && !allows_network)
        r = err_set(
            err, ERR_FAILED_PRECONDITION, -EPERM,
            "profile '%s' has the host's network, which this server gives no sandbox; sandbox.allow_host_network in its "
            "configuration would",
            profile->id);
    if (r == 0)
        r = add_binds(profile, &profile->read_only, true, spec, err);
    if (r == 0)
        r = add_binds(profile, &profile->read_write, false, spec, err);
    if (r < 0)
        return r;
    spec->net = profile->network == PROFILE_NETWORK_FULL ? SANDBOX_NET_HOST : SANDBOX_NET_NONE;
    if (*profile->hostname) {
        free(spec->hostname);
        spec->hostname = xdup(profile->hostname);
    }
    return profile_expand_env(profile, spec);
}

static bool has_mount(const struct sandbox_spec *spec, const struct sandbox_mount *mount)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *other = &spec->mounts[i];

        if (strcmp(other->src, mount->src) == 0 && strcmp(other->dst, mount->dst) == 0 && other->read_only == mount->read_only)
            return true;
    }
    return false;
}

bool profile_confines_like(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
    if (a->net != b->net || a->mount_count != b->mount_count ||
        strcmp(a->hostname ? a->hostname : "", b->hostname ? b->hostname : "") != 0)
        return false;
    for (size_t i = 0; i < a->mount_count; i++) {
        if (!has_mount(b, &a->mounts[i]))
            return false;
    }
    return true;
}

/* ---- limits ---- */

void execution_config_done(struct execution_config *config)
{
    free(config->default_profile);
    *config = (struct execution_config){ 0 };
}

static int64_t clamp(int64_t wanted, int64_t usual, int64_t most)
{
    int64_t value = wanted ? wanted : usual;

    return most && value > most ? most : value;
}

void execution_config_clamp(const struct execution_config *config, const struct execution_limits *wanted,
                            struct execution_limits *ret)
{
    const struct execution_limits *usual = &config->defaults, *most = &config->maxima;

    ret->memory_mb = clamp(wanted->memory_mb, usual->memory_mb, most->memory_mb);
    ret->cpu_sec = clamp(wanted->cpu_sec, usual->cpu_sec, most->cpu_sec);
    ret->processes = clamp(wanted->processes, usual->processes, most->processes);
    ret->open_files = clamp(wanted->open_files, usual->open_files, most->open_files);
    ret->timeout_sec = clamp(wanted->timeout_sec, usual->timeout_sec, most->timeout_sec);
    /* An unlimited time is longer than any maximum. */
    if (ret->timeout_sec == 0)
        ret->timeout_sec = most->timeout_sec;
}

static bool exceeds(int64_t usual, int64_t most)
{
    return most > 0 && usual > most;
}

int execution_config_check(const struct execution_config *config, struct err *err)
{
    const struct execution_limits *usual = &config->defaults, *most = &config->maxima;

    if (exceeds(usual->memory_mb, most->memory_mb) || exceeds(usual->cpu_sec, most->cpu_sec) ||
        exceeds(usual->processes, most->processes) || exceeds(usual->open_files, most->open_files) ||
        exceeds(usual->timeout_sec, most->timeout_sec))
        return err_invalid(err, "a default limit exceeds its maximum");
    return 0;
}
