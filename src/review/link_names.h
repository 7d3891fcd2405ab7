/*
 * The names that files have through symlinks. If `.vscode` is a link to `conf`, writing `conf/tasks.json` writes
 * `.vscode/tasks.json`, and what needs acknowledgement under one name needs it under the other.
 *
 * Only links whose own path matters (acknowledge.h) are followed, and links beneath the target of such a link, through any
 * number of others. They are resolved in the base alone and in the base with the changes, because the changes may be approved
 * in any order and in part.
 *
 * The project is searched for links breadth first, without `.git` and `node_modules`, in at most LINK_NAMES_DIRECTORIES
 * directories; also above the sandbox's root, if that is a directory in the project.
 */
#pragma once

#include "review/acknowledge.h"
#include "review/edit.h"

#define LINK_NAMES_DIRECTORIES 10000

struct link_names {
    struct link_region {
        char *target; /* owned; from the directory of the search, in lower case; "" is that directory */
        char *name;   /* owned; the name of the target through the link. NULL: all files need acknowledgement */
        enum acknowledge reason;
    } * regions; /* owned; by target */
    size_t count, cap;
    char *scope; /* owned; the sandbox's root from the directory of the search: "" or with a trailing slash */
};

#define LINK_NAMES_EMPTY ((struct link_names){ 0 })

/* `prefix`: the sandbox's root from the project's, "" if they are the same. */
int link_names_load(const struct edit_list *edits, const char *prefix, struct link_names *ret, struct err *err);
void link_names_done(struct link_names *names);

/* Judges a file or link by its other names; `scope_path` starts at the sandbox's root. */
enum acknowledge link_names_check(const struct link_names *names, const char *scope_path, bool is_link);
