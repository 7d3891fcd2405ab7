#include "server/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "call/lifeline.h"
#include "sandbox/engine_path.h"
#include "sandbox/state_dir.h"
#include "server/config_file.h"
#include "server/setting.h"
#include "wire/sandbox_spec.h"

/* A file being parsed. */
struct source {
    struct config *config;
    const char *path;
    bool *seen; /* borrowed: indexed like the table */
};

void config_done(struct config *config)
{
    for (size_t i = 0; i < setting_count; i++)
        setting_done(&settings[i], config);
    *config = (struct config){ 0 };
}

/* ---- defaults ---- */

static int config_set_state_paths(struct config *config, struct err *err)
{
    autofree char *home = state_dir_find_path(err);

    if (!home)
        return -EINVAL;
    config->codebase_path = xprintf("%s/codebases", home);
    config->mount_path = xdup(home);
    config->db_path = xprintf("%s/metadata.db", home);
    config->unix_socket = xprintf("%s/grpc.sock", home);
    return 0;
}

static int config_set_defaults(struct config *config, struct err *err)
{
    for (size_t i = 0; i < setting_count; i++) {
        int r = settings[i].value ? setting_set(&settings[i], config, settings[i].value, err) : 0;

        if (r < 0)
            return err_wrap(err, r, "default of %s", settings[i].key);
    }
    return config_set_state_paths(config, err);
}

/* ---- the file ---- */

static int config_take_value(const char *key, const char *value, bool is_item, size_t line, void *cookie, struct err *err)
{
    struct source *source = cookie;
    const struct setting *setting = setting_find(key);
    size_t index = setting ? (size_t) (setting - settings) : 0;
    int r;

    if (!setting) {
        if (value || !is_item)
            log_warn("a setting that this version does not know", LOG_STR("file", source->path), LOG_UINT("line", line),
                     LOG_STR("key", key));
        return 0;
    }
    if ((!is_item || !value) && source->seen[index])
        return err_invalid(err, "%s stands here a second time", key);
    source->seen[index] = true;
    if (is_item && setting->kind != SETTING_LIST)
        return err_invalid(err, "%s: a single value is expected, not a list", key);
    if (is_item && value) {
        setting_add(setting, source->config, value);
        return 0;
    }
    r = setting_set(setting, source->config, value ? value : "", err);
    return r < 0 ? err_wrap(err, r, "%s", key) : 0;
}

static int config_read_file(struct config *config, const char *path, struct err *err)
{
    autofree bool *seen = xalloc(setting_count * sizeof(*seen));
    struct source source = { .config = config, .path = path, .seen = seen };
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "configuration '%s'", path);
    r = fd_read_all(fd, CONFIG_FILE_BYTES_MAX, &text);
    if (r < 0)
        return err_errno(err, r, "configuration '%s'", path);
    if (text.len == 0)
        return 0;
    r = config_file_parse(text.data, text.len, config_take_value, &source, err);
    return r < 0 ? err_wrap(err, r, "configuration '%s'", path) : 0;
}

/* ---- environment and command line ---- */

