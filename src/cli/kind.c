/* Which kind of sandbox a word means: one of 'agentfense run', or a workspace. */
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

static const char *first_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return NULL;
        if (strcmp(argv[i], "--") == 0)
            return argv[i + 1];
        if (*argv[i] != '-')
            return argv[i];
        i += takes_value(argv[i]);
    }
    return NULL;
}

bool verb_is_of_workspace(int argc, char **argv)
{
    autodone(home) struct home home = HOME_NONE;
    const char *word = first_word(argc, argv);
    char name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    int dir_fd = -1, r;

    if (!word || !*word)
        return false;
    r = home_open(false, &home, &ignored);
    if (r == 0)
        r = home_find(&home, word, name, &dir_fd, &ignored);
    cleanup_fd(&dir_fd);
    return r < 0;
}
