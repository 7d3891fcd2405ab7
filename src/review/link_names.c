#include "review/link_names.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"

#define HOPS_MAX 40 /* as many links as the kernel follows */

struct searched_link {
    char *path;       /* owned; from root_path */
    bool is_followed; /* its whole target already needs acknowledgement */
};

struct link_search {
    const struct edit_list *edits;
    int root_fd, project_fd;     /* borrowed; owned, or -1 */
    char *root_path;             /* owned; the project's root if it is known, or the sandbox's */
    char *prefix;                /* owned; the prefix that makes its paths the project's: "" or with a trailing slash */
    struct searched_link *links; /* owned */
    size_t count, cap;
    struct link_names *names; /* borrowed; sorted */
    struct link_names found;  /* found in this round, used in the next */
};

static void link_search_done(struct link_search *search)
{
    link_names_done(&search->found);
    for (size_t i = 0; i < search->count; i++)
        free(search->links[i].path);
    free(search->links);
    free(search->root_path);
    free(search->prefix);
    cleanup_fd(&search->project_fd);
}

static char *lowercase_copy(const char *text)
{
    char *copy = xdup(text);

    for (char *c = copy; *c; c++)
        *c = (char) tolower((unsigned char) *c);
    return copy;
}

/* ---- finding links ---- */

static void add_link(struct link_search *search, const char *path)
{
    vec_room(&search->links, &search->cap, search->count);
    search->links[search->count++] = (struct searched_link){ .path = xdup(path) };
}

struct directory_queue {
    char **items; /* owned, like its elements: directories */
    size_t count, cap;
};

static void directory_queue_done(struct directory_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++)
        free(queue->items[i]);
    free(queue->items);
}

static void directory_queue_add(struct directory_queue *queue, const char *path)
{
    if (queue->count >= LINK_NAMES_DIRECTORIES)
        return;
    vec_room(&queue->items, &queue->cap, queue->count);
    queue->items[queue->count++] = xdup(path);
}

static unsigned char dirent_type(DIR *dir, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return S_ISLNK(st.st_mode) ? DT_LNK : S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
}

/* A directory that cannot be read for lack of a descriptor is an error, because a missed link would mean a missed question. */
static int list_directory(struct link_search *search, struct directory_queue *queue, const char *path)
{
    autodirectory dir = directory_take(path_open_beneath(search->root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0));

    if (!dir)
        return path_is_absent(-errno) || errno == EACCES || errno == ENAMETOOLONG ? 0 : -errno;
    for (const struct dirent *entry; (entry = directory_next(dir));) {
        unsigned char type = dirent_type(dir, entry);
        if (type != DT_LNK && type != DT_DIR)
            continue;
        if (type == DT_DIR && (strcasecmp(entry->d_name, ".git") == 0 || strcmp(entry->d_name, "node_modules") == 0))
            continue;
        autofree char *child = xprintf("%s%s%s", path, *path ? "/" : "", entry->d_name);
        if (type == DT_LNK)
            add_link(search, child);
        else
            directory_queue_add(queue, child);
    }
    return 0;
}

static int find_links(struct link_search *search)
{
    autodone(directory_queue) struct directory_queue queue = { 0 };
    int r = 0;

    for (size_t i = 0; i < search->edits->count; i++) {
        autofree char *path = xprintf("%s%s", search->names->scope, search->edits->items[i].path);
        if (S_ISLNK(search->edits->items[i].now))
            add_link(search, path);
    }
    directory_queue_add(&queue, "");
    for (size_t i = 0; r == 0 && i < queue.count; i++)
        r = list_directory(search, &queue, queue.items[i]);
    return r;
}

/* ---- resolving links ---- */

static void add_region(struct link_search *search, const char *target, const char *name, enum acknowledge reason)
{
    struct link_names *found = &search->found;

    vec_room(&found->regions, &found->cap, found->count);
    found->regions[found->count++] = (struct link_region){ lowercase_copy(target), name ? lowercase_copy(name) : NULL, reason };
}

