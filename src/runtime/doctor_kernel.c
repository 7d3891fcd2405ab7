#include "runtime/doctor_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "runtime/identity.h"

static void read_release(struct utsname *name, int *ret_major, int *ret_minor)
{
    *ret_major = *ret_minor = 0;
    if (uname(name) < 0 || sscanf(name->release, "%d.%d", ret_major, ret_minor) < 1)
        snprintf(name->release, sizeof(name->release), "unknown");
}

/* Calls it with arguments that no kernel accepts: ENOSYS means that the kernel lacks it. */
static bool has_call(long nr)
{
    return syscall(nr, -1L, 0L, 0L, 0L, 0L, 0L) >= 0 || errno != ENOSYS;
}

static void check_calls(const struct doctor_view *view)
{
    static const struct {
        const char *name;
        long nr;
        const char *since;
    } calls[] = {
        { "openat2", SYS_openat2, "5.6" }, { "close_range", SYS_close_range, "5.9" },
        { "clone3", SYS_clone3, "5.3" },   { "pidfd_open", SYS_pidfd_open, "5.3" },
        { "statx", SYS_statx, "4.11" },
    };
    autodone(buf) struct buf has = BUF_EMPTY, lacks = BUF_EMPTY;

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (has_call(calls[i].nr))
            buf_addf(&has, "%s%s", has.len ? ", " : "", calls[i].name);
        else
            buf_addf(&lacks, "%s%s (Linux %s)", lacks.len ? ", " : "", calls[i].name, calls[i].since);
    }
    if (lacks.len == 0)
        doctor_report(view, "system calls", DOCTOR_ESSENTIAL, DOCTOR_OK, has.data, NULL, NULL);
    else
        doctor_report(view, "system calls", DOCTOR_ESSENTIAL, DOCTOR_DEGRADED, lacks.data,
                      "older and slower ways are used in their place",
                      "use a newer kernel, or a container runtime that allows them");
}

void doctor_check_kernel(const struct doctor_view *view)
{
    autofree char *found = NULL;
    struct utsname name;
    int major, minor;

    read_release(&name, &major, &minor);
    found = xprintf("Linux %s", name.release);
    if (major > 5 || (major == 5 && minor >= 14))
        doctor_report(view, "kernel", DOCTOR_ESSENTIAL, DOCTOR_OK, found, NULL, NULL);
    else if (major == 5 || (major == 4 && minor >= 18))
        doctor_report(view, "kernel", DOCTOR_ESSENTIAL, DOCTOR_DEGRADED, found,
                      "without a cgroup the number of processes cannot be limited, and a cgroup is not ended at one stroke",
                      "use Linux 5.14 or later");
    else
        doctor_report(view, "kernel", DOCTOR_ESSENTIAL, DOCTOR_MISSING, found,
                      "no unprivileged FUSE mounts in a user namespace before 4.18", "use Linux 5.14 or later");
    check_calls(view);
}

static void check_passthrough(const struct doctor_view *view)
{
    autofree char *found = NULL;
    struct utsname name;
    int major, minor;
    bool recent;

    read_release(&name, &major, &minor);
    recent = major > 6 || (major == 6 && minor >= 9);
    if (recent && identity_is_host_root()) {
        doctor_report(view, "FUSE passthrough", DOCTOR_OPTIONAL, DOCTOR_OK, "kernel and root", NULL, NULL);
        return;
    }
    found = xprintf("%s", recent ? "only root may use it" : "not before Linux 6.9");
    doctor_report(view, "FUSE passthrough", DOCTOR_OPTIONAL, DOCTOR_DEGRADED, found,
                  "each sandbox has its own copy of cached file pages",
                  recent ? "run as root, if that matters" : "use Linux 6.9 or later");
}

