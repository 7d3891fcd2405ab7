/*
 * Changes that a person must acknowledge, because they take effect on the host without being called by name: when somebody
 * commits, opens an editor, enters the directory, pushes, installs packages or logs in. The same holds for links that lead out
 * of the root, and for files that git would accept as a repository.
 *
 * These functions judge only a path and a link's target, and ignore case, as some file systems do; acknowledge_check.h judges
 * a change. Sources, tests and Makefiles need no acknowledgement: they run only when somebody runs them, and the review covers
 * that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum acknowledge {
    ACKNOWLEDGE_NOTHING,
    ACKNOWLEDGE_GIT,     /* a repository inside the repository, or a path that leads into one; submodules */
    ACKNOWLEDGE_LINK,    /* a symlink that leaves the root, or may */
    ACKNOWLEDGE_HOOK,    /* runs when somebody commits, checks out ... */
    ACKNOWLEDGE_CI,      /* runs when it is pushed */
    ACKNOWLEDGE_EDITOR,  /* runs, or may run, when an editor or an assistant opens the directory */
    ACKNOWLEDGE_SHELL,   /* runs when a shell enters the directory or somebody logs in */
    ACKNOWLEDGE_PACKAGE, /* runs when packages are installed or built */
};

/* Judges a file that is created, changed or deleted. `path` may start at the project's root or at the sandbox's. */
enum acknowledge acknowledge_file(const char *path);

/* Judges a link by what its name means for a directory. `ret_is_all`: the answer holds for all files in it. Otherwise it
 * holds for some, and the caller judges each file by its own path: `.github` has workflows and much else. */
enum acknowledge acknowledge_directory(const char *path, bool *ret_is_all);

/* Judges a symlink by its path from the sandbox's root and its target. */
enum acknowledge acknowledge_link(const char *scope_path, const char *target, size_t len);

/* The name for programs: "git", "link", "hook", "ci", "editor", "shell", "package"; "" for nothing. */
const char *acknowledge_name(enum acknowledge reason);

/* The text for people: "runs when somebody commits". */
const char *acknowledge_text(enum acknowledge reason);