/* Returns the target of a link, or NULL; with `is_changed` the changes take precedence over the base. */
static char *read_link(const struct link_search *search, const char *path, bool is_changed)
{
    char target[PATH_MAX];
    size_t scope_len = strlen(search->names->scope);
    bool is_in_scope = strncmp(path, search->names->scope, scope_len) == 0 && path[scope_len];
    autofd int fd = -1;
    ssize_t len;

    if (is_changed && is_in_scope)
        fd = path_open_beneath(search->edits->delta.data_fd, path + scope_len, O_PATH, 0);
    if (fd < 0)
        fd = path_open_beneath(search->root_fd, path, O_PATH, 0);
    if (fd < 0)
        return NULL;
    len = readlinkat(fd, "", target, sizeof(target)); /* ENOENT if it is not a link */
    return len <= 0 || len == sizeof(target) ? NULL : xdupn(target, (size_t) len);
}

/* Returns the part after root_path, NULL outside of it, "" for root_path itself. */
static const char *inside_root(const struct link_search *search, const struct buf *at)
{
    size_t len = strlen(search->root_path);

    if (len == 1)
        return at->data + 1;
    if (!path_is_beneath(search->root_path, at->data))
        return NULL;
    return at->data[len] ? at->data + len + 1 : "";
}

static void go_to_parent(struct buf *at)
{
    at->len = (size_t) (strrchr(at->data, '/') - at->data);
    at->len += at->len == 0; /* the slash of "/" stays */
    at->data[at->len] = '\0';
}

/*
 * Follows a link component by component, as the kernel would; outside of the project, where nothing changes, by the text
 * alone. Each link on the way is noted as well, because changing one of them changes the target of the first.
 */
static void follow_link(struct link_search *search, const char *path, bool is_changed, const char *name,
                        enum acknowledge reason)
{
    autodone(buf) struct buf at = BUF_EMPTY;
    autofree char *todo = xdup(path);
    const char *rest = todo, *inside;
    struct path_component c;
    int hops = 0;

    buf_add_str(&at, search->root_path);
    while (path_next_component(&rest, todo + strlen(todo), &c)) {
        if (path_component_is(&c, "."))
            continue;
        if (path_component_is(&c, "..")) {
            go_to_parent(&at);
            continue;
        }
        buf_addf(&at, "%s%.*s", at.len > 1 ? "/" : "", (int) c.len, c.name);
        inside = inside_root(search, &at);
        autofree char *target = inside && *inside ? read_link(search, inside, is_changed) : NULL;
        if (!target)
            continue;
        if (++hops > HOPS_MAX)
            return;
        if (hops > 1)
            add_region(search, inside, NULL, reason);
        go_to_parent(&at);
        if (*target == '/') {
            buf_clear(&at);
            buf_add_char(&at, '/');
        }
        char *next = xprintf("%s/%s", target, rest);
        free(todo);
        rest = todo = next;
    }
    inside = inside_root(search, &at);
    if (inside && hops > 0)
        add_region(search, inside, name, reason);
}

/* ---- judging names ---- */

