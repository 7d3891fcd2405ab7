#include "review/acknowledge.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/edit.h"

struct known {
    const char *text;
    enum acknowledge reason;
};

/* Names, wherever they are. */
static const struct known names[] = {
    { ".gitmodules", ACKNOWLEDGE_GIT },
    { ".pre-commit-config.yaml", ACKNOWLEDGE_HOOK },
    { ".pre-commit-hooks.yaml", ACKNOWLEDGE_HOOK },
    { "lefthook.yml", ACKNOWLEDGE_HOOK },
    { ".lefthook.yml", ACKNOWLEDGE_HOOK },
    { ".overcommit.yml", ACKNOWLEDGE_HOOK },
    { ".huskyrc", ACKNOWLEDGE_HOOK },
    { ".gitlab-ci.yml", ACKNOWLEDGE_CI },
    { "jenkinsfile", ACKNOWLEDGE_CI },
    { "azure-pipelines.yml", ACKNOWLEDGE_CI },
    { "bitbucket-pipelines.yml", ACKNOWLEDGE_CI },
    { ".travis.yml", ACKNOWLEDGE_CI },
    { "appveyor.yml", ACKNOWLEDGE_CI },
    { ".appveyor.yml", ACKNOWLEDGE_CI },
    { ".drone.yml", ACKNOWLEDGE_CI },
    { ".woodpecker.yml", ACKNOWLEDGE_CI },
    { ".cirrus.yml", ACKNOWLEDGE_CI },
    { "cloudbuild.yaml", ACKNOWLEDGE_CI },
    { ".vimrc", ACKNOWLEDGE_EDITOR },
    { ".gvimrc", ACKNOWLEDGE_EDITOR },
    { ".exrc", ACKNOWLEDGE_EDITOR },
    { ".nvimrc", ACKNOWLEDGE_EDITOR },
    { ".nvim.lua", ACKNOWLEDGE_EDITOR },
    { ".lvimrc", ACKNOWLEDGE_EDITOR },
    { ".dir-locals.el", ACKNOWLEDGE_EDITOR },
    { ".dir-locals-2.el", ACKNOWLEDGE_EDITOR },
    { ".devcontainer.json", ACKNOWLEDGE_EDITOR },
    { ".mcp.json", ACKNOWLEDGE_EDITOR },
    { ".envrc", ACKNOWLEDGE_SHELL },
    { ".autoenv.zsh", ACKNOWLEDGE_SHELL },
    { "mise.toml", ACKNOWLEDGE_SHELL },
    { ".mise.toml", ACKNOWLEDGE_SHELL },
    { ".profile", ACKNOWLEDGE_SHELL },
    { ".bashrc", ACKNOWLEDGE_SHELL },
    { ".bash_profile", ACKNOWLEDGE_SHELL },
    { ".bash_login", ACKNOWLEDGE_SHELL },
    { ".bash_logout", ACKNOWLEDGE_SHELL },
    { ".zshrc", ACKNOWLEDGE_SHELL },
    { ".zshenv", ACKNOWLEDGE_SHELL },
    { ".zprofile", ACKNOWLEDGE_SHELL },
    { ".zlogin", ACKNOWLEDGE_SHELL },
    { ".cshrc", ACKNOWLEDGE_SHELL },
    { ".login", ACKNOWLEDGE_SHELL },
    { "sitecustomize.py", ACKNOWLEDGE_SHELL },
    { "usercustomize.py", ACKNOWLEDGE_SHELL },
    { "package.json", ACKNOWLEDGE_PACKAGE },
    { ".npmrc", ACKNOWLEDGE_PACKAGE },
    { ".yarnrc", ACKNOWLEDGE_PACKAGE },
    { ".yarnrc.yml", ACKNOWLEDGE_PACKAGE },
    { ".pnpmfile.cjs", ACKNOWLEDGE_PACKAGE },
    { "binding.gyp", ACKNOWLEDGE_PACKAGE },
    { "composer.json", ACKNOWLEDGE_PACKAGE },
    { "setup.py", ACKNOWLEDGE_PACKAGE },
    { "build.rs", ACKNOWLEDGE_PACKAGE },
};

