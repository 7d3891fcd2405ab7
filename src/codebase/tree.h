/* Small things about trees of files that the room shares. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

enum tree_kind { TREE_NONE, TREE_FILE, TREE_LINK, TREE_DIR };

/* What a tree holds, without following anything. A name that is not there is nothing: 0 and TREE_NONE. */
struct tree_count {
    uint64_t bytes, files, entries;
    enum tree_kind kind;
};

int tree_count_at(int dirfd, const char *name, struct tree_count *ret);
enum tree_kind tree_kind_of(mode_t mode); /* TREE_NONE for what a codebase does not hold: devices, FIFOs, sockets */

/* "n12", "o12" */
#define OBJECT_NAME_MAX 16
void object_name(char letter, unsigned number, char out[OBJECT_NAME_MAX]);

int64_t stat_mtime_ns(const struct stat *st);

/* Calls for every name in a directory, in no order. A nonzero answer ends it and is returned. */
typedef int (*tree_name_fn)(const char *name, void *cookie);
int tree_each_name(int dirfd, tree_name_fn fn, void *cookie);
