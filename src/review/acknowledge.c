#include "review/acknowledge.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/edit.h"

struct known_path {
    const char *text;
    enum acknowledge reason;
};

/* File names in any directory; an entry with a slash is a name in that directory. */
static const struct known_path names[] = {
    { ".gitmodules", ACKNOWLEDGE_GIT },
    { ".pre-commit-config.yaml", ACKNOWLEDGE_HOOK },
    { ".pre-commit-config.yml", ACKNOWLEDGE_HOOK },
    { ".pre-commit-hooks.yaml", ACKNOWLEDGE_HOOK },
    { ".overcommit.yml", ACKNOWLEDGE_HOOK },
    { ".huskyrc", ACKNOWLEDGE_HOOK },
    { ".gitlab-ci.yml", ACKNOWLEDGE_CI },
    { "jenkinsfile", ACKNOWLEDGE_CI },
    { "azure-pipelines.yml", ACKNOWLEDGE_CI },
    { "azure-pipelines.yaml", ACKNOWLEDGE_CI },
    { "bitbucket-pipelines.yml", ACKNOWLEDGE_CI },
    { ".travis.yml", ACKNOWLEDGE_CI },
    { "appveyor.yml", ACKNOWLEDGE_CI },
    { ".appveyor.yml", ACKNOWLEDGE_CI },
    { ".drone.yml", ACKNOWLEDGE_CI },
    { ".woodpecker.yml", ACKNOWLEDGE_CI },
    { ".woodpecker.yaml", ACKNOWLEDGE_CI },
    { ".cirrus.yml", ACKNOWLEDGE_CI },
    { "cloudbuild.yaml", ACKNOWLEDGE_CI },
    { "cloudbuild.yml", ACKNOWLEDGE_CI },
    { ".vimrc", ACKNOWLEDGE_EDITOR },
    { ".gvimrc", ACKNOWLEDGE_EDITOR },
    { ".exrc", ACKNOWLEDGE_EDITOR },
    { ".nvimrc", ACKNOWLEDGE_EDITOR },
    { ".nvim.lua", ACKNOWLEDGE_EDITOR },
    { ".lvimrc", ACKNOWLEDGE_EDITOR },
    { ".dir-locals.el", ACKNOWLEDGE_EDITOR },
    { ".dir-locals-2.el", ACKNOWLEDGE_EDITOR },
    { ".devcontainer.json", ACKNOWLEDGE_EDITOR },
    { ".gitpod.yml", ACKNOWLEDGE_EDITOR },
    { ".gitpod.dockerfile", ACKNOWLEDGE_EDITOR },
    { "conftest.py", ACKNOWLEDGE_EDITOR }, /* editors collect tests on their own */
    /* Assistants: their instructions, and the programs that they may start. */
    { ".mcp.json", ACKNOWLEDGE_EDITOR },
    { "agents.md", ACKNOWLEDGE_EDITOR },
    { "agents.override.md", ACKNOWLEDGE_EDITOR },
    { "agent.md", ACKNOWLEDGE_EDITOR },
    { "claude.md", ACKNOWLEDGE_EDITOR },
    { "claude.local.md", ACKNOWLEDGE_EDITOR },
    { "gemini.md", ACKNOWLEDGE_EDITOR },
    { ".github/copilot-instructions.md", ACKNOWLEDGE_EDITOR },
    { ".cursorrules", ACKNOWLEDGE_EDITOR },
    { ".windsurfrules", ACKNOWLEDGE_EDITOR },
    { ".clinerules", ACKNOWLEDGE_EDITOR },
    { ".roorules", ACKNOWLEDGE_EDITOR },
    { ".roomodes", ACKNOWLEDGE_EDITOR },
    { ".goosehints", ACKNOWLEDGE_EDITOR },
    { ".aider.conf.yml", ACKNOWLEDGE_EDITOR },
    { "opencode.json", ACKNOWLEDGE_EDITOR },
    { "opencode.jsonc", ACKNOWLEDGE_EDITOR },
    { ".envrc", ACKNOWLEDGE_SHELL },
    { ".autoenv.zsh", ACKNOWLEDGE_SHELL },
    { "mise.toml", ACKNOWLEDGE_SHELL },
    { ".mise.toml", ACKNOWLEDGE_SHELL },
    { "mise/config.toml", ACKNOWLEDGE_SHELL },
    { ".mise/config.toml", ACKNOWLEDGE_SHELL },
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
    { ".gdbinit", ACKNOWLEDGE_SHELL },
    { ".lldbinit", ACKNOWLEDGE_SHELL },
    { ".rprofile", ACKNOWLEDGE_SHELL },
    { ".pdbrc", ACKNOWLEDGE_SHELL },
    { ".irbrc", ACKNOWLEDGE_SHELL },
    { ".pryrc", ACKNOWLEDGE_SHELL },
    { "package.json", ACKNOWLEDGE_PACKAGE },
    { ".npmrc", ACKNOWLEDGE_PACKAGE },
    { ".yarnrc", ACKNOWLEDGE_PACKAGE },
    { ".yarnrc.yml", ACKNOWLEDGE_PACKAGE },
    { ".pnpmfile.cjs", ACKNOWLEDGE_PACKAGE },
    { ".pnp.cjs", ACKNOWLEDGE_PACKAGE },
    { ".pnp.loader.mjs", ACKNOWLEDGE_PACKAGE },
    { "binding.gyp", ACKNOWLEDGE_PACKAGE },
    { "composer.json", ACKNOWLEDGE_PACKAGE },
    { "setup.py", ACKNOWLEDGE_PACKAGE },
    { "build.rs", ACKNOWLEDGE_PACKAGE },
    { ".cargo/config", ACKNOWLEDGE_PACKAGE },
    { ".cargo/config.toml", ACKNOWLEDGE_PACKAGE },
};

