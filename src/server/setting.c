#include "server/setting.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/mem.h"
#include "base/size.h"
#include "wire/runtime_type.h"

#define AT(member) offsetof(struct config, member)

const struct setting settings[] = {
    { "server.grpc_addr", SETTING_TEXT, AT(grpc_addr), "localhost:9000", "grpc-addr", NULL,
      "where gRPC listens: ADDRESS:PORT, :PORT for every address, empty for nowhere" },
    { "server.http_addr", SETTING_TEXT, AT(http_addr), "localhost:8080", "http-addr", NULL,
      "where REST listens, likewise; or unix:PATH" },
    { "server.unix_socket", SETTING_TEXT, AT(unix_socket), NULL, "unix-socket", NULL,
      "path of a socket for gRPC beside it; empty for none" },
    { "server.tls_cert", SETTING_TEXT, AT(tls_cert), "", NULL, NULL, "file with the certificate (PEM): both listen with TLS" },
    { "server.tls_key", SETTING_TEXT, AT(tls_key), "", NULL, NULL, "file with its key" },
    { "server.tls_client_ca", SETTING_TEXT, AT(tls_client_ca), "", NULL, NULL,
      "file with authorities: clients must have a certificate of theirs" },
    { "server.allowed_uids", SETTING_LIST, AT(allowed_uids), "", NULL, NULL,
      "local users who need no token, beside the one who runs the server; needs root" },
    { "server.allowed_hosts", SETTING_LIST, AT(allowed_hosts), "", NULL, NULL,
      "names this server goes by, beside its addresses" },
    { "server.allowed_origins", SETTING_LIST, AT(allowed_origins), "", NULL, NULL, "web pages that may call REST" },
    { "server.require_token", SETTING_BOOL, AT(is_private), "false", NULL, NULL, "local users need a token too" },
    { "server.drain_timeout", SETTING_SPAN, AT(drain_ns), "30s", NULL, NULL,
      "how long calls at work may go on when the server is told to end" },
    { "storage.codebase_path", SETTING_TEXT, AT(codebase_path), NULL, "codebase-path", NULL, "directory of the codebases" },
    { "storage.mount_path", SETTING_TEXT, AT(mount_path), NULL, "mount-path", NULL,
      "directory of the sandboxes and their changes" },
    { "storage.db_path", SETTING_TEXT, AT(db_path), NULL, "db-path", NULL,
      "file of the SQLite database, or postgres://... of another" },
    { "runtime.type", SETTING_TEXT, AT(runtime), RUNTIME_TYPE_DEFAULT, "runtime", RUNTIME_TYPE_NAMES,
      "how sandboxes are confined" },
    { "runtime.bwrap_path", SETTING_TEXT, AT(bwrap_path), "bwrap", NULL, NULL, "the program" },
    { "runtime.default_timeout", SETTING_SPAN, AT(default_timeout_ns), DEFAULT_EXEC_TIMEOUT, NULL, NULL,
      "of a command that does not say" },
    { "runtime.max_timeout", SETTING_SPAN, AT(max_timeout_ns), DEFAULT_EXEC_TIMEOUT_MAX, NULL, NULL,
      "of any command; 0 for none" },
    { "runtime.session_idle_timeout", SETTING_SPAN, AT(session_idle_ns), "0", NULL, NULL,
      "after which a session that nobody uses is closed; 0 for never" },
    { "runtime.max_output", SETTING_SIZE, AT(max_output_bytes), DEFAULT_OUTPUT, NULL, NULL,
      "of each of the two streams of a command whose output is not streamed; what does not fit into a message of 4 MiB is "
      "cut" },
    { "runtime.docker.host", SETTING_TEXT, AT(docker_host), "", NULL, NULL,
      "socket of the engine; empty for $DOCKER_HOST, or /var/run/docker.sock" },
    { "runtime.docker.default_image", SETTING_TEXT, AT(docker_image), "ubuntu:22.04", NULL, NULL,
      "of a sandbox that does not say" },
    { "runtime.docker.network_mode", SETTING_TEXT, AT(docker_network_mode), "none", NULL, "none bridge host",
      "of a container that does not say" },
    { "runtime.docker.enable_networking", SETTING_BOOL, AT(docker_enable_networking), "false", NULL, NULL,
      "whether containers may have a network at all" },
    { "runtime.docker.oci_runtime", SETTING_TEXT, AT(docker_oci_runtime), "", NULL, NULL,
      "what the engine runs containers with (runsc); empty for its default" },
    { "runtime.docker.read_only_root", SETTING_BOOL, AT(docker_read_only_root), "false", NULL, NULL,
      "whether an image's own files can be written, in the container" },
    { "runtime.docker.pull", SETTING_BOOL, AT(docker_pull), "true", NULL, NULL,
      "whether the engine fetches an image that it does not have" },
    { "sandbox.default_expiration", SETTING_SPAN, AT(default_expiration_ns), DEFAULT_EXPIRATION, NULL, NULL,
      "after which a sandbox that does not say is stopped; 0 for never" },
    { "sandbox.max_per_user", SETTING_COUNT, AT(max_per_user), "0", NULL, NULL,
      "sandboxes that one owner may have; 0 for any number" },
    { "sandbox.cleanup_interval", SETTING_SPAN, AT(cleanup_interval_ns), "5m", NULL, NULL,
      "how often is looked for what has expired" },
    { "sandbox.retention", SETTING_SPAN, AT(retention_ns), DEFAULT_STOPPED_RETENTION, NULL, NULL,
      "how long an expired sandbox is kept when it has changes that are in no codebase" },
    { "sandbox.sync_on_completion", SETTING_BOOL, AT(sync_on_completion), "true", NULL, NULL,
      "whether changes go into the codebase when a command ends" },
    { "sandbox.allow_host_network", SETTING_BOOL, AT(allow_host_network), "false", NULL, NULL,
      "whether a sandbox may ask for the host's network" },
    { "sandbox.memory", SETTING_SIZE, AT(memory_bytes), "0", NULL, NULL,
      "limit of a sandbox that does not say; 0 for three quarters of the machine's where it can be enforced" },
    { "sandbox.cpu_quota", SETTING_COUNT, AT(cpu_quota_us), "0", NULL, NULL, "likewise, microseconds in each 100 ms" },
    { "sandbox.cpu_shares", SETTING_COUNT, AT(cpu_shares), "0", NULL, NULL, "likewise" },
    { "sandbox.pids", SETTING_COUNT, AT(pids), "0", NULL, NULL,
      "likewise; 0 for " DEFAULT_TEXT(DEFAULT_PIDS) " where it can be enforced" },
    { "sandbox.disk", SETTING_SIZE, AT(disk_bytes), "0", NULL, NULL,
      "likewise; 0 for " DEFAULT_TEXT(DEFAULT_DISK_GIB) " GiB or half of the file system" },
    { "sandbox.disk_inodes", SETTING_COUNT, AT(disk_inodes), "0", NULL, NULL,
      "likewise; 0 for " DEFAULT_TEXT(DEFAULT_FILES) ", or what fits the limits of disk and memory" },
    { "codebase.versions", SETTING_COUNT, AT(versions_kept), DEFAULT_TEXT(DEFAULT_VERSIONS), NULL, NULL, "how many are kept" },
    { "codebase.versions_age", SETTING_SPAN, AT(versions_age_ns), DEFAULT_VERSIONS_AGE, NULL, NULL, "and how long" },
    { "codebase.quota", SETTING_SIZE, AT(codebase_quota_bytes), "0", NULL, NULL,
      "bytes of one, its versions counted; 0 for any" },
    { "codebase.max_archive", SETTING_SIZE, AT(archive_bytes_max), "16G", NULL, NULL,
      "bytes that an uploaded archive may unpack to" },
    { "workspace.project_root", SETTING_TEXT, AT(project_root), "", NULL, NULL,
      "directory of workspaces that name none; empty: each names its own" },
    { "workspace.max", SETTING_COUNT, AT(workspaces_max), "1000", NULL, NULL, "workspaces of this host; 0 for any number" },
    { "workspace.max_size", SETTING_SIZE, AT(workspace_bytes_max), DEFAULT_DIRECTORY_DISK, NULL, NULL,
      "bytes of one's changes; 0 for any" },
    { "workspace.max_total_size", SETTING_SIZE, AT(workspace_total_bytes_max), "100G", NULL, NULL,
      "bytes of all changes together, above which a collection takes the oldest; 0 for any" },
    { "workspace.ttl", SETTING_SPAN, AT(workspace_ttl_ns), DEFAULT_DIRECTORY_EXPIRATION, NULL, NULL,
      "age from which a collection that does not say takes one" },
    { "workspace.idle_ttl", SETTING_SPAN, AT(workspace_idle_ns), DEFAULT_DIRECTORY_IDLE, NULL, NULL, "likewise, without use" },
    { "workspace.terminal_delay", SETTING_SPAN, AT(sandbox_terminal_ns), DEFAULT_DECIDED_DELAY, NULL, NULL,
      "how long one that was approved or rejected is kept" },
    { "workspace.auto_cleanup_terminal", SETTING_BOOL, AT(cleans_terminal), "true", NULL, NULL,
      "whether those are collected without being asked" },
    { "workspace.trash", SETTING_SPAN, AT(workspace_trash_ns), DEFAULT_TRASH, NULL, NULL,
      "how long a deleted one can be restored; 0: not at all" },
    { "workspace.undo_window", SETTING_SPAN, AT(workspace_undo_ns), DEFAULT_UNDO_WINDOW, NULL, NULL,
      "how long an approval can be undone; what is kept for it goes then. 0: for ever" },
    { "workspace.require_human_approval", SETTING_BOOL, AT(require_human), "false", NULL, NULL,
      "whether nothing is approved automatically, and who asks for that is refused" },
    { "workspace.host_mount", SETTING_BOOL, AT(host_mount), "false", NULL, NULL,
      "whether files of workspaces are mounted on the host, too, unless a request says otherwise; takes root" },
    { "workspace.auto_approve_files", SETTING_COUNT, AT(auto_files_max), "10", NULL, NULL,
      "files that may be approved automatically; 0 for any number" },
    { "workspace.auto_approve_lines", SETTING_COUNT, AT(auto_lines_max), "500", NULL, NULL, "likewise, lines" },
    { "workspace.hooks", SETTING_TEXT, AT(hooks_path), "", NULL, NULL,
      "file with commands (JSON) that try every approval in a sandbox before it lands; empty: none" },
    { "workspace.allow_no_verify", SETTING_BOOL, AT(allow_no_verify), "false", NULL, NULL,
      "whether others than administrators may approve without the hooks" },
    { "workspace.commit_template", SETTING_TEXT, AT(commit_template), "", NULL, NULL,
      "message of a commit that has none; knows {{.SandboxID}}, {{.FileCount}}, {{.Actor}}, {{.Owner}}, {{.ScopePath}}" },
    { "workspace.commit_author", SETTING_TEXT, AT(commit_author), "agent", NULL, "agent reviewer coauthored",
      "who a commit is by: the sandbox's owner, who approves, or both" },
    { "audit.retention", SETTING_SPAN, AT(events_age_ns), DEFAULT_EVENTS, NULL, NULL, "how long events are kept" },
    { "audit.redact", SETTING_BOOL, AT(redact), "true", NULL, NULL,
      "whether secrets that commands show (--token X, PASSWORD=x, Authorization: x ...) are taken out of events and log" },
    { "audit.redact_names", SETTING_TEXT, AT(redact_names), "", NULL, NULL,
      "more names of options, variables, keys and headers whose values are secrets, with commas between" },
    { "audit.redact_patterns", SETTING_TEXT, AT(redact_patterns_path), "", NULL, NULL,
      "file of extended regular expressions, one in a line: what they match, or their first group, is taken out; empty: none" },
    { "logging.level", SETTING_TEXT, AT(log_level), "info", NULL, "debug info warn error", "what is logged" },
    { "logging.format", SETTING_TEXT, AT(log_format), "text", NULL, "text json", "and how" },
};

