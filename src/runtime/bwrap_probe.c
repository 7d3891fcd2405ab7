#include "runtime/bwrap_probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"

#define ANSWER_MS 10000
#define PROGRAM_MAX_BYTES (8 << 20)

static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap",
                                      "/run/current-system/sw/bin/bwrap" };

static const struct bwrap_advisory advisories[] = {
    { "CVE-2016-8659", "", "0.1.3", true, true, "a set-user-ID bwrap could be traced while privileged" },
    { "CVE-2017-5226", "", "0.1.5", false, false,
      "TIOCSTI into the caller's terminal; we always use a new session and a filter" },
    { "CVE-2019-12439", "", "0.3.3", false, true, "a predictable directory in /tmp could be prepared by another user" },
    { "CVE-2020-5291", "0.4.0", "0.4.1", true, true, "a set-user-ID bwrap could be made to keep its privileges" },
    { "CVE-2026-41163", "0.11.0", "0.11.2", true, true, "a set-user-ID bwrap could be traced into overlay mounts" },
    { "CVE-2026-87766", "", "0.12.0", false, false,
      "mount points made beneath a symlink land on the host; ours are made on fresh file systems only (backports don't show)" },
};

int bwrap_compare_versions(const char *a, const char *b)
{
    while (*a || *b) {
        char *next_a, *next_b;
        long x = strtol(a, &next_a, 10), y = strtol(b, &next_b, 10);

        if (x != y)
            return x < y ? -1 : 1;
        a = *next_a == '.' ? next_a + 1 : "";
        b = *next_b == '.' ? next_b + 1 : "";
    }
    return 0;
}

const struct bwrap_advisory *bwrap_advisories(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(advisories);
    return advisories;
}

bool bwrap_is_affected(const struct bwrap_probe *probe, const struct bwrap_advisory *advisory)
{
    if (advisory->setuid_only && !probe->is_setuid)
        return false;
    return bwrap_compare_versions(probe->version, advisory->first) >= 0 &&
           bwrap_compare_versions(probe->version, advisory->fixed) < 0;
}

const char *bwrap_find(void)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

/* Returns the program's output for one option. */
static int bwrap_probe_run(const char *path, const char *option, struct buf *out, struct err *err)
{
    const char *argv[] = { path, option, NULL };
    int status;

    return proc_run(&(struct proc_spec){ .argv = argv }, ANSWER_MS, out, &status, err);
}

/* Parses "bubblewrap 0.8.0\n". */
static int read_version(const char *text, char version[32], struct err *err)
{
    const char *digits = text ? strpbrk(text, "0123456789") : NULL;
    size_t len = digits ? strspn(digits, "0123456789.") : 0;

    if (len == 0 || len >= 32)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP, "bubblewrap does not tell its version");
    memcpy(version, digits, len);
    version[len] = '\0';
    return 0;
}

/* The option must be a whole word: --size is not --size-of-something. */
static bool bwrap_probe_has_option(const struct buf *text, const char *option)
{
    size_t len = strlen(option);
    const char *at = text->data, *end = text->data + text->len;

    while (at && (at = memmem(at, (size_t) (end - at), option, len))) {
        at += len;
        if (at < end && isspace((unsigned char) *at))
            return true;
    }
    return false;
}

static void read_options(const struct buf *help, struct bwrap_probe *probe)
{
    probe->has_disable_userns = bwrap_probe_has_option(help, "--disable-userns");
    probe->has_size = bwrap_probe_has_option(help, "--size");
    probe->has_perms = bwrap_probe_has_option(help, "--perms");
    probe->has_clearenv = bwrap_probe_has_option(help, "--clearenv");
    probe->has_as_pid_1 = bwrap_probe_has_option(help, "--as-pid-1");
}

/* --size is the newest of these (0.7.0). Without it a tmpfs may use half of the memory. */
static int require_options(const struct bwrap_probe *probe, struct err *err)
{
    if (probe->has_size && probe->has_perms && probe->has_clearenv && probe->has_as_pid_1)
        return 0;
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP, "bubblewrap %s lacks %s; install version 0.8.0 or later",
                   probe->version,
                   !probe->has_as_pid_1   ? "--as-pid-1"
                   : !probe->has_clearenv ? "--clearenv"
                   : !probe->has_perms    ? "--perms"
                                          : "--size");
}

int bwrap_probe(const char *path, struct bwrap_probe *ret, struct err *err)
{
    autodone(buf) struct buf version = BUF_EMPTY, help = BUF_EMPTY;
    struct bwrap_probe probe = { 0 };
    struct stat st;
    int r;

    path = path ? path : bwrap_find();
    if (!path)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "bubblewrap is not installed (package 'bubblewrap')");
    if (snprintf(probe.path, sizeof(probe.path), "%s", path) >= (int) sizeof(probe.path))
        return err_errno(err, -ENAMETOOLONG, "bubblewrap's path");
    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "bubblewrap '%s'", path);
    probe.is_setuid = st.st_mode & S_ISUID;
    if ((r = bwrap_probe_run(path, "--version", &version, err)) < 0 ||
        (r = read_version(version.data, probe.version, err)) < 0 || (r = bwrap_probe_run(path, "--help", &help, err)) < 0)
        return r;
    read_options(&help, &probe);
    *ret = probe;
    return require_options(&probe, err);
}

int bwrap_probe_file(const char *path, struct bwrap_probe *ret, struct err *err)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct bwrap_probe probe = { 0 };
    struct stat st;

    path = path ? path : bwrap_find();
    autofd int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, PROGRAM_MAX_BYTES, &bytes) == 0 &&
        bytes.len > 4 && memcmp(bytes.data, "\177ELF", 4) == 0) {
        snprintf(probe.path, sizeof(probe.path), "%s", path);
        probe.is_setuid = st.st_mode & S_ISUID;
        read_options(&bytes, &probe);
        if (strlen(path) < sizeof(probe.path) && require_options(&probe, NULL) == 0) {
            *ret = probe;
            return 0;
        }
    }
    return bwrap_probe(path, ret, err);
}
