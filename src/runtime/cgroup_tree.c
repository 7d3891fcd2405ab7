#include "runtime/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/cgroup.h"
#include "runtime/identity.h"

#define FILE_MAX_BYTES (1 << 20)

static const struct {
    const char *name;
    unsigned bit;
} controllers[] = {
    { "memory", CGROUP_MEMORY },
    { "cpu", CGROUP_CPU },
    { "pids", CGROUP_PIDS },
    { "freezer", CGROUP_FREEZER },
};

const char *cgroup_controller_name(unsigned controller)
{
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
        if (controllers[i].bit == controller)
            return controllers[i].name;
    return "cgroup";
}

/* Returns which of our controllers a list names; any of `separators` divides it. */
static unsigned controllers_of(const char *list, const char *separators)
{
    unsigned bits = 0;

    while (*list) {
        size_t len = strcspn(list, separators);

        for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
            if (strlen(controllers[i].name) == len && strncmp(list, controllers[i].name, len) == 0)
                bits |= controllers[i].bit;
        list += len + (list[len] != '\0');
    }
    return bits;
}

int cgroup_write_file(bool is_fake, const char *dir, const char *name, const char *text)
{
    autofree char *path = xprintf("%s/%s", dir, name);
    autofd int fd = open(path, O_WRONLY | O_CLOEXEC | (is_fake ? O_CREAT | O_TRUNC : 0), 0644);

    if (fd < 0)
        return -errno;
    return fd_write_full(fd, text, strlen(text));
}

/* Finds our path in the hierarchy with this controller, in lines like "4:cpu,cpuacct:/path". 0 means v2's. */
static char *own_path(const char *self, unsigned wanted)
{
    for (const char *line = self; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path)
            break;
        autofree char *names = xdupn(list + 1, (size_t) (path - list - 1));
        if (wanted == 0 ? *names == '\0' : (controllers_of(names, ",") & wanted) != 0)
            return xdupn(path + 1, strcspn(path + 1, "\n"));
    }
    return NULL;
}

/* Returns our cgroup's directory in the hierarchy's mount. In a container only the part below `mount_root` may be mounted. */
static char *own_directory(const char *mount, const char *mount_root, const char *path)
{
    size_t len = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

    if (!path || strncmp(path, "/..", 3) == 0 || (len && !path_is_beneath(mount_root, path)))
        return xdup(mount);
    path += len;
    return strcmp(path, "/") == 0 || *path == '\0' ? xdup(mount) : xprintf("%s%s", mount, path);
}

/* We may have been moved to the leaf by an earlier supervisor. */
static void leave_leaf(char *dir)
{
    char *slash = strrchr(dir, '/');

    if (slash && strcmp(slash + 1, CGROUP_LEAF) == 0)
        *slash = '\0';
}

/* systemd marks a delegated cgroup. An ordinary user can write to one only if it was delegated. */
static bool is_ours_to_divide(const char *own, const char *mount, bool as_root)
{
    char value[2];

    if (strcmp(own, mount) == 0 || !as_root)
        return true;
    return getxattr(own, "trusted.delegate", value, sizeof(value)) > 0 ||
           getxattr(own, "user.delegate", value, sizeof(value)) > 0;
}

static void add_hierarchy(struct cgroup_tree *tree, int version, unsigned bits, char *base, bool is_own)
{
    struct cgroup_hierarchy *h;

    vec_room(&tree->items, &tree->cap, tree->count);
    h = &tree->items[tree->count++];
    *h = (struct cgroup_hierarchy){ .version = version, .controllers = bits, .base = base, .is_own = is_own };
    h->parent = xprintf("%s/" CGROUP_DIR, base);
    /* The parent may exist already, and be writable although its base is not. */
    h->writable = access(base, W_OK) == 0 || access(h->parent, W_OK) == 0;
}

static void add_v1(struct cgroup_tree *tree, const char *mount, const char *mount_root, const char *options, const char *self)
{
    unsigned bits = controllers_of(options, ",");
    autofree char *path = NULL;

    if (bits == 0)
        return;
    path = own_path(self, bits);
    add_hierarchy(tree, 1, bits, own_directory(mount, mount_root, path), true);
}

static void add_v2(struct cgroup_tree *tree, const char *mount, const char *mount_root, const char *self, bool as_root)
{
    autofree char *path = own_path(self, 0), *own = own_directory(mount, mount_root, path), *list = NULL;
    autodone(buf) struct buf text = BUF_EMPTY;
    bool is_own;

    leave_leaf(own);
    is_own = is_ours_to_divide(own, mount, as_root);
    list = xprintf("%s/cgroup.controllers", is_own ? own : mount);
    file_read_kernel(list, FILE_MAX_BYTES, &text);
    add_hierarchy(tree, 2, controllers_of(text.data ? text.data : "", " \n") | CGROUP_FREEZER, xdup(is_own ? own : mount),
                  is_own);
}

/* Parses "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory". */
static void read_mount(struct cgroup_tree *tree, const char *line, const char *self, bool as_root)
{
    char mount_root[PATH_MAX], mount[PATH_MAX], type[32], options[512];
    const char *dash = strstr(line, " - ");

    if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", mount_root, mount) != 2 ||
        sscanf(dash, " - %31s %*s %511s", type, options) != 2)
        return;
    if (strcmp(type, "cgroup") == 0)
        add_v1(tree, mount, mount_root, options, self);
    else if (strcmp(type, "cgroup2") == 0)
        add_v2(tree, mount, mount_root, self, as_root);
}

