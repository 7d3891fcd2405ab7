#include "wire/sandbox_spec.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "wire/runtime_type.h"
#include "wire/sandbox_spec_int.h"

#define SPEC_FILE "spec"
#define HOOK_BOX_ID_PREFIX "hook_"

void sandbox_rules_free(struct sandbox_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(rules[i].pattern);
    free(rules);
}

void sandbox_spec_free(struct sandbox_spec *spec)
{
    if (!spec)
        return;
    for (size_t i = 0; i < spec->mount_count; i++) {
        free(spec->mounts[i].src);
        free(spec->mounts[i].dst);
    }
    for (size_t i = 0; i < spec->env_count; i++)
        free(spec->env[i]);
    for (size_t i = 0; i < spec->reserved_count; i++)
        free(spec->reserved_paths[i]);
    sandbox_rules_free(spec->rules, spec->rule_count);
    free(spec->mounts);
    free(spec->env);
    free(spec->reserved_paths);
    sandbox_spec_free_texts(spec);
    free(spec);
}

void sandbox_spec_add_rule(struct sandbox_spec *spec, const char *pattern, uint8_t type, uint8_t level, int32_t priority)
{
    spec->rules = xgrow(spec->rules, spec->rule_count + 1, sizeof(*spec->rules));
    spec->rules[spec->rule_count++] =
        (struct sandbox_rule){ .pattern = xdup(pattern), .type = type, .level = level, .priority = priority };
}

void sandbox_spec_add_mount(struct sandbox_spec *spec, const char *src, const char *dst, bool read_only)
{
    spec->mounts = xgrow(spec->mounts, spec->mount_count + 1, sizeof(*spec->mounts));
    spec->mounts[spec->mount_count++] = (struct sandbox_mount){ .src = xdup(src), .dst = xdup(dst), .read_only = read_only };
}

void sandbox_spec_add_env(struct sandbox_spec *spec, const char *assignment)
{
    spec->env = xgrow(spec->env, spec->env_count + 1, sizeof(*spec->env));
    spec->env[spec->env_count++] = xdup(assignment);
}

void sandbox_spec_add_reserved(struct sandbox_spec *spec, const char *path)
{
    spec->reserved_paths = xgrow(spec->reserved_paths, spec->reserved_count + 1, sizeof(*spec->reserved_paths));
    spec->reserved_paths[spec->reserved_count++] = xdup(path);
}

/* isalnum() depends on the locale. */
static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool sandbox_name_is_valid(const char *name)
{
    size_t len = 0;

    if (name[0] == '.' || name[0] == '-')
        return false;
    for (; name[len]; len++)
        if (len + 1 >= SANDBOX_NAME_MAX || !is_name_char(name[len]))
            return false;
    return len > 0;
}

bool sandbox_spec_id_is_valid(const char *id)
{
    return sandbox_id_is_valid(id) || id_is_valid(HOOK_BOX_ID_PREFIX, id);
}

const char *sandbox_spec_dir_name(const struct sandbox_spec *spec)
{
    return spec->id && *spec->id ? spec->id : spec->name;
}

bool sandbox_image_is_valid(const char *image)
{
    size_t len = 0;

    if (!is_name_char(image[0]) || strchr("._-", image[0]))
        return false;
    while (is_name_char(image[len]) || (image[len] && strchr("/:@", image[len])))
        len++;
    return image[len] == '\0' && len < SANDBOX_IMAGE_MAX;
}

/* Reports an invalid value: its untrusted text in quotes, or that it is empty. */
static int sandbox_spec_reject(struct err *err, const char *what, const char *text, const char *why)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    if (!text || !*text)
        return err_invalid(err, "%s is empty", what);
    buf_add_excerpt(&shown, text, strlen(text));
    return err_invalid(err, "%s '%s' %s", what, shown.data, why);
}

static int check_path(const char *what, const char *path, struct err *err)
{
    return path && path[0] == '/' ? 0 : sandbox_spec_reject(err, what, path, "is not an absolute path");
}

static bool is_set(const char *text)
{
    return text && *text;
}

/* Without an id the name is the name of the directory, so it is required. */
static int check_names(const struct sandbox_spec *spec, struct err *err)
{
    if (is_set(spec->id) && !sandbox_spec_id_is_valid(spec->id))
        return sandbox_spec_reject(err, "id", spec->id, "is not the id of a sandbox");
    if ((!is_set(spec->id) || is_set(spec->name)) && (!spec->name || !sandbox_name_is_valid(spec->name)))
        return sandbox_spec_reject(err, "name", spec->name,
                                   "is not 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter, digit or _");
    if (is_set(spec->codebase_id) && !sandbox_name_is_valid(spec->codebase_id))
        return sandbox_spec_reject(err, "codebase", spec->codebase_id, "is not the id of a codebase");
    if (is_set(spec->preset) && !sandbox_name_is_valid(spec->preset))
        return sandbox_spec_reject(err, "preset", spec->preset, "is not the name of a preset");
    return 0;
}