const size_t setting_count = ARRAY_LEN(settings);

const struct setting *setting_find(const char *key)
{
    for (size_t i = 0; i < setting_count; i++) {
        if (strcmp(settings[i].key, key) == 0)
            return &settings[i];
    }
    return NULL;
}

static void spell_key(const char *key, char between, int (*letter)(int), struct buf *out)
{
    for (; *key; key++)
        buf_add_char(out, (char) (*key == '.' || *key == '_' ? between : letter(*key)));
}

void setting_variable(const struct setting *setting, struct buf *out)
{
    buf_add_str(out, "AGENTFENSE_");
    spell_key(setting->key, '_', toupper, out);
}

void setting_option(const struct setting *setting, struct buf *out)
{
    spell_key(setting->key, '-', tolower, out);
}

const struct setting *setting_find_option(const char *name)
{
    for (size_t i = 0; i < setting_count; i++) {
        autodone(buf) struct buf option = BUF_EMPTY;

        setting_option(&settings[i], &option);
        if ((option.data && strcmp(option.data, name) == 0) || (settings[i].option && strcmp(settings[i].option, name) == 0))
            return &settings[i];
    }
    return NULL;
}

static void config_list_done(struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct config_list){ 0 };
}

void setting_add(const struct setting *setting, struct config *config, const char *value)
{
    struct config_list *list = (void *) ((char *) config + setting->offset);

    list->items = xgrow(list->items, list->count + 2, sizeof(*list->items));
    list->items[list->count++] = xdup(value);
    list->items[list->count] = NULL;
}

