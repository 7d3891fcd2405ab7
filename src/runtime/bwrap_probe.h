/*
 * The host's bubblewrap: its path, version and options. The options come from its help text, not from its version, because
 * distributions backport: Debian 12's 0.8.0 has --bind-fd of 0.10.0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct bwrap_probe {
    char path[256];
    char version[32]; /* "0.8.0"; "" after bwrap_probe_file() */
    bool is_setuid;
    bool has_disable_userns, has_size, has_perms, has_clearenv, has_as_pid_1;
};

/* If `path` is NULL, looks in the system's directories, never in a PATH that another user may have set. -ENOENT if there is
 * none, -ENOTSUP if it lacks an option that we need. */
int bwrap_probe(const char *path, struct bwrap_probe *ret, struct err *err);

/* Like bwrap_probe() without the version: reads the help text from the program's file, which takes a tenth of the time and
 * so suits every start. Runs the program if it is a script or the file does not tell enough. */
int bwrap_probe_file(const char *path, struct bwrap_probe *ret, struct err *err);

/* Returns the usual path or NULL, without running anything. */
const char *bwrap_find(void);

struct bwrap_advisory {
    const char *id;
    const char *first, *fixed; /* affected: first <= version < fixed; "" means from the beginning */
    bool setuid_only;
    bool open; /* true: affects how we call it; false: affected, but we do not use the feature */
    const char *text;
};

const struct bwrap_advisory *bwrap_advisories(size_t *ret_count);
bool bwrap_is_affected(const struct bwrap_probe *probe, const struct bwrap_advisory *advisory);

/* Compares numbers between dots, like strverscmp(). */
int bwrap_compare_versions(const char *a, const char *b);