void doctor_check_fuse(const struct doctor_view *view)
{
    autofree char *path = xprintf("%s/dev/fuse", view->root), *found = NULL;
    autofd int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd >= 0) {
        doctor_report(view, "FUSE", DOCTOR_ESSENTIAL, DOCTOR_OK, "/dev/fuse opens", NULL, NULL);
        check_passthrough(view);
        return;
    }
    found = xprintf("/dev/fuse: %s", strerror(errno));
    doctor_report(
        view, "FUSE", DOCTOR_ESSENTIAL, DOCTOR_MISSING, found, "no rules can be enforced on files: no sandbox",
        errno == EACCES || errno == EPERM
            ? "let users open it: 'chmod 666 /dev/fuse' now, a udev rule for good; in a container add '--device /dev/fuse'"
            : "load it: 'modprobe fuse'; in a container add '--device /dev/fuse'");
}

void doctor_check_container(const struct doctor_view *view)
{
    static const struct {
        const char *path, *name;
    } marks[] = {
        { "/.dockerenv", "Docker" },
        { "/run/.containerenv", "Podman" },
        { "/run/systemd/container", "a container" },
        { "/var/run/secrets/kubernetes.io", "Kubernetes" },
    };

    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        autofree char *found = NULL;

        if (!doctor_has_file(view, marks[i].path))
            continue;
        found = xprintf("runs inside %s (%s)", marks[i].name, marks[i].path);
        doctor_report(view, "container", DOCTOR_OPTIONAL, DOCTOR_DEGRADED, found,
                      "the container's own limits, filters and masked /proc hold for sandboxes too",
                      "if starting a sandbox fails: --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
                      "--security-opt systempaths=unconfined --device /dev/fuse");
        return;
    }
    doctor_report(view, "container", DOCTOR_OPTIONAL, DOCTOR_OK, "not in a container", NULL, NULL);
}

/* Finds the engine's name in its answer: "Docker/20.10.24", or "". */
static void find_version(const char *reply, char *ret, size_t size)
{
    const char *line = strcasestr(reply, "\r\nServer: ");
    size_t len;

    line = line ? line + strlen("\r\nServer: ") : "";
    len = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./+~-");
    snprintf(ret, size, "%s%.*s", len > 0 ? ": " : "", (int) len, line);
}

/* Returns 0 if the engine answers a ping within two seconds, or a negative errno. */
static int doctor_ping_docker(const char *path, char *ret_version, size_t size)
{
    static const char request[] = "GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n";
    const struct timeval patience = { .tv_sec = 2 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char reply[1024] = "";

    if (fd < 0)
        return -errno;
    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >= (int) sizeof(address.sun_path))
        return -ENAMETOOLONG;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 || recv(fd, reply, sizeof(reply) - 1, 0) < 0)
        return -errno;
    find_version(reply, ret_version, size);
    return strncmp(reply, "HTTP/1.", 7) == 0 && strncmp(reply + 8, " 200", 4) == 0 ? 0 : -EPROTO;
}

void doctor_check_docker(const struct doctor_view *view)
{
    const char *host = getenv("DOCKER_HOST");
    autofree char *path =
        host && strncmp(host, "unix:///", 8) == 0 ? xdup(host + 7) : xprintf("%s/var/run/docker.sock", view->root);
    autofree char *found = NULL;
    char version[64] = "";
    int r = doctor_ping_docker(path, version, sizeof(version));

    found = r == 0 ? xprintf("an engine answers at %s%s", path, version) : xprintf("%s: %s", path, strerror(-r));
    if (r == 0 && geteuid() != 0) {
        doctor_report(view, "Docker", DOCTOR_OPTIONAL, DOCTOR_DEGRADED, found,
                      "an ordinary user's sandboxes cannot be containers: the engine does not see their mounts",
                      "run as root where images are wanted");
        return;
    }
    doctor_report(view, "Docker", DOCTOR_OPTIONAL, r == 0 ? DOCTOR_OK : DOCTOR_MISSING, found,
                  r == 0 ? NULL : "only the bwrap runtime can be used",
                  r == 0         ? NULL
                  : r == -EACCES ? "run as root or join the group 'docker', which is as good as root"
                                 : "install and start a Docker engine (apt install docker.io), if images are wanted; another "
                                   "socket is named by DOCKER_HOST=unix:///PATH, for a server by runtime.docker.host");
}