/* Directories, wherever they are: all that is in them. */
static const struct known directories[] = {
    { ".husky", ACKNOWLEDGE_HOOK },
    { ".githooks", ACKNOWLEDGE_HOOK },
    { ".agentfense", ACKNOWLEDGE_HOOK },
    { ".circleci", ACKNOWLEDGE_CI },
    { ".buildkite", ACKNOWLEDGE_CI },
    { ".azure-pipelines", ACKNOWLEDGE_CI },
    { ".woodpecker", ACKNOWLEDGE_CI },
    { ".teamcity", ACKNOWLEDGE_CI },
    { ".semaphore", ACKNOWLEDGE_CI },
    { ".vscode", ACKNOWLEDGE_EDITOR },
    { ".idea", ACKNOWLEDGE_EDITOR },
    { ".fleet", ACKNOWLEDGE_EDITOR },
    { ".zed", ACKNOWLEDGE_EDITOR },
    { ".devcontainer", ACKNOWLEDGE_EDITOR },
    { ".cursor", ACKNOWLEDGE_EDITOR },
    { ".claude", ACKNOWLEDGE_EDITOR },
    { ".ssh", ACKNOWLEDGE_SHELL },
    { ".config/systemd", ACKNOWLEDGE_SHELL },
    { ".config/autostart", ACKNOWLEDGE_SHELL },
    { ".github/workflows", ACKNOWLEDGE_CI },
    { ".github/actions", ACKNOWLEDGE_CI },
    { ".gitea/workflows", ACKNOWLEDGE_CI },
    { ".forgejo/workflows", ACKNOWLEDGE_CI },
};

static const struct known endings[] = {
    { ".code-workspace", ACKNOWLEDGE_EDITOR },
    { ".sublime-project", ACKNOWLEDGE_EDITOR },
    { ".pth", ACKNOWLEDGE_SHELL },
};

/* What git runs, in whatever directory core.hooksPath names. */
static const char *const hooks[] = {
    "applypatch-msg",     "pre-applypatch",     "post-applypatch",   "pre-commit",
    "pre-merge-commit",   "prepare-commit-msg", "commit-msg",        "post-commit",
    "pre-rebase",         "post-merge",         "post-checkout",     "pre-push",
    "pre-auto-gc",        "post-rewrite",       "pre-receive",       "update",
    "post-receive",       "post-update",        "push-to-checkout",  "proc-receive",
    "sendemail-validate", "fsmonitor-watchman", "post-index-change",
};

/* Whether `directory` stands in the path from a component's beginning to its end, with something behind it. */
static bool is_in(const char *path, const char *directory)
{
    size_t len = strlen(directory);

    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncasecmp(at, directory, len) == 0 && at[len] == '/')
            return true;
    }
    return false;
}

static bool is_hook(const char *path, const char *name)
{
    if (!is_in(path, "hooks") && !is_in(path, "git-hooks") && !is_in(path, "githooks"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(hooks); i++) {
        if (strcasecmp(name, hooks[i]) == 0)
            return true;
    }
    return false;
}

enum acknowledge acknowledge_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strlen(name);

    if (edit_is_git(path))
        return ACKNOWLEDGE_GIT;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcasecmp(name, names[i].text) == 0)
            return names[i].reason;
    }
    for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
        if (is_in(path, directories[i].text))
            return directories[i].reason;
    }
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t n = strlen(endings[i].text);
        if (len > n && strcasecmp(name + len - n, endings[i].text) == 0)
            return endings[i].reason;
    }
    return is_hook(path, name) ? ACKNOWLEDGE_HOOK : ACKNOWLEDGE_NOTHING;
}

static size_t depth_of(const char *path)
{
    size_t depth = 0;

    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

/*
 * Climbing comes first and not above the root: then the link leads to where it seems to. A ".." behind a name may follow another
 * link there, to a directory higher up, and climb out from that.
 */
enum acknowledge acknowledge_link(const char *scope_path, const char *target, size_t len)
{
    autofree char *text = xdupn(target, len);
    const char *end = text + strlen(text);
    size_t depth = depth_of(scope_path), climbed = 0;
    bool has_name = false;
    struct path_component c;
    enum acknowledge reason = acknowledge_file(scope_path);

    if (reason != ACKNOWLEDGE_NOTHING)
        return reason;
    if (text[0] == '/')
        return ACKNOWLEDGE_LINK;
    for (const char *at = text; path_next_component(&at, end, &c);) {
        if (path_component_is(&c, "."))
            continue;
        if (!path_component_is(&c, ".."))
            has_name = true;
        else if (has_name || ++climbed > depth)
            return ACKNOWLEDGE_LINK;
    }
    return edit_is_git(text) ? ACKNOWLEDGE_GIT : ACKNOWLEDGE_NOTHING;
}

const char *acknowledge_name(enum acknowledge reason)
{
    static const char *const texts[] = { "", "git", "link", "hook", "ci", "editor", "shell", "package" };

    return texts[reason];
}

const char *acknowledge_text(enum acknowledge reason)
{
    static const char *const texts[] = {
        "",
        "git takes it for part of a repository of its own",
        "a link that may lead out of the sandbox's directory",
        "runs when somebody commits or checks out",
        "runs in continuous integration",
        "may run when an editor or assistant opens the directory",
        "runs when a shell or interpreter starts here",
        "may run when packages are installed or built",
    };

    return texts[reason];
}