void setting_done(const struct setting *setting, struct config *config)
{
    void *at = (char *) config + setting->offset;

    if (setting->kind == SETTING_LIST)
        config_list_done(at);
    else if (setting->kind == SETTING_TEXT)
        free(*(char **) at);
}

/* Splits "a, b,c" at the commas and strips the spaces. */
static void setting_set_list(const struct setting *setting, struct config *config, const char *value)
{
    config_list_done((void *) ((char *) config + setting->offset));
    while (*value) {
        size_t len = strcspn(value, ",");
        const char *from = value + strspn(value, " ");
        const char *to = value + len;

        while (to > from && to[-1] == ' ')
            to--;
        if (to > from) {
            autofree char *item = xdupn(from, (size_t) (to - from));
            setting_add(setting, config, item);
        }
        value += len + (value[len] == ',');
    }
}

static bool is_among(const char *choices, const char *value)
{
    size_t len = strlen(value);

    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");

        if (word == len && memcmp(at, value, len) == 0)
            return true;
        at += word;
    }
    return false;
}

static int setting_set_text(const struct setting *setting, char **at, const char *value, struct err *err)
{
    if (setting->choices && !is_among(setting->choices, value)) {
        autodone(buf) struct buf why = BUF_EMPTY;

        buf_addf(&why, "is not one of: %s", setting->choices);
        return err_reject(err, -EINVAL, value, why.data);
    }
    free(*at);
    *at = xdup(value);
    return 0;
}

