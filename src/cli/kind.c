/* Which kind of sandbox a word means: one of 'agentfense run', or a workspace. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/uuid.h"
#include "cli/verb.h"
#include "sandbox/state_dir.h"

/* Those that take a value in the next word. */
static bool takes_value(const char *option)
{
    static const char *const known[] = { "-m",   "--message", "--server", "--token-file",
                                         "--ca", "--config",  "--actor",  "--strategy" };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}

struct words {
    int argc;
    char **argv;
    int at;                      /* where to look on */
    bool is_past_options;        /* behind "--" */
    bool wants_help, wants_last; /* as far as was looked */
};

/* The next one that is none of the options, nor a value of one; NULL: none. */
static const char *next_word(struct words *words)
{
    while (words->at < words->argc) {
        const char *word = words->argv[words->at++];

        if (words->is_past_options || *word != '-')
            return word;
        words->is_past_options = strcmp(word, "--") == 0;
        words->wants_help |= strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
        words->wants_last |= strcmp(word, "--last") == 0;
        words->at += takes_value(word);
    }
    return NULL;
}

/* A server notes more of a sandbox than its directory can tell: with which codebase to sync, what was decided, the trash. */
static bool is_of_server(const struct sandbox_spec *spec)
{
    return spec && (*spec->codebase_id || *spec->codebase_path || *spec->project_root);
}

/* 0, or why not: -ENOENT when there is none of 'agentfense run'. */
static int find(const struct state_dir *state_dir, const char *word)
{
    autoptr(sandbox_spec) spec = NULL;
    char name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    int dir_fd = -1, r = state_dir_find(state_dir, word, name, &dir_fd, &ignored);

    if (r == 0)
        sandbox_spec_load(dir_fd, &spec, &ignored);
    cleanup_fd(&dir_fd);
    return is_of_server(spec) ? -ENOENT : r;
}

/* Some verbs take many names: where one of them is a sandbox of ours, the others were meant to be. */
static bool is_among_ours(const struct state_dir *state_dir, struct words words)
{
    for (const char *word; (word = next_word(&words));)
        if (*word && !strchr(word, '/') && sandbox_name_is_valid(word) && find(state_dir, word) != -ENOENT)
            return true;
    return false;
}

/* By its whole name or id: what only begins so may be a sandbox of a server's. */
static bool is_one_of_ours(const struct state_dir *state_dir, const char *word)
{
    autoptr(sandbox_spec) spec = NULL;
    char id[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;
    int r = state_dir_find(state_dir, word, id, &dir_fd, &ignored);

    if (r < 0 && r != -ENOTDIR)
        return false;
    if (r == 0)
        sandbox_spec_load(dir_fd, &spec, &ignored);
    state_dir_show_name(state_dir, id, spec, name);
    return !is_of_server(spec) && (strcmp(word, id) == 0 || strcmp(word, name) == 0);
}

static bool names_one_of_ours(const struct state_dir *state_dir, struct words words)
{
    for (const char *word; (word = next_word(&words));)
        if (is_one_of_ours(state_dir, word))
            return true;
    return false;
}

static bool last_is_ours(const struct state_dir *state_dir)
{
    autoptr(sandbox_spec) spec = NULL;
    char id[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return state_dir_find_last(state_dir, id, &dir_fd, &ignored) == 0 && sandbox_spec_load(dir_fd, &spec, &ignored) == 0 &&
           !is_of_server(spec);
}

bool verb_is_for_client(int argc, char **argv)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    const struct words first = { .argc = argc, .argv = argv, .at = 1 };
    struct words rest = first;
    const char *word = next_word(&rest);
    struct words all = rest;
    struct err ignored = ERR_NONE;
    int r;

    while (next_word(&all))
        ;
    if (strcmp(argv[0], "stop") == 0 || strcmp(argv[0], "rm") == 0)
        return state_dir_open(false, &state_dir, &ignored) < 0 || !names_one_of_ours(&state_dir, first);
    if (all.wants_help || (!all.wants_last && (!word || !*word)))
        return false;
    r = state_dir_open(false, &state_dir, &ignored);
    if (all.wants_last)
        return r == -ENOENT || (r == 0 && !last_is_ours(&state_dir));
    if (uuid_may_begin(word))
        return r < 0 || find(&state_dir, word) < 0;
    /* A name. What is wrong with our own state, or with the word, is ours to say. */
    if (strchr(word, '/') || (r < 0 && r != -ENOENT))
        return false;
    return r == -ENOENT || (find(&state_dir, word) == -ENOENT && !is_among_ours(&state_dir, rest));
}
