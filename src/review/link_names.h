/*
 * The names that files get through symlinks. Where `.vscode` is a link to `conf`, whoever writes `conf/tasks.json` writes
 * `.vscode/tasks.json`, and what needs acknowledgement under the one name needs it under the other.
 *
 * Only links whose own path matters (acknowledge.h) are followed, and those beneath where such a link leads; through any number of
 * others, in the base alone and in the base with the changes, because the changes may be approved in any order and in part.
 *
 * The project is searched for links breadth first, without `.git` and `node_modules`, in at most LINK_NAMES_DIRECTORIES directories; also
 * above the sandbox's root, if that is a directory in the project.
 */
#pragma once

#include "review/acknowledge.h"
#include "review/edit.h"

#define LINK_NAMES_DIRECTORIES 10000

struct link_names {
    struct link_region {
        char *target; /* owned; from where links were looked for, in lower case; "" is that directory */
        char *name;   /* owned; what files there are called through the link. NULL: all of them need acknowledgement */
        enum acknowledge reason;
    } * regions; /* owned; by target */
    size_t count, cap;
    char *scope; /* owned; the sandbox's root from where links were looked for: "" or with a slash at its end */
};

#define LINK_NAMES_EMPTY ((struct link_names){ 0 })

/* `prefix`: the sandbox's root from the project's, "" where it is the same. */
int link_names_load(const struct edit_list *edits, const char *prefix, struct link_names *ret, struct err *err);
void link_names_done(struct link_names *names);

/* Of a file or link, by its other names; `scope_path` from the sandbox's root. */
enum acknowledge link_names_check(const struct link_names *names, const char *scope_path, bool is_link);