/* Directories at any place, with all their contents. */
static const struct known_path directories[] = {
    { ".husky", ACKNOWLEDGE_HOOK },
    { ".githooks", ACKNOWLEDGE_HOOK },
    { ".lefthook", ACKNOWLEDGE_HOOK },
    { ".agentfense", ACKNOWLEDGE_HOOK },
    { ".circleci", ACKNOWLEDGE_CI },
    { ".buildkite", ACKNOWLEDGE_CI },
    { ".azure-pipelines", ACKNOWLEDGE_CI },
    { ".woodpecker", ACKNOWLEDGE_CI },
    { ".teamcity", ACKNOWLEDGE_CI },
    { ".semaphore", ACKNOWLEDGE_CI },
    { ".github/workflows", ACKNOWLEDGE_CI },
    { ".github/actions", ACKNOWLEDGE_CI },
    { ".gitea/workflows", ACKNOWLEDGE_CI },
    { ".forgejo/workflows", ACKNOWLEDGE_CI },
    { ".vscode", ACKNOWLEDGE_EDITOR },
    { ".idea", ACKNOWLEDGE_EDITOR },
    { ".vs", ACKNOWLEDGE_EDITOR },
    { ".fleet", ACKNOWLEDGE_EDITOR },
    { ".zed", ACKNOWLEDGE_EDITOR },
    { ".idx", ACKNOWLEDGE_EDITOR },
    { ".devcontainer", ACKNOWLEDGE_EDITOR },
    { ".cursor", ACKNOWLEDGE_EDITOR },
    { ".claude", ACKNOWLEDGE_EDITOR },
    { ".codex", ACKNOWLEDGE_EDITOR },
    { ".gemini", ACKNOWLEDGE_EDITOR },
    { ".windsurf", ACKNOWLEDGE_EDITOR },
    { ".kiro", ACKNOWLEDGE_EDITOR },
    { ".roo", ACKNOWLEDGE_EDITOR },
    { ".clinerules", ACKNOWLEDGE_EDITOR },
    { ".continue", ACKNOWLEDGE_EDITOR },
    { ".junie", ACKNOWLEDGE_EDITOR },
    { ".amazonq", ACKNOWLEDGE_EDITOR },
    { ".opencode", ACKNOWLEDGE_EDITOR },
    { ".github/instructions", ACKNOWLEDGE_EDITOR },
    { ".github/prompts", ACKNOWLEDGE_EDITOR },
    { ".github/agents", ACKNOWLEDGE_EDITOR },
    { ".github/chatmodes", ACKNOWLEDGE_EDITOR },
    { ".ssh", ACKNOWLEDGE_SHELL },
    { ".config/systemd", ACKNOWLEDGE_SHELL },
    { ".config/autostart", ACKNOWLEDGE_SHELL },
    { ".config/mise", ACKNOWLEDGE_SHELL },
    { ".mise/conf.d", ACKNOWLEDGE_SHELL },
    { ".venv/bin", ACKNOWLEDGE_SHELL },
    { ".venv/scripts", ACKNOWLEDGE_SHELL },
    { "venv/bin", ACKNOWLEDGE_SHELL },
    { "node_modules/.bin", ACKNOWLEDGE_PACKAGE },
    { ".yarn/releases", ACKNOWLEDGE_PACKAGE },
    { ".yarn/plugins", ACKNOWLEDGE_PACKAGE },
};

/* Prefixes and suffixes of names. */
static const struct {
    const char *begin, *end;
    enum acknowledge reason;
} shapes[] = {
    { "", ".code-workspace", ACKNOWLEDGE_EDITOR },
    { "", ".sublime-project", ACKNOWLEDGE_EDITOR },
    { "", ".pth", ACKNOWLEDGE_SHELL },
    { "mise.", ".toml", ACKNOWLEDGE_SHELL },
    { ".mise.", ".toml", ACKNOWLEDGE_SHELL },
};

/* lefthook reads its settings, and each user's own beside them, in any of these formats. */
static const char *const lefthook_endings[] = { ".yml", ".yaml", ".toml", ".json", ".jsonc" };

