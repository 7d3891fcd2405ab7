/* The drivers, which keep the changes of a sandbox apart from its directory. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/compat_workspace.h"
#include "service/sandbox_care.h"

static json_t *make_driver_info(const char *driver, const struct driver_trial *trial, const char *reason)
{
    /* Older clients read the capitalised keys. */
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:b, s:s, s:s}", "Type", driver, "Version", AGENTFENSE_VERSION,
                     "Description", sandbox_driver_describe(driver), "Available", trial->works, "type", driver, "version",
                     AGENTFENSE_VERSION, "description", sandbox_driver_describe(driver), "available", trial->works, "trial",
                     trial->reason, "reason", reason);
}

int compat_driver_info(struct ws *ws, struct err *err)
{
    char reason[DRIVER_TRIAL_REASON_MAX];
    const char *driver = sandbox_driver_choose(ws->service, "", reason);
    struct driver_trial trial;
    json_t *answer;

    (void) err;
    sandbox_driver_try(ws->service, driver, &trial);
    answer = json_pack("{s:o, s:b}", "driver", make_driver_info(driver, &trial, reason), "available", trial.works);
    if (!trial.works)
        json_object_set_new(answer, "error",
                            json_sprintf("this host lacks what it needs: %s; see driver/options", trial.reason));
    return compat_answer(ws, 200, answer);
}

static json_t *make_driver_requirement(const char *name, bool is_met, const char *fix)
{
    json_t *one = json_pack("{s:s, s:b}", "name", name, "met", is_met);

    if (!is_met)
        json_object_set_new(one, "howToFix", json_string(fix));
    return one;
}

static json_t *make_driver_option(struct ws *ws, const char *driver)
{
    struct driver_trial trial;
    bool works, is_fence = strcmp(driver, SANDBOX_DRIVER) == 0;

    sandbox_driver_try(ws->service, driver, &trial);
    works = trial.works;
    json_t *needs =
        json_pack("[o]", make_driver_requirement("bubblewrap", sandbox_driver_has_bwrap(), "install the package bubblewrap"));

    if (is_fence)
        json_array_insert_new(
            needs, 0, make_driver_requirement("/dev/fuse", works, "load the module fuse, and let the server open /dev/fuse"));
    else if (strcmp(driver, "overlayfs") == 0)
        json_array_insert_new(needs, 0, make_driver_requirement("overlayfs", works, "load the module overlay"));
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:b, s:b, s:b, s:b, s:b}, s:o, s:b, s:b, s:s}", "id", driver, "name",
                     is_fence ? "Fence" : driver, "description", sandbox_driver_describe(driver), "directAccess", 0,
                     "capabilities", "filesystemIsolation", 1, "processIsolation", 1, "networkIsolation", 1, "directAccess", 0,
                     "rules", is_fence, "requirements", needs, "available", works && sandbox_driver_has_bwrap(), "recommended",
                     is_fence, "trial", trial.reason);
}

int compat_driver_options(struct ws *ws, struct err *err)
{
    struct utsname host = { 0 };
    json_t *options = json_array();
    (void) err;

    uname(&host);
    for (const char *const *at = driver_trial_names; *at; at++)
        json_array_append_new(options, make_driver_option(ws, *at));
    return compat_answer(ws, 200,
                         json_pack("{s:s, s:s, s:s, s:b, s:o}", "os", "linux", "kernel", host.release, "currentDriver",
                                   sandbox_driver_choose(ws->service, "", NULL), "inUserNamespace", geteuid() != 0, "options",
                                   options));
}

int compat_driver_select(struct ws *ws, struct err *err)
{
    const char *id = "";
    int r = compat_get_text(ws->body, "driverId", 64, &id, err);

    if (r == 0)
        r = sandbox_driver_prefer(ws->service, &ws->caller, id, err);
    if (r < 0) {
        compat_hint(ws, "there are fence, overlayfs, copy, auto; each sandbox can also name its own");
        return r;
    }
    return compat_answer(ws, 200,
                         json_pack("{s:b, s:s, s:b, s:s}", "success", 1, "selectedDriver",
                                   sandbox_driver_choose(ws->service, "", NULL), "requiresRestart", 0, "message",
                                   "new sandboxes use it; those that are there keep theirs"));
}

int compat_driver_preference(struct ws *ws, struct err *err)
{
    char preferred[SANDBOX_DRIVER_MAX];
    (void) err;

    sandbox_driver_preferred(ws->service, preferred);
    return compat_answer(ws, 200,
                         json_pack("{s:s, s:s, s:b}", "preference", preferred, "currentDriver",
                                   sandbox_driver_choose(ws->service, "", NULL), "isActive", 1));
}

int compat_driver_bwrap(struct ws *ws, struct err *err)
{
    struct driver_bwrap bwrap;
    json_t *answer;

    (void) err;
    sandbox_driver_look_at_bwrap(ws->service, &bwrap);
    answer = json_pack("{s:b, s:b, s:b}", "available", *bwrap.path != '\0', "userNamespaceEnabled",
                       bwrap.allows_user_namespaces, "overlayfsInUserNS", bwrap.overlayfs_works);
    compat_set_text(answer, "path", bwrap.path);
    compat_set_text(answer, "version", bwrap.version);
    if (!*bwrap.path)
        json_object_set_new(answer, "error", json_string("bubblewrap is not installed"));
    return compat_answer(ws, 200, answer);
}
