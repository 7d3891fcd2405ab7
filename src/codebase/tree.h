/* Small functions about trees of files, shared by this module. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

enum tree_kind { TREE_NONE, TREE_FILE, TREE_LINK, TREE_DIR };

/* The content of a tree, without following links. For a missing name everything is 0 and TREE_NONE. */
struct tree_count {
    uint64_t bytes, files, entries;
    enum tree_kind kind;
};

int tree_count_at(int dirfd, const char *name, struct tree_count *ret);
enum tree_kind tree_kind_of(mode_t mode); /* TREE_NONE for types that a codebase cannot store: devices, FIFOs, sockets */

/* Writes "n12" or "o12". */
#define OBJECT_NAME_MAX 16
void object_name(char letter, unsigned number, char out[OBJECT_NAME_MAX]);

int64_t stat_mtime_ns(const struct stat *st);

/* Calls `fn` for every name in a directory, in no order. A nonzero result ends it and is returned. */
typedef int (*tree_name_fn)(const char *name, void *cookie);
int tree_each_name(int dirfd, tree_name_fn fn, void *cookie);
