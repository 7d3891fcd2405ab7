/*
 * Where the repository of a project is: found from the project upwards as git does, by descriptors, and only within what somebody may reach.
 *
 * A project says itself where its repository is (`.git` may be a file or a link), a repository where its objects are (`commondir`,
 * `alternates`): whoever writes to the project could lead us anywhere by that.
 */
#pragma once

struct git_location {
    char *top;             /* owned: the directory that has `.git` */
    int git_fd, common_fd; /* owned; one directory, unless it is a linked work tree's */
};

#define GIT_LOCATION_NONE ((struct git_location){ .git_fd = -1, .common_fd = -1 })

/* `roots` as in base/root_dir.h. -ENOENT: there is none. -EPERM: it, or what it takes objects from, is not in the roots; what is outside was
 * not looked at. */
int git_location_find(const char *project_path, const char *const *roots, struct git_location *ret);
void git_location_done(struct git_location *location);
