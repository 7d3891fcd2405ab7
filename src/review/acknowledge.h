/*
 * Changes that need a person's word of their own, because they do something on the host later without being called by name: when
 * somebody commits, opens an editor, enters the directory, pushes, installs packages, logs in. And links that lead out, and what
 * git would take for a repository.
 *
 * These functions judge a path and a link's target alone, in letters of either case, as some file systems have it; acknowledge_check.h judges a
 * change. Sources, tests and Makefiles are not among them: they run when somebody runs them, and that is what the review is for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum acknowledge {
    ACKNOWLEDGE_NOTHING,
    ACKNOWLEDGE_GIT,     /* a repository in the repository, or what leads into one; submodules */
    ACKNOWLEDGE_LINK,    /* a symlink that leaves the root, or may */
    ACKNOWLEDGE_HOOK,    /* runs when somebody commits, checks out ... */
    ACKNOWLEDGE_CI,      /* runs when it is pushed */
    ACKNOWLEDGE_EDITOR,  /* runs, or may, when an editor or an assistant opens the directory */
    ACKNOWLEDGE_SHELL,   /* runs when a shell enters the directory or somebody logs in */
    ACKNOWLEDGE_PACKAGE, /* runs when packages are installed or built */
};

/* Of a file, whether it is made, changed or deleted. Any path from the root will do, the project's or the sandbox's. */
enum acknowledge acknowledge_file(const char *path);

/* Of a link, by what its name means for a directory. `ret_is_all`: for everything in it; otherwise for some of it, as `.github` has
 * workflows and much else, and each file in it is to be judged by its own path. */
enum acknowledge acknowledge_directory(const char *path, bool *ret_is_all);

/* Of a symlink: its path from the sandbox's root, and what it points to. */
enum acknowledge acknowledge_link(const char *scope_path, const char *target, size_t len);

/* For programs: "git", "link", "hook", "ci", "editor", "shell", "package"; "" for nothing. */
const char *acknowledge_name(enum acknowledge reason);

/* For people: "runs when somebody commits". */
const char *acknowledge_text(enum acknowledge reason);