/* Variables of another server of the workspace API, as aliases of settings. Our own variables win. */
static const struct {
    const char *variable, *key;
    const char *before, *behind; /* text around the value */
} aliases[] = {
    { "API_PORT", "server.http_addr", "localhost:", "" },
    { "WORKSPACE_SANDBOX_CORS_ORIGINS", "server.allowed_origins", "", "" },
    { "WORKSPACE_SANDBOX_SHUTDOWN_TIMEOUT", "server.drain_timeout", "", "" },
    { "WORKSPACE_SANDBOX_MAX_SANDBOXES", "workspace.max", "", "" },
    { "WORKSPACE_SANDBOX_MAX_SIZE_MB", "workspace.max_size", "", "M" },
    { "WORKSPACE_SANDBOX_MAX_TOTAL_SIZE_MB", "workspace.max_total_size", "", "M" },
    { "WORKSPACE_SANDBOX_DEFAULT_TTL", "workspace.ttl", "", "" },
    { "WORKSPACE_SANDBOX_IDLE_TTL", "workspace.idle_ttl", "", "" },
    { "WORKSPACE_SANDBOX_TERMINAL_CLEANUP_DELAY", "workspace.terminal_delay", "", "" },
    { "WORKSPACE_SANDBOX_GC_INTERVAL", "sandbox.cleanup_interval", "", "" },
    { "WORKSPACE_SANDBOX_AUTO_CLEANUP_TERMINAL", "workspace.auto_cleanup_terminal", "", "" },
    { "WORKSPACE_SANDBOX_REQUIRE_HUMAN_APPROVAL", "workspace.require_human_approval", "", "" },
    { "WORKSPACE_SANDBOX_AUTO_APPROVE_FILES", "workspace.auto_approve_files", "", "" },
    { "WORKSPACE_SANDBOX_AUTO_APPROVE_LINES", "workspace.auto_approve_lines", "", "" },
    { "WORKSPACE_SANDBOX_COMMIT_TEMPLATE", "workspace.commit_template", "", "" },
    { "WORKSPACE_SANDBOX_COMMIT_AUTHOR_MODE", "workspace.commit_author", "", "" },
    { "PROJECT_ROOT", "workspace.project_root", "", "" },
};

static int config_read_aliases(struct config *config, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        const char *value = getenv(aliases[i].variable);

        if (!value || !*value)
            continue;
        autofree char *whole = xprintf("%s%s%s", aliases[i].before, value, aliases[i].behind);
        int r = setting_set(setting_find(aliases[i].key), config, whole, err);
        if (r < 0)
            return err_wrap(err, r, "$%s", aliases[i].variable);
    }
    return 0;
}

static int config_read_environment(struct config *config, struct err *err)
{
    int wrong = config_read_aliases(config, err);

    if (wrong < 0)
        return wrong;
    for (size_t i = 0; i < setting_count; i++) {
        autodone(buf) struct buf name = BUF_EMPTY;
        const char *value;
        int r;

        setting_variable(&settings[i], &name);
        value = getenv(name.data);
        r = value ? setting_set(&settings[i], config, value, err) : 0;
        if (r < 0)
            return err_wrap(err, r, "$%s", name.data);
    }
    return 0;
}

/* Parses "--name value" or "--name=value", also with one dash. Returns how many arguments it used. */
static int config_read_option(struct config *config, const char *const *argv, char **ret_file, struct err *err)
{
    const char *word = argv[0];
    const char *name = word + 1 + (word[1] == '-');
    const char *equals = strchr(name, '=');
    autofree char *key = xdupn(name, equals ? (size_t) (equals - name) : strlen(name));
    const char *value = equals ? equals + 1 : argv[1];
    const struct setting *setting = setting_find_option(key);
    int r = 0;

    if (word[0] != '-' || !*name)
        return err_invalid(err, "'%s' is no option", word);
    if (strcmp(key, "help") == 0 || strcmp(key, "h") == 0)
        config->wants_help = true;
    else if (strcmp(key, "version") == 0)
        config->wants_version = true;
    else if (strcmp(key, "check-config") == 0)
        config->wants_check = true;
    else if (!setting && strcmp(key, "config") != 0)
        return err_invalid(err, "unknown option '%s'; --help lists those there are", word);
    else if (!value)
        return err_invalid(err, "option '%s' needs a value", word);
    else if (!setting)
        *ret_file = xdup(value);
    else if ((r = setting_set(setting, config, value, err)) < 0)
        return err_wrap(err, r, "option '--%s'", key);
    else
        return equals ? 1 : 2;
    return setting || strcmp(key, "config") != 0 || equals ? 1 : 2;
}

