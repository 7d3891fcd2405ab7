/*
 * The runtimes that confine sandboxes, and the properties that other modules need. A new runtime is a row of RUNTIME_TYPES and
 * a file in src/runtime with its constructor, NAME_runtime_new(), which runtime_new() finds through that row.
 *
 * The table is here and not in src/runtime because the service and the sandbox's spec need it too.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Where the workspace must be mounted so that the sandbox sees it. */
enum runtime_mount_scope {
    RUNTIME_MOUNT_PRIVATE,      /* our mount namespace is enough: whatever gets killed, no mount is left on the host */
    RUNTIME_MOUNT_HOST_VISIBLE, /* another program mounts the sandbox and must see it */
};

/* Name, number in the API (RuntimeType), mount scope, and further properties. The first row is the default; the first one that
 * needs an image is the default for a sandbox with an image. */
#define RUNTIME_TYPES_OFFERED(ROW)                                                                                             \
    ROW(bwrap, 1, RUNTIME_MOUNT_PRIVATE, .is_staged = true)                                                                    \
    ROW(docker, 2, RUNTIME_MOUNT_HOST_VISIBLE, .needs_image = true)

#define RUNTIME_TYPES(ROW) RUNTIME_TYPES_OFFERED(ROW) ROW(mock, 100, RUNTIME_MOUNT_PRIVATE, .is_for_tests = true)

#define RUNTIME_TYPE_SPACED(type_name, ...) " " #type_name

/* Constant strings: the offered names, each after a space; and all names, separated by spaces. */
#define RUNTIME_TYPE_NAMES_OFFERED "" RUNTIME_TYPES_OFFERED(RUNTIME_TYPE_SPACED)
#define RUNTIME_TYPE_NAMES (&("" RUNTIME_TYPES(RUNTIME_TYPE_SPACED))[1])

#define RUNTIME_TYPE_LISTED(type_name, ...) #type_name,
#define RUNTIME_TYPE_FIRST(first, ...) first
#define RUNTIME_TYPE_FIRST_OF(...) RUNTIME_TYPE_FIRST(__VA_ARGS__)

/* The name of the first row as a constant. */
#define RUNTIME_TYPE_DEFAULT RUNTIME_TYPE_FIRST_OF(RUNTIME_TYPES(RUNTIME_TYPE_LISTED))

struct runtime_type {
    const char *name;
    int api_number;
    enum runtime_mount_scope mount_scope;
    bool is_staged;    /* accepts a root that was prepared in advance (runtime/stage.h) */
    bool needs_image;  /* sandboxes are containers of an engine */
    bool is_for_tests; /* not offered to users, and unspecified in the API */
};

/* Returns NULL for an unknown name. */
const struct runtime_type *runtime_type_find(const char *name);

/* Returns the default for 0, which is unspecified in the API, and for unknown numbers. */
const struct runtime_type *runtime_type_of_number(int api_number);

/* The runtime of a sandbox that names none. */
const struct runtime_type *runtime_type_default(bool has_image);

/* Returns true if a client may ask for this number; 0 leaves the choice to us. */
bool runtime_type_is_offered(int api_number);

/* Parses a name that a user typed. */
int runtime_type_parse(const char *text, const struct runtime_type **ret, struct err *err);
