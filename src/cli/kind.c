/* Which kind of sandbox the words of stop and rm mean: of 'agentfense run', or of a server. */
#include <errno.h>
#include <string.h>

#include "cli/verb.h"
#include "sandbox/state_dir.h"

/* A server notes more of a sandbox than its directory can tell: with which codebase to sync, what was decided, the trash. */
static bool is_of_server(const struct sandbox_spec *spec)
{
    return spec && (*spec->codebase_id || *spec->codebase_path || *spec->project_root);
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

bool verb_is_for_client(int argc, char **argv)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    struct err ignored = ERR_NONE;

    if (state_dir_open(false, &state_dir, &ignored) < 0)
        return true;
    for (int i = 1; i < argc; i++) {
        if (*argv[i] != '-' && is_one_of_ours(&state_dir, argv[i]))
            return false;
    }
    return true;
}
