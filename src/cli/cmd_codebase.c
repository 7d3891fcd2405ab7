#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/age.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/listing.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"
#include "cli/transfer_verbs.h"
#include <sandbox/v1/codebase.pb-c.h>

static const char help[] =
    "usage: agentfense codebase create NAME [DIR]               a new one, with what is in DIR\n"
    "       agentfense codebase ls\n"
    "       agentfense codebase rm CODEBASE...\n"
    "       agentfense codebase put CODEBASE SRC [PATH]         a file or a directory into it\n"
    "       agentfense codebase get CODEBASE [PATH] DST         a file or a directory of it\n"
    "       agentfense codebase files CODEBASE [PATH]           what is in it\n"
    "       agentfense codebase del CODEBASE PATH...            remove files from it\n"
    "       agentfense codebase versions CODEBASE               its versions, the newest first\n"
    "       agentfense codebase restore CODEBASE VERSION [PATH] make it what it was\n\n"
    "A codebase is a tree of files that sandboxes work on. It is called by its id, the beginning of one, or its name.\n"
    "'agentfense codebase WORD --help' prints its usage.\n";

static const struct option no_options[] = { API_LONG_OPTIONS };

/* ---- create ---- */

enum { OPT_OWNER = 1, OPT_FORCE };

static const struct option create_options[] = {
    { "owner", required_argument, NULL, OPT_OWNER },
    API_LONG_OPTIONS,
};

struct create_options {
    const char *owner;
};

static int take_owner(struct api_call *call, int option, const char *argument, struct err *err)
{
    (void) option;
    (void) err;
    ((struct create_options *) call->own)->owner = argument;
    return 0;
}

/* The default owner: our user name. */
static char *own_name(void)
{
    const struct passwd *entry = getpwuid(geteuid());

    return entry ? xdup(entry->pw_name) : xprintf("%u", (unsigned) geteuid());
}

/* Checks the directory or file first, so that a bad path does not leave an empty codebase. */
static int check_create(struct api_call *call, struct err *err)
{
    const char *source = call->word_count > 1 ? call->words[1] : NULL;
    autofd int fd = source ? open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    return source && fd < 0 ? err_errno(err, -errno, "'%s'", source) : 0;
}

/* The API allows equal names, but the command line could not tell two such codebases apart. */
static int check_name(struct api_call *call, const char *owner, struct err *err)
{
    autofree char *taken = NULL;
    int r = lookup_codebase_named(call->client, call->words[0], owner, &taken, err);

    if (r < 0 || !taken)
        return r;
    return err_set(err, ERR_ALREADY_EXISTS, -EEXIST,
                   "there is a codebase '%s' already, %s; take another name, remove it ('agentfense codebase rm'), or put "
                   "files into it ('agentfense codebase put')",
                   call->words[0], taken);
}

static int run_create(struct api_call *call, struct err *err)
{
    const struct create_options *o = call->own;
    const struct transfer_options plain = { 0 };
    Sandbox__V1__CreateCodebaseRequest request = SANDBOX__V1__CREATE_CODEBASE_REQUEST__INIT;
    struct api_call quietly = *call;
    autofree char *owner = o->owner ? xdup(o->owner) : api_has_token(call) ? xdup("") : own_name();
    automessage answer = NULL;
    int r = check_name(call, owner, err);

    if (r < 0)
        return r;
    request.name = call->words[0];
    request.owner_id = owner;
    r = client_ask(call->client, "CreateCodebase", &request.base, &answer, err);
    if (r < 0)
        return r;
    const char *id = ((const Sandbox__V1__Codebase *) (void *) answer)->id;
    quietly.options.is_quiet = true;
    quietly.options.is_json = false;
    if (call->word_count > 1)
        r = transfer_put(&quietly, id, call->words[1], "", &plain, err);
    if (r < 0)
        return err_wrap(err, r, "codebase %s was made, and is empty", id);
    api_print(call, answer, id);
    return 0;
}

static const struct api_verb create_verb = {
    .name = "codebase create",
    .help =
        "usage: agentfense codebase create [options] NAME [DIR]\n\n"
        "Makes a codebase, puts everything that is in DIR into it, and prints its id.\n\n"
        "  --owner OWNER          whose it is; without, that of the token, or you by your name on this host\n" API_OPTIONS_HELP,
    .options = create_options,
    .words_min = 1,
    .words_max = 2,
    .own_size = sizeof(struct create_options),
    .take = take_owner,
    .check = check_create,
    .run = run_create,
};

