/*
 * The arguments of bubblewrap: a list of operations made from a spec, then rendered. The list owns its strings and descriptors.
 *
 * bubblewrap builds the sandbox in the order of the list. One rule makes that safe: a mount point is made only in a fresh file
 * system that contains nothing but what the list put there, never beneath a directory of the host or of the agent, where a
 * symlink could redirect it. The root becomes read-only at the end.
 *
 * With a stage (runtime/stage.h) we perform most of the list there, under the same rule, and bwrap binds the result as a whole.
 *
 * bwrap reads nearly all arguments from a descriptor (--args), so that they do not appear in process lists. bwrap makes its
 * namespaces only after it has read them, so writing them starts the sandbox.
 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/proc.h"
#include "runtime/bwrap_probe.h"
#include "runtime/runtime_spec.h"

/* The first descriptor number for operations in bwrap; 3 is init's socket, and starting uses 4 and 5. */
#define BWRAP_ARGS_FD 4
#define BWRAP_INFO_FD 5
#define BWRAP_FIRST_FD 6

/* The fixed arguments, up to those of init, NULL-terminated. bwrap_orphan.h recognises our processes by them. They include
 * the two namespaces that make bwrap's child the first process of its own, because a killed starter may never write the
 * rest. */
extern const char *const bwrap_call[];

struct bwrap_args;

/* `root` is the prefix of the host's files: "" except in tests. The spec must be checked, and is borrowed for this call.
 * Creates the filter, and reads nothing of the host but small files in /etc. */
int bwrap_args_new(const struct runtime_spec *spec, const struct bwrap_probe *probe, const char *root, struct bwrap_args **ret,
                   struct err *err);
void bwrap_args_free(struct bwrap_args *args);
DEFINE_AUTOPTR(bwrap_args, bwrap_args_free);

/* Renders the options, NUL-terminated, for --args. */
void bwrap_args_render(const struct bwrap_args *args, struct buf *out);

/* Lends the descriptors that the options refer to, until the list is freed. */
const struct proc_fd *bwrap_args_fds(const struct bwrap_args *args, size_t *ret_count);
