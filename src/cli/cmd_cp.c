/* codebase put, codebase get, and cp, which does either, depending on its words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"
#include "cli/transfer_verbs.h"

enum { OPT_EXCLUDE = 1, OPT_REPLACE, OPT_VERSION, OPT_GIT_AS_IS };

#define PUT_OPTIONS                                                                                                            \
    { "exclude", required_argument, NULL, OPT_EXCLUDE },                                                                       \
    {                                                                                                                          \
        "replace", no_argument, NULL, OPT_REPLACE                                                                              \
    }
#define GET_OPTIONS                                                                                                            \
    { "version", required_argument, NULL, OPT_VERSION },                                                                       \
    {                                                                                                                          \
        "git-as-is", no_argument, NULL, OPT_GIT_AS_IS                                                                          \
    }

#define PUT_HELP                                                                                                               \
    "  --exclude GLOB         leave out files whose name or path in the directory matches; may be given again\n"               \
    "  --replace              remove files from the codebase that the directory lacks\n"
#define GET_HELP                                                                                                               \
    "  --version N            a file as it was in a version\n"                                                                 \
    "  --git-as-is            of a directory, also what git may run: hooks, all of .git/config, repositories in disguise\n"

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct transfer_options *o = call->own;

    switch (option) {
    case OPT_EXCLUDE:
        vec_room(&o->exclude, &o->exclude_cap, o->exclude_count);
        o->exclude[o->exclude_count++] = argument;
        return 0;
    case OPT_REPLACE:
        o->replaces = true;
        return 0;
    case OPT_GIT_AS_IS:
        o->git_as_is = true;
        return 0;
    default:
        return parse_number("--version", argument, 1, INT64_MAX, &o->version, err);
    }
}

static int check_put(const struct transfer_options *o, const char *path, struct err *err)
{
    if (o->replaces && path[strspn(path, "/")])
        return err_invalid(err, "--replace is for the whole codebase, not for '%s' in it", path);
    if (o->git_as_is)
        return err_invalid(err, "--git-as-is is for files copied from a codebase");
    return o->version ? err_invalid(err, "--version is for files copied from a codebase") : 0;
}

static void done(struct api_call *call)
{
    transfer_options_done(call->own);
}

/* ---- put ---- */

static const struct option put_options[] = { PUT_OPTIONS, API_LONG_OPTIONS };

static int put(struct api_call *call, const char *codebase, const char *local, const char *path, struct err *err)
{
    autofree char *id = NULL;
    int r = check_put(call->own, path, err);

    if (r == 0)
        r = lookup_codebase(call->client, codebase, &id, err);
    return r < 0 ? r : transfer_put(call, id, local, path, call->own, err);
}

static int run_put(struct api_call *call, struct err *err)
{
    return put(call, call->words[0], call->words[1], call->word_count > 2 ? call->words[2] : "", err);
}

const struct api_verb codebase_put_verb = {
    .name = "codebase put",
    .help = "usage: agentfense codebase put [options] CODEBASE SRC [PATH]\n\n"
            "Puts a file, or everything that is in a directory, into a codebase at PATH, as one version. SRC '-' is standard\n"
            "input. Executable bits and symbolic links are kept.\n\n" PUT_HELP API_OPTIONS_HELP,
    .options = put_options,
    .words_min = 2,
    .words_max = 3,
    .own_size = sizeof(struct transfer_options),
    .take = take,
    .run = run_put,
    .done = done,
};

/* ---- get ---- */

static const struct option get_options[] = { GET_OPTIONS, API_LONG_OPTIONS };

static int get(struct api_call *call, const char *codebase, const char *path, const char *local, struct err *err)
{
    const struct transfer_options *o = call->own;
    autofree char *id = NULL;
    int r = 0;

    if (o->replaces || o->exclude_count > 0)
        r = err_invalid(err, "--replace and --exclude are for files copied into a codebase");
    if (r == 0)
        r = lookup_codebase(call->client, codebase, &id, err);
    return r < 0 ? r : transfer_get(call, id, path, local, o, err);
}

static int run_get(struct api_call *call, struct err *err)
{
    bool has_path = call->word_count > 2;

    return get(call, call->words[0], has_path ? call->words[1] : "", call->words[has_path ? 2 : 1], err);
}

const struct api_verb codebase_get_verb = {
    .name = "codebase get",
    .help =
        "usage: agentfense codebase get [options] CODEBASE [PATH] DST\n\n"
        "Gets a file of a codebase, or all that is in a directory of it (without PATH: in the codebase), to DST. DST '-' is\n"
        "standard output, where a directory is a tar archive of all its files.\n\n"
        "Without --git-as-is, a directory comes without files that make git run programs: hooks, parts of the configuration,\n"
        "and files that turn a directory into a repository. This prints which were left out, and links that lead "
        "outside.\n\n" GET_HELP API_OPTIONS_HELP,
    .options = get_options,
    .words_min = 2,
    .words_max = 3,
    .own_size = sizeof(struct transfer_options),
    .take = take,
    .run = run_get,
    .done = done,
};

/* ---- cp ---- */

static const char help[] =
    "usage: agentfense cp [options] SRC CODEBASE:PATH\n"
    "       agentfense cp [options] CODEBASE:PATH DST\n\n"
    "Copies files and directories between here and a codebase, as 'agentfense codebase put' and 'get' do. '-' is standard\n"
    "input or output. A file here whose name has a colon is written with a slash before it: ./a:b.\n\n" PUT_HELP GET_HELP
        API_OPTIONS_HELP;

static const struct option cp_options[] = { PUT_OPTIONS, GET_OPTIONS, API_LONG_OPTIONS };

/* Returns the path in CODEBASE:PATH, or NULL if the word names a local file. */
static const char *path_in(const char *word)
{
    const char *colon = strchr(word, ':'), *slash = strchr(word, '/');

    return colon && colon > word && (!slash || colon < slash) ? colon + 1 : NULL;
}

static int check_cp(struct api_call *call, struct err *err)
{
    bool from = path_in(call->words[0]), to = path_in(call->words[1]);

    if (from && to)
        return err_set(err, ERR_UNIMPLEMENTED, -EOPNOTSUPP,
                       "cannot copy from one codebase to another; copy to a local directory first");
    return from || to ? 0
                      : err_invalid(err, "neither '%s' nor '%s' is of the form CODEBASE:PATH", call->words[0], call->words[1]);
}

static int run_cp(struct api_call *call, struct err *err)
{
    const char *from = path_in(call->words[0]), *to = path_in(call->words[1]);
    const char *word = call->words[from ? 0 : 1];
    autofree char *codebase = xdupn(word, (size_t) ((from ? from : to) - word) - 1);

    return from ? get(call, codebase, from, call->words[1], err) : put(call, codebase, call->words[0], to, err);
}

int cmd_cp(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "cp",
        .help = help,
        .options = cp_options,
        .words_min = 2,
        .words_max = 2,
        .own_size = sizeof(struct transfer_options),
        .take = take,
        .check = check_cp,
        .run = run_cp,
        .done = done,
    };

    return api_verb_run(&verb, argc, argv);
}