/* ---- ls, files, versions ---- */

static void add_codebase(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Codebase *codebase = (const void *) item;
    char age[AGE_TEXT_MAX];

    age_format(codebase->created_at ? codebase->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, codebase->id);
    grid_add(grid, codebase->name);
    grid_add(grid, codebase->owner_id);
    grid_add_number(grid, codebase->file_count);
    grid_add_size(grid, codebase->size);
    grid_add_number(grid, codebase->version);
    grid_add(grid, age);
}

static int run_ls(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "ID", "NAME", "OWNER", "FILES", "SIZE", "VERSION", "AGE", NULL };
    static const struct listing listing = { "ListCodebases", &sandbox__v1__list_codebases_response__descriptor, titles,
                                            add_codebase };
    Sandbox__V1__ListCodebasesRequest request = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;

    return listing_print(call, &listing, &request.base, err);
}

static const struct api_verb ls_verb = {
    .name = "codebase ls",
    .help = "usage: agentfense codebase ls [options]\n\nLists the codebases.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .run = run_ls,
};

static void add_file(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__FileInfo *file = (const void *) item;
    char time[CLOCK_TEXT_MAX] = "-";

    if (file->modified_at)
        clock_format((struct timespec){ .tv_sec = file->modified_at->seconds }, 0, time);
    grid_add(grid, file->is_dir ? "dir" : file->is_symlink ? "link" : file->is_executable ? "exec" : "file");
    if (file->is_dir)
        grid_add(grid, "-");
    else
        grid_add_size(grid, file->size);
    grid_add(grid, time);
    grid_add(grid, file->path);
}

enum { OPT_RECURSIVE = 'r' };

static const struct option files_options[] = {
    { "recursive", no_argument, NULL, OPT_RECURSIVE },
    API_LONG_OPTIONS,
};

static int take_recursive(struct api_call *call, int option, const char *argument, struct err *err)
{
    (void) option;
    (void) argument;
    (void) err;
    *(bool *) call->own = true;
    return 0;
}

static int run_files(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "KIND", "SIZE", "MODIFIED", "PATH", NULL };
    static const struct listing listing = { "ListFiles", &sandbox__v1__list_files_response__descriptor, titles, add_file };
    Sandbox__V1__ListFilesRequest request = SANDBOX__V1__LIST_FILES_REQUEST__INIT;
    autofree char *codebase = NULL;
    int r = lookup_codebase(call->client, call->words[0], &codebase, err);

    if (r < 0)
        return r;
    request.codebase_id = codebase;
    if (call->word_count > 1)
        request.path = call->words[1];
    request.recursive = *(const bool *) call->own;
    return listing_print(call, &listing, &request.base, err);
}

static const struct api_verb files_verb = {
    .name = "codebase files",
    .help = "usage: agentfense codebase files [options] CODEBASE [PATH]\n\n"
            "Lists the files of a codebase, or of a directory in it.\n\n"
            "  -r, --recursive        and all that is beneath\n" API_OPTIONS_HELP,
    .letters = "r",
    .options = files_options,
    .words_min = 1,
    .words_max = 2,
    .own_size = sizeof(bool),
    .take = take_recursive,
    .run = run_files,
};

static void add_version(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Version *version = (const void *) item;
    char age[AGE_TEXT_MAX];

    age_format(version->created_at ? version->created_at->seconds * CLOCK_NS_PER_SEC : 0, age);
    grid_add_number(grid, version->number);
    grid_add(grid, version->reason);
    grid_add(grid, version->author);
    grid_add_number(grid, version->files_changed);
    grid_add_coloured(grid, version->n_conflicts > 0 ? "yes" : "-", version->n_conflicts > 0 ? GRID_BAD : GRID_PLAIN);
    grid_add(grid, age);
}

static int run_versions(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "VERSION", "BY", "AUTHOR", "CHANGES", "CONFLICTS", "AGE", NULL };
    static const struct listing listing = { "ListVersions", &sandbox__v1__list_versions_response__descriptor, titles,
                                            add_version };
    Sandbox__V1__ListVersionsRequest request = SANDBOX__V1__LIST_VERSIONS_REQUEST__INIT;
    autofree char *codebase = NULL;
    int r = lookup_codebase(call->client, call->words[0], &codebase, err);

    if (r < 0)
        return r;
    request.codebase_id = codebase;
    return listing_print(call, &listing, &request.base, err);
}