static int by_target(const void *a, const void *b)
{
    const struct link_region *x = a, *y = b;
    int order = strcmp(x->target, y->target);

    /* Regions without a name come first. */
    return order ? order : strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

static void region_done(struct link_region *region)
{
    free(region->target);
    free(region->name);
}

static void take_found_regions(struct link_search *search)
{
    struct link_names *names = search->names, *found = &search->found;
    size_t kept = 0;

    for (size_t i = 0; i < found->count; i++) {
        vec_room(&names->regions, &names->cap, names->count);
        names->regions[names->count++] = found->regions[i];
    }
    found->count = 0;
    if (names->count > 0)
        qsort(names->regions, names->count, sizeof(*names->regions), by_target);
    for (size_t i = 0; i < names->count; i++) {
        if (kept > 0 && by_target(&names->regions[kept - 1], &names->regions[i]) == 0)
            region_done(&names->regions[i]);
        else
            names->regions[kept++] = names->regions[i];
    }
    names->count = kept;
}

/* Finds the first region with this target. */
static size_t find_target(const struct link_names *names, const char *target, size_t len)
{
    size_t low = 0, high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = names->regions[middle].target;
        int order = strncmp(other, target, len);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum acknowledge check_in_region(const struct link_names *names, const char *path, size_t len, bool is_link)
{
    bool is_all;

    for (size_t i = find_target(names, path, len); i < names->count; i++) {
        const struct link_region *region = &names->regions[i];
        if (strncmp(region->target, path, len) != 0 || region->target[len] != '\0')
            break;
        if (!region->name)
            return region->reason;
        autofree char *name = xprintf("%s/%s", region->name, path + len + (path[len] == '/'));
        enum acknowledge reason = acknowledge_file(name);
        if (reason == ACKNOWLEDGE_NOTHING && is_link)
            reason = acknowledge_directory(name, &is_all);
        if (reason != ACKNOWLEDGE_NOTHING)
            return reason;
    }
    return ACKNOWLEDGE_NOTHING;
}

static enum acknowledge check_path(const struct link_names *names, const char *exact, bool is_link)
{
    autofree char *path = names->count > 0 ? lowercase_copy(exact) : NULL;
    size_t len = path ? strlen(path) : 0;
    enum acknowledge reason = path ? check_in_region(names, path, len, is_link) : ACKNOWLEDGE_NOTHING;

    while (reason == ACKNOWLEDGE_NOTHING && len > 0) {
        do
            len--;
        while (len > 0 && path[len] != '/');
        reason = check_in_region(names, path, len, is_link);
    }
    return reason;
}

/* If a link's name matters only for some files beneath, only its last component is checked (acknowledge.h). */
static bool follow_named(struct link_search *search, struct searched_link *link, bool is_first)
{
    autofree char *path = xprintf("%s%s", search->prefix, link->path);
    const char *slash = strrchr(path, '/'), *name = NULL;
    enum acknowledge reason = acknowledge_file(path);
    bool is_all = true;

    if (reason == ACKNOWLEDGE_NOTHING && is_first)
        reason = acknowledge_directory(path, &is_all);
    if (reason == ACKNOWLEDGE_NOTHING)
        reason = check_path(search->names, link->path, true);
    if (reason == ACKNOWLEDGE_NOTHING)
        return false;
    if (!is_all)
        name = slash ? slash + 1 : path;
    link->is_followed = is_all;
    follow_link(search, link->path, false, name, reason);
    follow_link(search, link->path, true, name, reason);
    return true;
}

/* Repeats until nothing is new, because a link may lead to other links, which thereby get new names. */
static void follow_links(struct link_search *search)
{
    bool has_more = true;

    for (int round = 0; has_more && round <= HOPS_MAX; round++) {
        has_more = false;
        for (size_t i = 0; i < search->count; i++) {
            if (!search->links[i].is_followed && follow_named(search, &search->links[i], round == 0))
                has_more = true;
        }
        take_found_regions(search);
    }
}

/* The project's root is derived from the sandbox's, if that ends in the prefix. */
static int open_root(struct link_search *search, const char *prefix)
{
    const char *base = search->edits->delta.base_path;
    size_t len = strlen(base), prefix_len = strlen(prefix);
    bool is_below = prefix_len > 0 && len > prefix_len + 1 && strcmp(base + len - prefix_len, prefix) == 0 &&
                    base[len - prefix_len - 1] == '/';

    search->root_path = is_below ? xdupn(base, len - prefix_len - 1) : xdup(base);
    search->prefix = xprintf("%s%s", is_below ? "" : prefix, !is_below && prefix_len ? "/" : "");
    search->names->scope = xprintf("%s%s", is_below ? prefix : "", is_below ? "/" : "");
    search->root_fd = search->edits->base_fd;
    if (!is_below)
        return 0;
    search->project_fd = path_open_real(search->root_path, O_RDONLY | O_DIRECTORY);
    search->root_fd = search->project_fd;
    return search->project_fd < 0 ? search->project_fd : 0;
}

int link_names_load(const struct edit_list *edits, const char *prefix, struct link_names *ret, struct err *err)
{
    autodone(link_search) struct link_search search = { .edits = edits, .names = ret, .root_fd = -1, .project_fd = -1 };
    int r;

    *ret = LINK_NAMES_EMPTY;
    if (edits->count == 0)
        return 0;
    r = open_root(&search, prefix);
    if (r == 0)
        r = find_links(&search);
    if (r < 0)
        return err_errno(err, r, "looking for links in '%s'", search.root_path);
    follow_links(&search);
    return 0;
}

void link_names_done(struct link_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        region_done(&names->regions[i]);
    free(names->regions);
    free(names->scope);
    *names = LINK_NAMES_EMPTY;
}

enum acknowledge link_names_check(const struct link_names *names, const char *scope_path, bool is_link)
{
    autofree char *path = names->count > 0 ? xprintf("%s%s", names->scope, scope_path) : NULL;

    return path ? check_path(names, path, is_link) : ACKNOWLEDGE_NOTHING;
}
