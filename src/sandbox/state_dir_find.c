/* Finds the sandbox that a word identifies. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/sandbox_id.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/state_dir_int.h"

#define SHOWN_MAX 8

void state_dir_show_name(const struct state_dir *state_dir, const char *id, const struct sandbox_spec *spec,
                         char ret_name[SANDBOX_NAME_MAX])
{
    if (spec && *spec->name)
        memcpy(ret_name, spec->name, strlen(spec->name) + 1);
    else if (spec || sandbox_names_find_id(state_dir, "", id, ret_name) < 0)
        memcpy(ret_name, id, strlen(id) + 1);
}

static int refuse_missing(const char *word, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", word);
}

static bool exists(const struct state_dir *state_dir, const char *id)
{
    struct stat st;

    return fstatat(state_dir->sandboxes_fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The matches, as the error shows them to a user who must be more specific. */
struct matches {
    char (*items)[SANDBOX_NAME_MAX]; /* owned */
    size_t count, cap;
};

struct search {
    const struct state_dir *state_dir;
    const char *word;
    char id[SANDBOX_NAME_MAX];        /* of the last match; a match by name comes before a match by a beginning */
    struct matches called, beginning; /* ids of sandboxes with this name; names or ids that begin with the word */
};

static void add_match(struct matches *matches, const char *text)
{
    vec_room(&matches->items, &matches->cap, matches->count);
    snprintf(matches->items[matches->count++], SANDBOX_NAME_MAX, "%s", text);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int refuse_ambiguous(const char *word, struct matches *matches, const char *how, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    qsort(matches->items, matches->count, sizeof(*matches->items), compare_texts);
    for (size_t i = 0; i < matches->count && i < SHOWN_MAX; i++)
        buf_addf(&shown, "%s%s", i > 0 ? ", " : "", matches->items[i]);
    if (matches->count > SHOWN_MAX)
        buf_addf(&shown, " and %zu more", matches->count - SHOWN_MAX);
    return err_invalid(err, "several sandboxes %s '%s': %s; say more of the name, or the id", how, word, shown.data);
}

static int match(const char *id, int dir_fd, void *cookie)
{
    struct search *search = cookie;
    size_t len = strlen(search->word);
    autoptr(sandbox_spec) spec = NULL;
    struct err ignored = ERR_NONE;
    char name[SANDBOX_NAME_MAX];
    bool is_called;

    if (dir_fd >= 0)
        sandbox_spec_load(dir_fd, &spec, &ignored);
    state_dir_show_name(search->state_dir, id, spec, name);
    is_called = strcmp(name, search->word) == 0;
    if (is_called)
        add_match(&search->called, id);
    else if (strncmp(name, search->word, len) == 0)
        add_match(&search->beginning, name);
    else if (len > strlen(SANDBOX_ID_PREFIX) && strncmp(id, search->word, len) == 0)
        add_match(&search->beginning, id);
    else
        return 0;
    if (is_called || search->called.count == 0)
        memcpy(search->id, id, strlen(id) + 1);
    return 0;
}

/* Looks at every sandbox: for a beginning, and for a name whose claim was lost in a power failure. */
static int search_all(const struct state_dir *state_dir, const char *word, char ret_id[SANDBOX_NAME_MAX], struct err *err)
{
    struct search search = { .state_dir = state_dir, .word = word };
    int r = state_dir_each_name(state_dir, match, &search, err);

    if (r == 0 && search.called.count > 1)
        r = refuse_ambiguous(word, &search.called, "are called", err);
    else if (r == 0 && search.called.count == 0 && search.beginning.count > 1)
        r = refuse_ambiguous(word, &search.beginning, "begin with", err);
    else if (r == 0 && search.called.count + search.beginning.count == 0)
        r = refuse_missing(word, err);
    if (r == 0)
        memcpy(ret_id, search.id, sizeof(search.id));
    free(search.called.items);
    free(search.beginning.items);
    return r;
}

static int find_id(const struct state_dir *state_dir, const char *word, char ret_id[SANDBOX_NAME_MAX], struct err *err)
{
    char id[SANDBOX_ID_MAX];

    if (exists(state_dir, word)) {
        memcpy(ret_id, word, strlen(word) + 1);
        return 0;
    }
    if (sandbox_id_is_valid(word))
        return refuse_missing(word, err);
    if (sandbox_names_find(state_dir, "", word, id) == 0 || (sandbox_id_parse(word, id) == 0 && exists(state_dir, id))) {
        memcpy(ret_id, id, strlen(id) + 1);
        return 0;
    }
    return search_all(state_dir, word, ret_id, err);
}

static int open_found(const struct state_dir *state_dir, const char *id, int *ret_dir_fd, struct err *err)
{
    int fd = state_dir_open_sandbox(state_dir, id);

    if (fd < 0)
        return err_errno(err, fd, "opening sandbox '%s'", id);
    *ret_dir_fd = fd;
    return 0;
}

int state_dir_find(const struct state_dir *state_dir, const char *word, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd,
                   struct err *err)
{
    int r;

    if (!sandbox_name_is_valid(word))
        return state_dir_refuse_name(word, err);
    r = find_id(state_dir, word, ret_id, err);
    return r < 0 ? r : open_found(state_dir, ret_id, ret_dir_fd, err);
}

bool state_dir_is_running(const struct state_dir *state_dir, const char *name)
{
    char found[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return state_dir_find(state_dir, name, found, &dir_fd, &ignored) == 0 && sandbox_dir_is_running(dir_fd);
}

struct newest {
    char id[SANDBOX_NAME_MAX];
    uint64_t created_ns;
};

static int compare_age(const char *id, int dir_fd, void *cookie)
{
    struct newest *newest = cookie;
    autoptr(sandbox_spec) spec = NULL;
    struct err ignored = ERR_NONE;

    if (sandbox_dir_is_deleted(dir_fd) || sandbox_spec_load(dir_fd, &spec, &ignored) < 0 ||
        (*newest->id && spec->created_ns <= newest->created_ns))
        return 0;
    memcpy(newest->id, id, strlen(id) + 1);
    newest->created_ns = spec->created_ns;
    return 0;
}

int state_dir_find_last(const struct state_dir *state_dir, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd, struct err *err)
{
    struct newest newest = { .created_ns = 0 };
    int r = state_dir_each(state_dir, compare_age, &newest, err);

    if (r < 0)
        return r;
    if (!*newest.id)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox");
    memcpy(ret_id, newest.id, sizeof(newest.id));
    return open_found(state_dir, ret_id, ret_dir_fd, err);
}