static int check_paths(const struct sandbox_spec *spec, struct err *err)
{
    int r = check_path("base", spec->base_path, err);

    if (r == 0 && is_set(spec->codebase_path))
        r = check_path("codebase", spec->codebase_path, err);
    if (r == 0 && is_set(spec->project_root))
        r = check_path("project", spec->project_root, err);
    for (size_t i = 0; r == 0 && i < spec->reserved_count; i++)
        r = check_path("reserved path", spec->reserved_paths[i], err);
    return r;
}

static int check_mounts(const struct sandbox_spec *spec, struct err *err)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        int r = check_path("source", spec->mounts[i].src, err);

        if (r == 0)
            r = check_path("destination", spec->mounts[i].dst, err);
        if (r < 0)
            return err_wrap(err, r, "mount %zu", i + 1);
    }
    return 0;
}

static int check_env(const struct sandbox_spec *spec, struct err *err)
{
    for (size_t i = 0; i < spec->env_count; i++)
        if (spec->env[i][0] == '=' || !strchr(spec->env[i], '='))
            return sandbox_spec_reject(err, "environment", spec->env[i], "is not NAME=value");
    return 0;
}

bool sandbox_spec_is_container(const struct sandbox_spec *spec)
{
    const struct runtime_type *type = spec->runtime ? runtime_type_find(spec->runtime) : NULL;

    return type && type->needs_image;
}

static int check_container(const struct sandbox_spec *spec, struct err *err)
{
    bool is_container = sandbox_spec_is_container(spec);

    if (spec->net == SANDBOX_NET_BRIDGE && !is_container)
        return err_invalid(err, "the network 'bridge' is for containers; this sandbox is none");
    if (is_set(spec->engine) && check_path("engine", spec->engine, err) < 0)
        return -EINVAL;
    if (is_set(spec->oci_runtime) && !sandbox_name_is_valid(spec->oci_runtime))
        return sandbox_spec_reject(err, "OCI runtime", spec->oci_runtime, "is no name");
    if ((is_container || is_set(spec->image)) && (!spec->image || !sandbox_image_is_valid(spec->image)))
        return sandbox_spec_reject(err, "image", spec->image, "is no name of an image");
    return 0;
}

int sandbox_rules_check(const struct sandbox_rule *rules, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].pattern[0] == '\0')
            return err_invalid(err, "rule %zu: its pattern is empty", i + 1);
    return 0;
}

int sandbox_spec_check(const struct sandbox_spec *spec, struct err *err)
{
    int r = check_names(spec, err);

    if (r == 0)
        r = check_paths(spec, err);
    if (r == 0)
        r = sandbox_rules_check(spec->rules, spec->rule_count, err);
    if (r == 0)
        r = check_mounts(spec, err);
    if (r == 0)
        r = check_container(spec, err);
    return r == 0 ? check_env(spec, err) : r;
}

int sandbox_spec_load(int dir_fd, struct sandbox_spec **ret, struct err *err)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    int r;

    r = file_read(dir_fd, SPEC_FILE, SANDBOX_SPEC_BYTES_MAX, &bytes);
    if (r < 0)
        return err_errno(err, r, "reading the sandbox's spec");
    r = sandbox_spec_decode(bytes.data, bytes.len, ret, err);
    return r < 0 ? err_wrap(err, r, "reading the sandbox's spec") : 0;
}

/* Checks the spec first, so that every stored spec can be loaded. */
int sandbox_spec_store(int dir_fd, const struct sandbox_spec *spec, bool lasts, struct err *err)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    int r;

    r = sandbox_spec_check(spec, err);
    if (r < 0)
        return err_wrap(err, r, "writing the sandbox's spec");
    sandbox_spec_encode(spec, &bytes);
    if (bytes.len > SANDBOX_SPEC_BYTES_MAX)
        return err_set(err, ERR_INVALID_ARGUMENT, -E2BIG, "writing the sandbox's spec: its %zu bytes are more than %u",
                       bytes.len, SANDBOX_SPEC_BYTES_MAX);
    r = (lasts ? file_replace : file_put)(dir_fd, SPEC_FILE, bytes.data, bytes.len, 0600);
    return r < 0 ? err_errno(err, r, "writing the sandbox's spec") : 0;
}