/* Called twice: first to find the file, then to override it. */
static int config_read_options(struct config *config, int argc, const char *const *argv, char **ret_file, struct err *err)
{
    for (int i = 1; i < argc;) {
        autofree char *file = NULL;
        int r = config_read_option(config, argv + i, &file, err);

        if (r < 0)
            return r;
        if (file) {
            free(*ret_file);
            *ret_file = steal_ptr(&file);
        }
        i += r;
    }
    return 0;
}

/* ---- checks of all settings together ---- */

static int make_path_absolute(char **path, struct err *err)
{
    autofree char *cwd = NULL;
    char *absolute;

    if (**path == '/' || **path == '\0')
        return 0;
    cwd = getcwd(NULL, 0);
    if (!cwd)
        return err_errno(err, -errno, "finding the current directory");
    absolute = xprintf("%s/%s", cwd, *path);
    free(*path);
    *path = absolute;
    return 0;
}

static int config_check_uids(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->allowed_uids.count; i++) {
        const char *text = config->allowed_uids.items[i];
        char *end;
        unsigned long uid = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || uid >= UINT32_MAX)
            return err_reject(err, -EINVAL, text, "in server.allowed_uids is no user's number");
    }
    return 0;
}

static bool is_database_url(const char *path)
{
    return strncmp(path, "postgres://", 11) == 0 || strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "sqlite:", 7) == 0;
}

/* The configuration must not give to all sandboxes what a single one may not request. */
static int config_check_docker(struct config *config, struct err *err)
{
    autofree char *path = NULL;
    int r = engine_path_parse(config->docker_host, &path, err);

    if (r < 0)
        return err_wrap(err, r, "runtime.docker.host");
    free(config->docker_host);
    config->docker_host = steal_ptr(&path);
    if (!sandbox_image_is_valid(config->docker_image))
        return err_reject(err, -EINVAL, config->docker_image, "in runtime.docker.default_image is no name of an image");
    if (*config->docker_oci_runtime && !sandbox_name_is_valid(config->docker_oci_runtime))
        return err_reject(err, -EINVAL, config->docker_oci_runtime, "in runtime.docker.oci_runtime is no name");
    if (strcmp(config->docker_network_mode, "none") != 0 && !config->docker_enable_networking)
        return err_invalid(err, "runtime.docker.network_mode is '%s', but runtime.docker.enable_networking is false",
                           config->docker_network_mode);
    if (strcmp(config->docker_network_mode, "host") == 0 && !config->allow_host_network)
        return err_invalid(err, "runtime.docker.network_mode is 'host', but sandbox.allow_host_network is false");
    return 0;
}

/* Codebases may be next to the directory `sandboxes`, but not inside it or its siblings. */
static int config_check_paths(struct config *config, struct err *err)
{
    static const char *const parts[] = { "sandboxes", STATE_DIR_NAMES, "uids", LIFELINE_DIR };
    bool is_within = path_is_beneath(config->codebase_path, config->mount_path);

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        autofree char *part = xprintf("%s/%s", config->mount_path, parts[i]);

        is_within = is_within || path_is_beneath(part, config->codebase_path);
    }
    if (is_within)
        return err_invalid(err, "storage.codebase_path '%s' and storage.mount_path '%s' must not lie in one another",
                           config->codebase_path, config->mount_path);
    return 0;
}

/* The first edition kept its sandboxes in STATE/mounts, and its configuration files name that. The service moves them
 * (state_dir_take_in()), unless another disk is mounted there. */
static void config_replace_old_mount_path(struct config *config)
{
    struct err ignored = ERR_NONE;
    autofree char *home = state_dir_find_path(&ignored);
    autofree char *old = home ? xprintf("%s/" STATE_DIR_OLD_PART, home) : NULL;
    struct stat at_home, at_old;
    bool is_disk = old && lstat(home, &at_home) == 0 && lstat(old, &at_old) == 0 && at_home.st_dev != at_old.st_dev;

    if (!old || strcmp(config->mount_path, is_disk ? home : old) != 0)
        return;
    free(config->mount_path);
    config->mount_path = is_disk ? steal_ptr(&old) : steal_ptr(&home);
}