static int setting_set_bool(bool *at, const char *value, struct err *err)
{
    static const char *const yes = "true yes on 1", *const no = "false no off 0";

    if (!is_among(yes, value) && !is_among(no, value))
        return err_reject(err, -EINVAL, value, "is neither true nor false");
    *at = is_among(yes, value);
    return 0;
}

static int setting_set_count(uint64_t *at, const char *value, struct err *err)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (!isdigit((unsigned char) *value) || *end || errno || number > INT64_MAX)
        return err_reject(err, -EINVAL, value, "is no number, 0 or more");
    *at = number;
    return 0;
}

int setting_set(const struct setting *setting, struct config *config, const char *value, struct err *err)
{
    void *at = (char *) config + setting->offset;

    switch (setting->kind) {
    case SETTING_TEXT:
        return setting_set_text(setting, at, value, err);
    case SETTING_BOOL:
        return setting_set_bool(at, value, err);
    case SETTING_COUNT:
        return setting_set_count(at, value, err);
    case SETTING_SIZE:
        return size_parse(value, at, err);
    case SETTING_SPAN:
        return clock_parse_duration(value, at, err);
    case SETTING_LIST:
        setting_set_list(setting, config, value);
        return 0;
    }
    return -EINVAL;
}

void setting_show(const struct setting *setting, const struct config *config, struct buf *out)
{
    const void *at = (const char *) config + setting->offset;
    const struct config_list *list = at;
    char text[CLOCK_TEXT_MAX];

    switch (setting->kind) {
    case SETTING_TEXT:
        buf_addf(out, "\"%s\"", *(char *const *) at ? *(char *const *) at : "");
        break;
    case SETTING_BOOL:
        buf_add_str(out, *(const bool *) at ? "true" : "false");
        break;
    case SETTING_COUNT:
    case SETTING_SIZE:
        buf_addf(out, "%" PRIu64, *(const uint64_t *) at);
        break;
    case SETTING_SPAN:
        clock_format_duration(*(const int64_t *) at, text);
        buf_add_str(out, text);
        break;
    case SETTING_LIST:
        buf_add_char(out, '[');
        for (size_t i = 0; i < list->count; i++)
            buf_addf(out, "%s\"%s\"", i > 0 ? ", " : "", list->items[i]);
        buf_add_char(out, ']');
        break;
    }
}
