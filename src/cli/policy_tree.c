#include "cli/policy_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

struct walk {
    struct policy_tree *tree;
    struct ruleset *rules;
    struct match_state *places[FILE_WALK_DEPTH_MAX + 2]; /* owned; index is the depth, [0] the root */
};

static int on_entry(const struct file_entry *entry, void *cookie)
{
    struct walk *walk = cookie;
    struct policy_tree *tree = walk->tree;
    struct match_state *at = ruleset_step(walk->rules, walk->places[entry->depth - 1], entry->name, strlen(entry->name));
    bool is_dir = S_ISDIR(entry->st->st_mode);

    match_state_unref(walk->places[entry->depth]);
    walk->places[entry->depth] = at;
    vec_room(&tree->entries, &tree->cap, tree->count);
    tree->entries[tree->count++] =
        (struct policy_tree_entry){ .path = xprintf("/%s", entry->path), .level = match_state_level(at), .is_dir = is_dir };
    return FILE_WALK_ON;
}

/* Compares by components, not by bytes: "/a/b" comes before "/a.b". */
static int cmp_entries(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *) ((const struct policy_tree_entry *) a)->path;
    const unsigned char *y = (const unsigned char *) ((const struct policy_tree_entry *) b)->path;

    while (*x && *x == *y)
        x++, y++;
    int p = *x == '/' ? 1 : *x ? *x + 1 : 0, q = *y == '/' ? 1 : *y ? *y + 1 : 0;
    return p - q;
}

/* In this order the contents of a directory follow it directly. So going backwards, each visible entry marks the hidden directories above it as
 * passages. */
static void find_passages(struct policy_tree *tree)
{
    const char *visible = NULL; /* the visible entry that was passed last */

    for (size_t i = tree->count; i-- > 0;) {
        struct policy_tree_entry *entry = &tree->entries[i];
        size_t len = strlen(entry->path);
        if (entry->level != LEVEL_NONE)
            visible = entry->path;
        else if (entry->is_dir && visible && strncmp(visible, entry->path, len) == 0 && visible[len] == '/')
            entry->is_passage = true;
    }
}

static void sort(struct policy_tree *tree)
{
    if (tree->count > 0)
        qsort(tree->entries, tree->count, sizeof(*tree->entries), cmp_entries);
}

const struct policy_tree_entry *policy_tree_find(const struct policy_tree *tree, const char *path)
{
    struct policy_tree_entry key = { .path = (char *) path };

    if (tree->count == 0)
        return NULL;
    return bsearch(&key, tree->entries, tree->count, sizeof(*tree->entries), cmp_entries);
}

/* Adds the directories above it as well, because a start creates those too. */
static int add_writable_root(const char *path, void *cookie)
{
    struct walk *walk = cookie;
    struct policy_tree *tree = walk->tree;
    size_t len = strlen(path);

    for (size_t end = 1; end <= len; end++) {
        if (path[end] != '/' && path[end] != '\0')
            continue;
        autofree char *dir = xdupn(path, end);
        if (policy_tree_find(tree, dir))
            continue;
        enum level level = ruleset_level_of(walk->rules, dir);
        vec_room(&tree->entries, &tree->cap, tree->count);
        tree->entries[tree->count++] = (struct policy_tree_entry){ steal_ptr(&dir), level, true, false, true };
        sort(tree);
    }
    return 0;
}

static int open_dir(const char *dir, int *ret_fd, struct err *err)
{
    *ret_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0)
        return err_errno(err, -errno, "directory '%s'", dir);
    return 0;
}

int policy_tree_init(struct policy_tree *tree, const char *dir, struct ruleset *rules, struct err *err)
{
    struct walk walk = { .tree = tree, .rules = rules };
    autofd int fd = -1;
    int r;

    *tree = (struct policy_tree){ 0 };
    r = open_dir(dir, &fd, err);
    if (r < 0)
        return r;
    walk.places[0] = match_state_ref(ruleset_root(rules));
    r = file_walk(fd, ".", on_entry, &walk, err);
    for (size_t i = 0; i < ARRAY_LEN(walk.places); i++)
        match_state_unref(walk.places[i]);
    if (r < 0) {
        policy_tree_done(tree);
        return err_wrap(err, r, "reading '%s'", dir);
    }
    sort(tree);
    ruleset_each_writable_root(rules, add_writable_root, &walk);
    find_passages(tree);
    return 0;
}

void policy_tree_done(struct policy_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->entries[i].path);
    free(tree->entries);
    *tree = (struct policy_tree){ 0 };
}

int policy_tree_has_workspace(const char *dir, bool *ret_has, struct err *err)
{
    autofd int fd = -1;
    struct stat st;
    int r = open_dir(dir, &fd, err);

    if (r < 0)
        return r;
    *ret_has = fstatat(fd, "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return 0;
}