static int config_check(struct config *config, struct err *err)
{
    int r = make_path_absolute(&config->codebase_path, err);

    if (r == 0)
        r = make_path_absolute(&config->mount_path, err);
    if (r == 0)
        config_replace_old_mount_path(config);
    if (r == 0 && !is_database_url(config->db_path))
        r = make_path_absolute(&config->db_path, err);
    if (r < 0)
        return r;
    if (!*config->codebase_path || !*config->mount_path || !*config->db_path)
        return err_invalid(err, "storage.codebase_path, storage.mount_path and storage.db_path must not be empty");
    r = config_check_paths(config, err);
    if (r < 0)
        return r;
    if (!*config->tls_cert != !*config->tls_key)
        return err_invalid(err, "server.tls_cert and server.tls_key go together");
    if (*config->tls_client_ca && !*config->tls_cert)
        return err_invalid(err, "server.tls_client_ca needs server.tls_cert");
    if (!*config->grpc_addr && !*config->http_addr && !*config->unix_socket)
        return err_invalid(err, "server.grpc_addr, server.http_addr and server.unix_socket are all empty: nobody could call");
    if (config->max_timeout_ns > 0 && config->default_timeout_ns > config->max_timeout_ns)
        return err_invalid(err, "runtime.default_timeout is longer than runtime.max_timeout");
    if (config->cleanup_interval_ns <= 0)
        return err_invalid(err, "sandbox.cleanup_interval must be longer than nothing");
    r = config_check_docker(config, err);
    return r < 0 ? r : config_check_uids(config, err);
}

int config_load(struct config *config, int argc, const char *const *argv, struct err *err)
{
    autofree char *file = NULL;
    const char *from_environment = getenv("AGENTFENSE_CONFIG");
    int r;

    *config = (struct config){ 0 };
    r = config_read_options(config, argc, argv, &file, err);
    if (r < 0 || config->wants_help || config->wants_version)
        return r;
    for (size_t i = 0; i < setting_count; i++)
        setting_done(&settings[i], config);
    *config = (struct config){ .wants_check = config->wants_check };
    if (!file && from_environment && *from_environment)
        file = xdup(from_environment);
    r = config_set_defaults(config, err);
    if (r == 0 && file && *file)
        r = config_read_file(config, file, err);
    if (r == 0)
        r = config_read_environment(config, err);
    if (r == 0)
        r = config_read_options(config, argc, argv, &file, err);
    return r < 0 ? r : config_check(config, err);
}

char *config_show(const struct config *config)
{
    struct buf out = BUF_EMPTY;

    for (size_t i = 0; i < setting_count; i++) {
        buf_addf(&out, "%s: ", settings[i].key);
        setting_show(&settings[i], config, &out);
        buf_add_char(&out, '\n');
    }
    return buf_dup_take(&out);
}

char *config_help(void)
{
    struct buf out = BUF_EMPTY;

    buf_add_str(&out, "usage: agentfense serve [--config FILE] [--check-config] [--SECTION-KEY VALUE]...\n\n"
                      "Serves sandboxes to others, by gRPC and REST. Settings come from the file (or $AGENTFENSE_CONFIG), the\n"
                      "environment (AGENTFENSE_SECTION_KEY) and the command line; the last of these wins.\n\n"
                      "  --config FILE    YAML, with the keys below\n"
                      "  --check-config   say what would hold, and end\n"
                      "  --version, --help\n\nsettings:\n");
    for (size_t i = 0; i < setting_count; i++) {
        buf_addf(&out, "  %-32s %s", settings[i].key, settings[i].help);
        if (settings[i].value && *settings[i].value)
            buf_addf(&out, " [%s]", settings[i].value);
        if (settings[i].option)
            buf_addf(&out, " (--%s)", settings[i].option);
        buf_add_char(&out, '\n');
    }
    return buf_dup_take(&out);
}
