#include "runtime/doctor_int.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/proc.h"
#include "runtime/bwrap.h"
#include "runtime/cgroup.h"
#include "runtime/identity.h"
#include "runtime/seccomp.h"

#define TRY_MS 10000

/* As root, tries with a sandbox's user, whose rights matter. */
static uid_t trial_uid(void)
{
    return identity_is_host_root() ? IDENTITY_FIRST + IDENTITY_COUNT - 1 : geteuid();
}

/* Returns 0 if a process could be started in a new user namespace with mapped ids. */
static int try_userns(const struct doctor_view *view)
{
    const char *argv[] = { view->unshare, "--user", "--map-root-user", "/bin/true", NULL };
    const struct proc_user user = { .uid = trial_uid(), .gid = trial_uid() };
    const struct proc_spec spec = { .argv = argv, .user = identity_is_host_root() ? &user : NULL };
    int status, r = proc_run(&spec, TRY_MS, NULL, &status, NULL);

    return r < 0 ? r : status == 0 ? 0 : -EPERM;
}

static const char apparmor_fix[] = "allow it for bwrap and agentfense only: write to /etc/apparmor.d/bwrap 'abi <abi/4.0>, "
                                   "include <tunables/global> profile bwrap "
                                   "/usr/bin/bwrap flags=(unconfined) { userns, }', the same for agentfense and "
                                   "agentfense-supervisor, then 'apparmor_parser -r' "
                                   "each; or for all programs: 'sysctl kernel.apparmor_restrict_unprivileged_userns=0'";

