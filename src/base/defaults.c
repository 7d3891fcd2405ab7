#include "base/defaults.h"

#include <stddef.h>

#define SAME(value) value, value, value

const struct default_row defaults_table[] = {
    { "preset", DEFAULT_PRESET, DEFAULT_PRESET, DEFAULT_PRESET_SDK, "" },
    { "network", SAME("none"), "" },
    { "time limit of a command", "none", DEFAULT_EXEC_TIMEOUT, DEFAULT_SDK_TIMEOUT, "runtime.default_timeout" },
    { "longest time limit", "none", DEFAULT_EXEC_TIMEOUT_MAX, DEFAULT_EXEC_TIMEOUT_MAX, "runtime.max_timeout" },
    { "output of a command", "all", DEFAULT_OUTPUT, DEFAULT_OUTPUT, "runtime.max_output" },
    { "memory", SAME("3/4 of the host"), "sandbox.memory" },
    { "processors", SAME("all"), "sandbox.cpu_quota" },
    { "processes", SAME(DEFAULT_TEXT(DEFAULT_PIDS)), "sandbox.pids" },
    { "bytes of changes", SAME(DEFAULT_TEXT(DEFAULT_DISK_GIB) "G"), "sandbox.disk" },
    { "bytes of changes, over a directory", DEFAULT_TEXT(DEFAULT_DISK_GIB) "G", DEFAULT_DIRECTORY_DISK, DEFAULT_DIRECTORY_DISK,
      "workspace.max_size" },
    { "files among the changes", SAME(DEFAULT_TEXT(DEFAULT_FILES)), "sandbox.disk_inodes" },
    { "changes over a directory", SAME("held"), "" },
    { "changes over a codebase", "-", "synced", "synced", "sandbox.sync_on_completion" },
    { "stopped after, over a codebase", "-", DEFAULT_EXPIRATION, DEFAULT_EXPIRATION, "sandbox.default_expiration" },
    { "removed when stopped for, over a codebase", "-", DEFAULT_STOPPED_RETENTION, DEFAULT_STOPPED_RETENTION,
      "sandbox.retention" },
    { "collected after, over a directory", SAME(DEFAULT_DIRECTORY_EXPIRATION), "workspace.ttl" },
    { "collected without use for, over a directory", SAME(DEFAULT_DIRECTORY_IDLE), "workspace.idle_ttl" },
    { "removed when decided for", SAME(DEFAULT_DECIDED_DELAY), "workspace.terminal_delay" },
    { "kept in the trash", SAME(DEFAULT_TRASH), "workspace.trash" },
    { "approvals can be undone for", SAME(DEFAULT_UNDO_WINDOW), "workspace.undo_window" },
    { "events are kept for", SAME(DEFAULT_EVENTS), "audit.retention" },
    { "versions of a codebase", "-", DEFAULT_TEXT(DEFAULT_VERSIONS), DEFAULT_TEXT(DEFAULT_VERSIONS), "codebase.versions" },
    { "versions are kept for", "-", DEFAULT_VERSIONS_AGE, DEFAULT_VERSIONS_AGE, "codebase.versions_age" },
    { .name = NULL },
};
