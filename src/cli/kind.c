/* Which kind of sandbox a word means: one of 'agentfense run', or a workspace. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cli/verb.h"
#include "service/home.h"

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

/* The next word that is none of the options; NULL: none. `*at` is where to look on. */
static const char *next_word(int argc, char **argv, int *at)
{
    for (int i = *at; i < argc; i++) {
        *at = i + 1;
        if (strcmp(argv[i], "--") == 0) {
            *at = i + 2;
            return argv[i + 1];
        }
        if (*argv[i] != '-')
            return argv[i];
        i += takes_value(argv[i]);
    }
    *at = argc;
    return NULL;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static bool may_begin_id(const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char) word[i]) && word[i] != '-')
            return false;
    return len > 0 && len <= 36;
}

/* 0, or why not: -ENOENT when there is none. */
static int find(const struct home *home, const char *word)
{
    char name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    int dir_fd = -1, r = home_find(home, word, name, &dir_fd, &ignored);

    cleanup_fd(&dir_fd);
    return r;
}

/* Some verbs take many names: where one of them is a sandbox of ours, the others were meant to be. */
static bool is_among_ours(const struct home *home, int argc, char **argv, int at)
{
    for (const char *word; (word = next_word(argc, argv, &at));)
        if (*word && !strchr(word, '/') && find(home, word) != -ENOENT)
            return true;
    return false;
}

bool verb_is_of_workspace(int argc, char **argv)
{
    autodone(home) struct home home = HOME_NONE;
    int at = 1;
    const char *word = wants_help(argc, argv) ? NULL : next_word(argc, argv, &at);
    struct err ignored = ERR_NONE;
    int r;

    if (!word || !*word)
        return false;
    r = home_open(false, &home, &ignored);
    if (may_begin_id(word))
        return r < 0 || find(&home, word) < 0;
    /* A name. What is wrong with our own state, or with the word, is ours to say. */
    if (strchr(word, '/') || (r < 0 && r != -ENOENT))
        return false;
    int after = at;
    if (strcmp(argv[0], "discard") == 0 && !next_word(argc, argv, &after))
        return false; /* of a workspace paths are discarded, and there is none */
    return r == -ENOENT || (find(&home, word) == -ENOENT && !is_among_ours(&home, argc, argv, at));
}