/* Finds the setting that forbids it, among the known ones. */
static const char *userns_fix(const struct doctor_view *view)
{
    if (doctor_read_number(view, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        return apparmor_fix;
    if (doctor_read_number(view, "/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        return "'sysctl kernel.unprivileged_userns_clone=1'";
    if (doctor_read_number(view, "/proc/sys/user/max_user_namespaces", 1) == 0)
        return "'sysctl user.max_user_namespaces=15000'";
    return "use a kernel with CONFIG_USER_NS; in a container allow them (--security-opt seccomp=unconfined)";
}

void doctor_check_userns(const struct doctor_view *view)
{
    bool restricted = doctor_read_number(view, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1;
    int r = try_userns(view);

    if (r == -ENOENT)
        doctor_report(view, "user namespaces", DOCTOR_USEFUL, DOCTOR_DEGRADED, "not tried: the program 'unshare' is missing",
                      "see the finding on starting a sandbox", "install util-linux");
    else if (r < 0)
        doctor_report(view, "user namespaces", DOCTOR_ESSENTIAL, DOCTOR_MISSING,
                      restricted ? "refused, by AppArmor (Ubuntu 23.10 and later)" : "refused",
                      "no sandbox can be made by this user, nor by root for an unprivileged one", userns_fix(view));
    else
        doctor_report(view, "user namespaces", DOCTOR_ESSENTIAL, DOCTOR_OK,
                      restricted ? "made one, although AppArmor restricts them" : "made one", NULL, NULL);
}

/* A kernel that supports filters returns EFAULT for a filter at address 0. */
void doctor_check_seccomp(const struct doctor_view *view)
{
    struct err err = ERR_NONE;
    bool known = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT;
    autofd int fd = known ? seccomp_open_filter(&err) : -1;
    autofree char *found = NULL;
    size_t count;

    if (fd < 0) {
        doctor_report(view, "seccomp", DOCTOR_ESSENTIAL, DOCTOR_MISSING, known ? err.text : "the kernel has no filters",
                      "no sandbox without a system call filter", "use a kernel with CONFIG_SECCOMP_FILTER");
        return;
    }
    seccomp_rules(&count);
    found = xprintf("filter of %zu rules compiles", count);
    doctor_report(view, "seccomp", DOCTOR_ESSENTIAL, DOCTOR_OK, found, NULL, NULL);
}

/* Lists the advisories that affect this version: those that matter for us, and the others. */
static void list_advisories(const struct bwrap_probe *probe, struct buf *open, struct buf *closed)
{
    size_t count;
    const struct bwrap_advisory *all = bwrap_advisories(&count);

    for (size_t i = 0; i < count; i++) {
        struct buf *list = all[i].open ? open : closed;

        if (bwrap_is_affected(probe, &all[i]))
            buf_addf(list, "%s%s (%s)", list->len ? "; " : "", all[i].id, all[i].text);
    }
}

static void report_version(const struct doctor_view *view, const struct bwrap_probe *probe)
{
    autodone(buf) struct buf open = BUF_EMPTY, closed = BUF_EMPTY, found = BUF_EMPTY;

    list_advisories(probe, &open, &closed);
    buf_addf(&found, "%s, version %s%s", probe->path, probe->version, probe->is_setuid ? ", set-user-ID" : "");
    if (closed.len)
        buf_addf(&found, "; known but not reached by us: %s", closed.data);
    if (open.len || probe->is_setuid)
        doctor_report(view, "bubblewrap", DOCTOR_ESSENTIAL, DOCTOR_DEGRADED, found.data,
                      open.len ? open.data : "every bug of a set-user-ID program is root's",
                      probe->is_setuid ? "'chmod u-s' it where user namespaces work, and keep it up to date"
                                       : "update bubblewrap");
    else if (!probe->has_disable_userns)
        doctor_report(view, "bubblewrap", DOCTOR_ESSENTIAL, DOCTOR_DEGRADED, found.data,
                      "nested user namespaces are stopped by the filter alone", "install version 0.8.0 or later");
    else
        doctor_report(view, "bubblewrap", DOCTOR_ESSENTIAL, DOCTOR_OK, found.data, NULL, NULL);
}

/* Starts a whole sandbox over an empty directory, with `true` as its init. */
static int start_one(const struct bwrap_probe *probe, const char *dir, struct err *err)
{
    autoptr(runtime) runtime = bwrap_runtime_of_probe(probe);
    autoptr(runtime_process) process = NULL;
    struct runtime_spec spec = RUNTIME_SPEC_NONE;
    char id[ID_TEXT_MAX];
    int r, status = 0;

    id_new("doctor_", id);
    spec.id = id;
    spec.workspace = dir;
    spec.init_path = "/bin/true";
    spec.uid = trial_uid();
    spec.gid = identity_is_host_root() ? trial_uid() : getegid();
    r = runtime_start(runtime, &spec, &process, err);
    if (r < 0)
        return r;
    r = proc_wait_timeout(&process->proc, TRY_MS, &status);
    if (r < 0)
        return err_errno(err, r, "waiting for the sandbox");
    return status == 0 ? 0 : runtime_explain(process, err);
}

static void try_sandbox(const struct doctor_view *view, const struct bwrap_probe *probe)
{
    char dir[] = "/tmp/agentfense-doctor-XXXXXX";
    struct err err = ERR_NONE;
    autofree char *found = NULL;
    int64_t begin_ns = clock_now_ns();
    int r;

    if (!mkdtemp(dir)) {
        doctor_report(view, "sandbox", DOCTOR_ESSENTIAL, DOCTOR_MISSING, "cannot make a directory in /tmp", "not tried",
                      "make /tmp writable");
        return;
    }
    chmod(dir, 0755);
    r = start_one(probe, dir, &err);
    rmdir(dir);
    if (r < 0) {
        doctor_report(view, "sandbox", DOCTOR_ESSENTIAL, DOCTOR_MISSING, err.text, "no sandbox can be started",
                      "see the findings above; the message names the step that failed");
        return;
    }
    found = xprintf("started and ended one in %lld ms", (long long) ((clock_now_ns() - begin_ns) / CLOCK_NS_PER_MS));
    doctor_report(view, "sandbox", DOCTOR_ESSENTIAL, DOCTOR_OK, found, NULL, NULL);
}

void doctor_check_bwrap(const struct doctor_view *view)
{
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    if (bwrap_probe(view->bwrap, &probe, &err) < 0) {
        doctor_report(view, "bubblewrap", DOCTOR_ESSENTIAL, DOCTOR_MISSING, err.text, "no sandbox without it",
                      "'apt install bubblewrap', 'dnf install bubblewrap', 'apk add bubblewrap'");
        return;
    }
    report_version(view, &probe);
    try_sandbox(view, &probe);
}

/* Makes and removes a cgroup with the available limits. */
static int try_cgroup(const struct cgroup_tree *tree, struct err *err)
{
    autoptr(cgroup) cgroup = NULL;
    struct runtime_limits limits = { 0 };
    char name[ID_TEXT_MAX];
    int r;

    limits.memory_bytes = cgroup_tree_find(tree, CGROUP_MEMORY, NULL) ? 64 << 20 : 0;
    limits.cpu_quota_us = cgroup_tree_find(tree, CGROUP_CPU, NULL) ? RUNTIME_CPU_PERIOD_US : 0;
    id_new("doctor_", name);
    r = cgroup_new(tree, name, &limits, cgroup_tree_find(tree, CGROUP_PIDS, NULL) ? 64 : 0, &cgroup, err);
    return r < 0 ? r : cgroup_remove(cgroup);
}

static void list_controllers(const struct cgroup_tree *tree, struct buf *has, struct buf *lacks)
{
    for (unsigned bit = 1; bit & CGROUP_ALL; bit <<= 1) {
        const char *reason = "";
        const struct cgroup_hierarchy *h = cgroup_tree_find(tree, bit, &reason);

        if (h)
            buf_addf(has, "%s%s (v%d)", has->len ? ", " : "", cgroup_controller_name(bit), h->version);
        else
            buf_addf(lacks, "%s%s: %s", lacks->len ? "; " : "", cgroup_controller_name(bit), reason);
    }
}

void doctor_check_cgroup(const struct doctor_view *view)
{
    autodone(buf) struct buf has = BUF_EMPTY, lacks = BUF_EMPTY, found = BUF_EMPTY;
    autoptr(cgroup_tree) tree = NULL;
    struct err err = ERR_NONE;

    if (cgroup_tree_new(NULL, &tree, &err) == 0) {
        list_controllers(tree, &has, &lacks);
        if (has.len && try_cgroup(tree, &err) < 0) {
            buf_addf(&lacks, "%s%s", lacks.len ? "; " : "", err.text);
            buf_clear(&has);
        }
    }
    buf_addf(&found, "%s%s%s%s", has.len ? "can limit: " : "no limits", has.len ? has.data : "", lacks.len ? "; not: " : "",
             lacks.len ? lacks.data : "");
    if (has.len && !lacks.len)
        doctor_report(view, "cgroups", DOCTOR_USEFUL, DOCTOR_OK, found.data, NULL, NULL);
    else
        doctor_report(
            view, "cgroups", DOCTOR_USEFUL, has.len ? DOCTOR_DEGRADED : DOCTOR_MISSING, found.data,
            "a sandbox that asks for such a limit is refused, and the default limit of memory does not hold (pids are "
            "limited all the same, by RLIMIT_NPROC)",
            "run as root, or in a cgroup that is yours: 'systemd-run --user --scope -p Delegate=yes agentfense ...'");
}