/* Names that git runs, in whatever directory core.hooksPath names. */
static const char *const hooks[] = {
    "applypatch-msg",     "pre-applypatch",     "post-applypatch",   "pre-commit",
    "pre-merge-commit",   "prepare-commit-msg", "commit-msg",        "post-commit",
    "pre-rebase",         "post-merge",         "post-checkout",     "pre-push",
    "pre-auto-gc",        "post-rewrite",       "pre-receive",       "update",
    "post-receive",       "post-update",        "push-to-checkout",  "proc-receive",
    "sendemail-validate", "fsmonitor-watchman", "post-index-change",
};

/* Tells whether the path contains `directory` as whole components, with something after it. */
static bool path_has_directory(const char *path, const char *directory)
{
    size_t len = strlen(directory);

    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncasecmp(at, directory, len) == 0 && at[len] == '/')
            return true;
    }
    return false;
}

/* Tells whether the path ends in `text`, as whole components. */
static bool path_ends_in(const char *path, const char *text)
{
    size_t path_len = strlen(path), len = strlen(text);

    return path_len >= len && strcasecmp(path + path_len - len, text) == 0 &&
           (path_len == len || path[path_len - len - 1] == '/');
}

static bool is_lefthook(const char *name)
{
    name += *name == '.';
    if (strncasecmp(name, "lefthook", 8) != 0)
        return false;
    name += strncasecmp(name + 8, "-local", 6) == 0 ? 14 : 8;
    for (size_t i = 0; i < ARRAY_LEN(lefthook_endings); i++) {
        if (strcasecmp(name, lefthook_endings[i]) == 0)
            return true;
    }
    return false;
}

static bool is_of_shape(const char *name, const char *begin, const char *end)
{
    size_t len = strlen(name), begin_len = strlen(begin), end_len = strlen(end);

    return len > begin_len + end_len && strncasecmp(name, begin, begin_len) == 0 && strcasecmp(name + len - end_len, end) == 0;
}

static const char *const hook_directories[] = { "hooks", "git-hooks", "githooks" };

static bool is_hook(const char *path, const char *name)
{
    bool is_there = false;

    for (size_t i = 0; i < ARRAY_LEN(hook_directories); i++)
        is_there |= path_has_directory(path, hook_directories[i]);
    for (size_t i = 0; is_there && i < ARRAY_LEN(hooks); i++) {
        if (strcasecmp(name, hooks[i]) == 0)
            return true;
    }
    return is_lefthook(name);
}

static enum acknowledge acknowledge_in_directory(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
        if (path_has_directory(path, directories[i].text))
            return directories[i].reason;
    }
    return ACKNOWLEDGE_NOTHING;
}

enum acknowledge acknowledge_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum acknowledge reason;

    if (edit_is_git(path))
        return ACKNOWLEDGE_GIT;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (path_ends_in(path, names[i].text))
            return names[i].reason;
    }
    reason = acknowledge_in_directory(path);
    if (reason != ACKNOWLEDGE_NOTHING)
        return reason;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        if (is_of_shape(name, shapes[i].begin, shapes[i].end))
            return shapes[i].reason;
    }
    return is_hook(path, name) ? ACKNOWLEDGE_HOOK : ACKNOWLEDGE_NOTHING;
}

/* Tells whether the path ends in the first component of `text`, which has more: `.github` of `.github/workflows`. */
static bool path_ends_in_parent_of(const char *path, const char *text)
{
    size_t len = strcspn(text, "/");
    autofree char *first = xdupn(text, len);

    return text[len] == '/' && path_ends_in(path, first);
}

enum acknowledge acknowledge_directory(const char *path, bool *ret_is_all)
{
    autofree char *inside = xprintf("%s/", path);
    enum acknowledge reason = edit_is_git(path) ? ACKNOWLEDGE_GIT : acknowledge_in_directory(inside);

    *ret_is_all = reason != ACKNOWLEDGE_NOTHING;
    for (size_t i = 0; reason == ACKNOWLEDGE_NOTHING && i < ARRAY_LEN(directories); i++) {
        if (path_ends_in_parent_of(path, directories[i].text))
            reason = directories[i].reason;
    }
    for (size_t i = 0; reason == ACKNOWLEDGE_NOTHING && i < ARRAY_LEN(names); i++) {
        if (path_ends_in_parent_of(path, names[i].text))
            reason = names[i].reason;
    }
    for (size_t i = 0; reason == ACKNOWLEDGE_NOTHING && i < ARRAY_LEN(hook_directories); i++) {
        if (path_ends_in(path, hook_directories[i]))
            reason = ACKNOWLEDGE_HOOK;
    }
    return reason;
}

static size_t depth_of(const char *path)
{
    size_t depth = 0;

    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

/*
 * A target may begin with "..", but not climb above the root: then it leads to the place that it names. A ".." after a name
 * may follow another link there to a directory higher up, and climb out from that.
 */
enum acknowledge acknowledge_link(const char *scope_path, const char *target, size_t len)
{
    autofree char *text = xdupn(target, len);
    const char *end = text + strlen(text);
    size_t depth = depth_of(scope_path), climbed = 0;
    bool has_name = false;
    struct path_component c;
    enum acknowledge reason = acknowledge_file(scope_path);
    bool is_all;

    if (reason == ACKNOWLEDGE_NOTHING)
        reason = acknowledge_directory(scope_path, &is_all);
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
