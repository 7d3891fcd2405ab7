/* By what a workspace's changes are kept apart from its directory. There is one such driver; a workspace names its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/ws_handlers.h"
#include "api/ws_json.h"
#include "base/mem.h"
#include "service/workspaces.h"

#define DESCRIPTION "FUSE overlay that checks each file operation against rules"
#define BWRAP "/usr/bin/bwrap"

static bool has_fuse(void)
{
    return access("/dev/fuse", R_OK | W_OK) == 0;
}

static bool has_bwrap(void)
{
    return access(BWRAP, X_OK) == 0;
}

static json_t *info(void)
{
    /* The capitalised keys are those that older clients read. */
    bool ok = has_fuse();

    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:b}", "Type", WORKSPACE_DRIVER, "Version", AGENTFENSE_VERSION,
                     "Description", DESCRIPTION, "Available", ok, "type", WORKSPACE_DRIVER, "version", AGENTFENSE_VERSION,
                     "description", DESCRIPTION, "available", ok);
}

int ws_driver_info(struct ws *ws, struct err *err)
{
    json_t *answer = json_pack("{s:o, s:b}", "driver", info(), "available", has_fuse());

    (void) err;
    if (!has_fuse())
        json_object_set_new(answer, "error", json_string("/dev/fuse cannot be opened"));
    return ws_answer(ws, 200, answer);
}

static json_t *requirement(const char *name, bool is_met, const char *fix)
{
    json_t *one = json_pack("{s:s, s:b}", "name", name, "met", is_met);

    if (!is_met)
        json_object_set_new(one, "howToFix", json_string(fix));
    return one;
}

int ws_driver_options(struct ws *ws, struct err *err)
{
    struct utsname host = { 0 };
    (void) err;

    uname(&host);
    json_t *fence =
        json_pack("{s:s, s:s, s:s, s:b, s:{s:b, s:b, s:b, s:b}, s:[o, o], s:b, s:b}", "id", WORKSPACE_DRIVER, "name", "Fence",
                  "description", DESCRIPTION, "directAccess", 0, "capabilities", "filesystemIsolation", 1, "processIsolation",
                  1, "networkIsolation", 1, "directAccess", 0, "requirements",
                  requirement("/dev/fuse", has_fuse(), "load the module fuse, and let the server open /dev/fuse"),
                  requirement("bubblewrap", has_bwrap(), "install the package bubblewrap"), "available",
                  has_fuse() && has_bwrap(), "recommended", 1);
    return ws_answer(ws, 200,
                     json_pack("{s:s, s:s, s:s, s:b, s:[o]}", "os", "linux", "kernel", host.release, "currentDriver",
                               WORKSPACE_DRIVER, "inUserNamespace", geteuid() != 0, "options", fence));
}

int ws_driver_select(struct ws *ws, struct err *err)
{
    const char *id = "";
    int r = ws_get_text(ws->body, "driverId", 64, &id, err);

    if (r < 0)
        return r;
    if (strcmp(id, WORKSPACE_DRIVER) != 0) {
        ws_hint(ws, "this server has the driver '%s'", WORKSPACE_DRIVER);
        return err_refuse(err, -EINVAL, id, "is no driver that this server has");
    }
    return ws_answer(ws, 200,
                     json_pack("{s:b, s:s, s:b, s:s}", "success", 1, "selectedDriver", WORKSPACE_DRIVER, "requiresRestart", 0,
                               "message", "new sandboxes use it; those that are there keep theirs"));
}

int ws_driver_preference(struct ws *ws, struct err *err)
{
    (void) err;
    return ws_answer(
        ws, 200,
        json_pack("{s:s, s:s, s:b}", "preference", WORKSPACE_DRIVER, "currentDriver", WORKSPACE_DRIVER, "isActive", 1));
}

/* "0" turns it off; without the file the kernel has no such switch. */
static bool allows_user_namespaces(void)
{
    int fd = open("/proc/sys/kernel/unprivileged_userns_clone", O_RDONLY | O_CLOEXEC);
    char c = '1';

    if (fd >= 0) {
        (void) !read(fd, &c, 1);
        close(fd);
    }
    return c != '0';
}

int ws_driver_bwrap(struct ws *ws, struct err *err)
{
    json_t *answer = json_pack("{s:b, s:b, s:b}", "available", has_bwrap(), "userNamespaceEnabled", allows_user_namespaces(),
                               "overlayfsInUserNS", 0);

    (void) err;
    if (has_bwrap())
        json_object_set_new(answer, "path", json_string(BWRAP));
    else
        json_object_set_new(answer, "error", json_string("bubblewrap is not installed"));
    return ws_answer(ws, 200, answer);
}
