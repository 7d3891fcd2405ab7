/*
 * The bubblewrap of this host: where it is, which version, and which options it knows. Options are taken from its own help, not
 * from the version, because distributions backport (Debian 12's 0.8.0 has --bind-fd of 0.10.0).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct bwrap_probe {
    char path[256];
    char version[32]; /* "0.8.0"; "" after bwrap_probe_file() */
    bool is_setuid;
    bool has_disable_userns, has_bind_fd, has_size, has_perms, has_clearenv, has_as_pid_1;
};

/* `path` NULL: looked for in the directories of the system, never in a PATH that somebody set. -ENOENT when there is none,
 * -ENOTSUP when it lacks an option that we cannot do without. */
int bwrap_probe(const char *path, struct bwrap_probe *ret, struct err *err);

/* The same without the version, by reading the program's own file, where the text of its help stands: a tenth of the time, for
 * every start. Asks the program when that is a script or does not say enough. */
int bwrap_probe_file(const char *path, struct bwrap_probe *ret, struct err *err);

/* The usual place or NULL: without starting anything. */
const char *bwrap_find(void);

struct bwrap_advisory {
    const char *id;
    const char *first, *fixed; /* versions: first <= v < fixed is affected; "" is from the beginning */
    bool setuid_only;
    bool open; /* true: bears on how we call it. false: affected, but nothing we do reaches it */
    const char *text;
};

const struct bwrap_advisory *bwrap_advisories(size_t *ret_count);
bool bwrap_is_affected(const struct bwrap_probe *probe, const struct bwrap_advisory *advisory);

/* As strverscmp(), by numbers between dots. */
int bwrap_compare_versions(const char *a, const char *b);
