/*
 * Finds a project's repository from the project upwards as git does, by descriptors, and only within the roots of the caller.
 *
 * A project names its repository (`.git` may be a file or a link), and a repository names its object stores (`commondir`,
 * `alternates`): anyone who can write to the project could lead us anywhere.
 */
#pragma once

struct git_location {
    char *top;             /* owned: the directory that contains `.git` */
    int git_fd, common_fd; /* owned; the same directory, except in a linked work tree */
};

#define GIT_LOCATION_NONE ((struct git_location){ .git_fd = -1, .common_fd = -1 })

/* `roots` as in base/root_dir.h. -ENOENT: there is no repository. -EPERM: it, or an object store it borrows from, is
 * outside the roots; nothing outside was accessed. */
int git_location_find(const char *project_path, const char *const *roots, struct git_location *ret);
void git_location_done(struct git_location *location);