static const struct api_verb versions_verb = {
    .name = "codebase versions",
    .help = "usage: agentfense codebase versions [options] CODEBASE\n\n"
            "Lists the versions of a codebase, the newest first: what made each, who, and how many files it "
            "changed.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_versions,
};

/* ---- rm, del, restore ---- */

static const struct option rm_options[] = {
    { "force", no_argument, NULL, 'f' },
    API_LONG_OPTIONS,
};

static int run_rm(struct api_call *call, struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        Sandbox__V1__DeleteCodebaseRequest request = SANDBOX__V1__DELETE_CODEBASE_REQUEST__INIT;
        autofree char *codebase = NULL;
        automessage answer = NULL;
        int r = lookup_codebase(call->client, call->words[i], &codebase, err);

        request.codebase_id = codebase;
        request.force = *(const bool *) call->own;
        if (r == 0)
            r = client_ask(call->client, "DeleteCodebase", &request.base, &answer, err);
        if (r < 0)
            return r;
        api_print(call, answer, codebase);
    }
    return 0;
}

static const struct api_verb rm_verb = {
    .name = "codebase rm",
    .help = "usage: agentfense codebase rm [options] CODEBASE...\n\nRemoves codebases with all their versions.\n\n"
            "  -f, --force            although sandboxes that run use it: they are stopped\n" API_OPTIONS_HELP,
    .letters = "f",
    .options = rm_options,
    .words_min = 1,
    .words_max = -1,
    .own_size = sizeof(bool),
    .take = take_recursive,
    .run = run_rm,
};

static int run_del(struct api_call *call, struct err *err)
{
    autofree char *codebase = NULL;
    int r = lookup_codebase(call->client, call->words[0], &codebase, err);

    for (int i = 1; r == 0 && i < call->word_count; i++) {
        Sandbox__V1__DeleteFileRequest request = SANDBOX__V1__DELETE_FILE_REQUEST__INIT;
        automessage answer = NULL;

        request.codebase_id = codebase;
        request.file_path = call->words[i];
        r = client_ask(call->client, "DeleteFile", &request.base, &answer, err);
        if (r == 0)
            api_print(call, answer, call->words[i]);
    }
    return r;
}

static const struct api_verb del_verb = {
    .name = "codebase del",
    .help = "usage: agentfense codebase del [options] CODEBASE PATH...\n\n"
            "Removes files, and directories with all that is in them, from a codebase. Each is a version.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 2,
    .words_max = -1,
    .run = run_del,
};

static int run_restore(struct api_call *call, struct err *err)
{
    Sandbox__V1__RestoreVersionRequest request = SANDBOX__V1__RESTORE_VERSION_REQUEST__INIT;
    autofree char *codebase = NULL;
    automessage answer = NULL;
    int r = parse_number("version", call->words[1], 0, INT64_MAX, &request.version, err);

    if (r == 0)
        r = lookup_codebase(call->client, call->words[0], &codebase, err);
    if (r < 0)
        return r;
    request.codebase_id = codebase;
    if (call->word_count > 2)
        request.path = call->words[2];
    r = client_ask(call->client, "RestoreVersion", &request.base, &answer, err);
    if (r < 0)
        return r;
    const Sandbox__V1__Version *version = (void *) answer;
    if (call->options.is_json)
        api_print_json(answer);
    else if (call->options.is_quiet)
        printf("%lld\n", (long long) version->number);
    else
        printf("version %lld: %lld file%s changed\n", (long long) version->number, (long long) version->files_changed,
               version->files_changed == 1 ? "" : "s");
    return 0;
}

static const struct api_verb restore_verb = {
    .name = "codebase restore",
    .help =
        "usage: agentfense codebase restore [options] CODEBASE VERSION [PATH]\n\n"
        "Makes a codebase, or a file or directory in it, what it was in a version. That is a new version.\n\n" API_OPTIONS_HELP,
    .options = no_options,
    .words_min = 2,
    .words_max = 3,
    .run = run_restore,
};

int cmd_codebase(int argc, char **argv)
{
    static const struct api_verb *const verbs[] = { &create_verb,       &ls_verb,           &rm_verb,
                                                    &codebase_put_verb, &codebase_get_verb, &files_verb,
                                                    &versions_verb,     &del_verb,          &restore_verb };

    return api_verb_run_one_of("codebase", help, verbs, ARRAY_LEN(verbs), argc, argv);
}