int cgroup_tree_new(const struct cgroup_sources *sources, struct cgroup_tree **ret, struct err *err)
{
    const struct cgroup_sources real = { "/proc/self/mountinfo", "/proc/self/cgroup", identity_is_host_root(), false };
    autodone(buf) struct buf mounts = BUF_EMPTY, self = BUF_EMPTY;
    autoptr(cgroup_tree) tree = xnew(struct cgroup_tree);
    char *save, *line;
    int r;

    sources = sources ? sources : &real;
    tree->is_fake = sources->is_fake;
    if ((r = file_read_kernel(sources->mountinfo, FILE_MAX_BYTES, &mounts)) < 0 ||
        (r = file_read_kernel(sources->self, FILE_MAX_BYTES, &self)) < 0)
        return err_errno(err, r, "looking for cgroups");
    for (line = mounts.data ? strtok_r(mounts.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
        read_mount(tree, line, self.data ? self.data : "", sources->as_root);
    *ret = steal_ptr(&tree);
    return 0;
}

void cgroup_tree_free(struct cgroup_tree *tree)
{
    if (!tree)
        return;
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->items[i].base);
        free(tree->items[i].parent);
    }
    free(tree->items);
    free(tree);
}

const struct cgroup_hierarchy *cgroup_tree_find(const struct cgroup_tree *tree, unsigned controller, const char **ret_reason)
{
    const char *reason = tree->count ? "the kernel or whoever set up the cgroups offers no such controller here"
                                     : "no cgroup file system is mounted";

    for (size_t i = 0; i < tree->count; i++) {
        if (!(tree->items[i].controllers & controller))
            continue;
        if (tree->items[i].writable)
            return &tree->items[i];
        reason = tree->items[i].version == 2
                     ? "no cgroup is delegated to this user; run under 'systemd-run --user --scope -p Delegate=yes' or as root"
                     : "only root can make cgroups of version 1";
    }
    if (ret_reason)
        *ret_reason = reason;
    return NULL;
}

/* Moves the processes of a v2 cgroup to a leaf beside ours. The next round catches those forked meanwhile. */
int cgroup_tree_evacuate(const struct cgroup_tree *tree, const char *base)
{
    autofree char *leaf = xprintf("%s/" CGROUP_LEAF, base), *procs = xprintf("%s/cgroup.procs", base);
    int r = 0;

    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return -errno;
    for (int round = 0; round < 10; round++) {
        autodone(buf) struct buf pids = BUF_EMPTY;
        char *save, *pid;

        if ((r = file_read_kernel(procs, FILE_MAX_BYTES, &pids)) < 0 || pids.len == 0)
            return r;
        for (pid = strtok_r(pids.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
            if ((r = cgroup_write_file(tree->is_fake, leaf, "cgroup.procs", pid)) < 0 && r != -ESRCH)
                return r;
    }
    return -EBUSY;
}

static int enable_controllers(const struct cgroup_tree *tree, unsigned bits, const char *dir, bool may_evacuate)
{
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        autofree char *text = xprintf("+%s", controllers[i].name);
        int r;

        if (!(bits & controllers[i].bit) || controllers[i].bit == CGROUP_FREEZER)
            continue;
        r = cgroup_write_file(tree->is_fake, dir, "cgroup.subtree_control", text);
        if (r == -EBUSY && may_evacuate && (r = cgroup_tree_evacuate(tree, dir)) == 0)
            r = cgroup_write_file(tree->is_fake, dir, "cgroup.subtree_control", text);
        if (r < 0)
            return r;
    }
    return 0;
}

int cgroup_tree_prepare(const struct cgroup_tree *tree, const struct cgroup_hierarchy *hierarchy, struct err *err)
{
    int r = 0;

    if (mkdir(hierarchy->parent, 0755) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0 && hierarchy->version == 2)
        r = enable_controllers(tree, hierarchy->controllers, hierarchy->base, hierarchy->is_own);
    if (r == 0 && hierarchy->version == 2)
        r = enable_controllers(tree, hierarchy->controllers, hierarchy->parent, false);
    return r < 0 ? err_errno(err, r, "preparing the cgroup '%s'", hierarchy->parent) : 0;
}

/* Adds the matching names in a hierarchy's parent directory. */
static void cgroup_tree_collect_names(const struct cgroup_hierarchy *hierarchy, const char *prefix, struct buf *names)
{
    DIR *dir = opendir(hierarchy->parent);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            buf_add(names, entry->d_name, strlen(entry->d_name) + 1);
    if (dir)
        closedir(dir);
}

int cgroup_tree_sweep(const struct cgroup_tree *tree, const char *prefix, cgroup_keep_fn keep, void *cookie)
{
    autodone(buf) struct buf names = BUF_EMPTY;
    int count = 0;

    for (size_t i = 0; i < tree->count; i++)
        cgroup_tree_collect_names(&tree->items[i], prefix, &names);
    /* A name from several hierarchies is removed from all of them the first time, and so counted once. */
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
        const char *name = names.data + at;
        autoptr(cgroup) left = NULL;

        if ((keep && keep(name, cookie)) || cgroup_find(tree, name, &left) < 0)
            continue;
        cgroup_kill(left);
        count += cgroup_remove(left) == 0;
    }
    return count;
}
