#include "service/sandbox_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "service/service_int.h"

#define PREFERENCE "workspace-driver" /* in the state directory */
#define BWRAP "/usr/bin/bwrap"
#define BWRAP_MS 2000
#define FRESH_NS (60 * CLOCK_NS_PER_SEC)

void sandbox_driver_try(struct service *service, const char *name, struct driver_trial *ret)
{
    struct sandbox_drivers *drivers = &service->sandbox_drivers;
    int64_t now = clock_now_ns();

    pthread_mutex_lock(&drivers->lock);
    if (!drivers->tried_ns || now - drivers->tried_ns > FRESH_NS) {
        driver_trial_run(service->state_dir.path, drivers->trials);
        drivers->tried_ns = now;
    }
    *ret = drivers->trials[driver_trial_index(name)];
    pthread_mutex_unlock(&drivers->lock);
}

static const char *find(const char *name)
{
    int i = driver_trial_index(name);

    return i < 0 ? NULL : driver_trial_names[i];
}

/* The reason also says why the drivers before it do not work. */
static const char *choose_working(struct service *service, char ret_reason[DRIVER_TRIAL_REASON_MAX])
{
    char passed[DRIVER_TRIAL_REASON_MAX] = "";
    size_t len = 0;

    for (const char *const *at = driver_trial_names; *at; at++) {
        struct driver_trial trial;

        sandbox_driver_try(service, *at, &trial);
        if (trial.works) {
            snprintf(ret_reason, DRIVER_TRIAL_REASON_MAX, "auto: %.120s%.*s", trial.reason, (int) len, passed);
            return *at;
        }
        if (len < sizeof(passed) - 1)
            len += (size_t) snprintf(passed + len, sizeof(passed) - len, "; not %s: %.80s", *at, trial.reason);
        if (len > sizeof(passed) - 1)
            len = sizeof(passed) - 1;
    }
    snprintf(ret_reason, DRIVER_TRIAL_REASON_MAX, "auto: none works%.*s", (int) len, passed);
    return SANDBOX_DRIVER;
}

const char *sandbox_driver_choose(struct service *service, const char *wanted, char ret_reason[DRIVER_TRIAL_REASON_MAX])
{
    char preferred[SANDBOX_DRIVER_MAX], unasked[DRIVER_TRIAL_REASON_MAX];
    char *reason = ret_reason ? ret_reason : unasked;

    sandbox_driver_preferred(service, preferred);
    snprintf(reason, DRIVER_TRIAL_REASON_MAX, "%s", *wanted ? "asked for" : "preferred by this server");
    if (!*wanted)
        wanted = preferred;
    return strcmp(wanted, "auto") == 0 ? choose_working(service, reason) : find(wanted);
}

const char *sandbox_driver_describe(const char *name)
{
    if (strcmp(name, "overlayfs") == 0)
        return "overlayfs of the kernel; checks nothing, so for sandboxes whose rules forbid nothing";
    if (strcmp(name, "copy") == 0)
        return "a copy of the directory; checks nothing, and works anywhere";
    return "FUSE overlay that checks each file operation against rules";
}

int sandbox_driver_prefer(struct service *service, const struct caller *caller, const char *name, struct err *err)
{
    int r;

    if (!caller->is_admin)
        return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "only administrators choose the driver of others' sandboxes");
    if (!find(name) && strcmp(name, "auto") != 0)
        return err_reject(err, -EINVAL, name, "is no driver that this server has");
    r = file_replace(service->state_dir.fd, PREFERENCE, name, strlen(name), 0600);
    return r < 0 ? err_errno(err, r, "keeping the preferred driver") : 0;
}

void sandbox_driver_preferred(struct service *service, char ret[SANDBOX_DRIVER_MAX])
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(service->state_dir.fd, PREFERENCE, SANDBOX_DRIVER_MAX - 1, &text);
    bool is_one = r == 0 && text.data && (find(text.data) || strcmp(text.data, "auto") == 0);

    memcpy(ret, SANDBOX_DRIVER, sizeof(SANDBOX_DRIVER));
    if (is_one)
        memcpy(ret, text.data, text.len + 1);
}

/* ---- bubblewrap ---- */

bool sandbox_driver_has_bwrap(void)
{
    return access(BWRAP, X_OK) == 0;
}

/* "0" turns them off; a kernel without the file has no such switch. */
static bool kernel_allows_user_namespaces(void)
{
    autofd int fd = open("/proc/sys/kernel/unprivileged_userns_clone", O_RDONLY | O_CLOEXEC);
    char c = '1';

    if (fd >= 0)
        (void) !read(fd, &c, 1);
    return c != '0';
}

void sandbox_driver_look_at_bwrap(struct service *service, struct driver_bwrap *ret)
{
    static const char *const argv[] = { BWRAP, "--version", NULL };
    autodone(buf) struct buf text = BUF_EMPTY;
    struct driver_trial trial;
    int status;

    *ret = (struct driver_bwrap){ .path = sandbox_driver_has_bwrap() ? BWRAP : "",
                                  .allows_user_namespaces = kernel_allows_user_namespaces() };
    sandbox_driver_try(service, "overlayfs", &trial);
    ret->overlayfs_works = trial.works;
    /* The output is "bubblewrap 0.8.0". */
    if (*ret->path && proc_run(&(struct proc_spec){ .argv = argv }, BWRAP_MS, &text, &status, NULL) >= 0 && status == 0 &&
        text.data)
        sscanf(text.data, "%*s %31s", ret->version);
}
