/*
 * The ways to confine a sandbox, and what other modules need to know about each. A new runtime is a row of RUNTIME_TYPES and a file in
 * src/runtime with its constructor, NAME_runtime_new(); runtime_new() finds that through the same row.
 *
 * The table is here and not in src/runtime because the service and the file that describes a sandbox ask it too.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Where the workspace has to be mounted for the sandbox to see it. */
enum runtime_mount_scope {
    RUNTIME_MOUNT_PRIVATE,      /* our own mount namespace is enough: nothing is left on the host, whoever is killed */
    RUNTIME_MOUNT_HOST_VISIBLE, /* another program does the mounting and must see it */
};

/* Name, number in the API (RuntimeType), mount scope, and what else is true of it. The first row is the default; the first that needs an
 * image is the default of a sandbox that names one. */
#define RUNTIME_TYPES_OFFERED(ROW)                                                                                             \
    ROW(bwrap, 1, RUNTIME_MOUNT_PRIVATE, .is_staged = true)                                                                    \
    ROW(docker, 2, RUNTIME_MOUNT_HOST_VISIBLE, .needs_image = true)

#define RUNTIME_TYPES(ROW) RUNTIME_TYPES_OFFERED(ROW) ROW(mock, 100, RUNTIME_MOUNT_PRIVATE, .is_for_tests = true)

#define RUNTIME_TYPE_SPACED(type_name, ...) " " #type_name

/* Constant strings: the names that are offered, each after a space; all names, with spaces between them. */
#define RUNTIME_TYPE_NAMES_OFFERED "" RUNTIME_TYPES_OFFERED(RUNTIME_TYPE_SPACED)
#define RUNTIME_TYPE_NAMES (&("" RUNTIME_TYPES(RUNTIME_TYPE_SPACED))[1])

#define RUNTIME_TYPE_LISTED(type_name, ...) #type_name,
#define RUNTIME_TYPE_FIRST(first, ...) first
#define RUNTIME_TYPE_FIRST_OF(...) RUNTIME_TYPE_FIRST(__VA_ARGS__)

/* The name of the first row, a constant. */
#define RUNTIME_TYPE_DEFAULT RUNTIME_TYPE_FIRST_OF(RUNTIME_TYPES(RUNTIME_TYPE_LISTED))

struct runtime_type {
    const char *name;
    int api_number;
    enum runtime_mount_scope mount_scope;
    bool is_staged;    /* it can take a root that was made ahead (runtime/stage.h) */
    bool needs_image;  /* sandboxes are containers of an engine */
    bool is_for_tests; /* not offered to people, and unspecified in the API */
};

/* NULL: there is none of that name. */
const struct runtime_type *runtime_type_find(const char *name);

/* Of 0, which is unspecified in the API, and of numbers that no row has: the default. */
const struct runtime_type *runtime_type_of_number(int api_number);

/* Of a sandbox that names no runtime. */
const struct runtime_type *runtime_type_default(bool has_image);

/* Whether a client may ask for it by this number; 0 leaves the choice to us. */
bool runtime_type_is_offered(int api_number);

/* One that a person asks for by its name. */
int runtime_type_parse(const char *text, const struct runtime_type **ret, struct err *err);
