/*
 * What bubblewrap is told: a list of operations made from a spec, then rendered. It owns its strings and its descriptors.
 *
 * The order of the list is the order in which bubblewrap builds the sandbox. One rule keeps it safe: a mount point is made only
 * in a file system that is fresh and empty but for what the list itself put there, never beneath something bound from the host
 * or from the agent's tree, where a symlink could lead the making elsewhere. The root is made read-only at the end.
 *
 * With a stage (runtime/stage.h) most of the list is performed there, under the same rule, and bwrap binds the whole of it.
 *
 * Nearly all of it goes to bwrap through a descriptor (--args), so that nothing of it shows in the list of processes; and since bwrap
 * makes its namespaces only after it has read that, whoever writes it decides when the sandbox begins.
 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/proc.h"
#include "runtime/bwrap_probe.h"
#include "runtime/runtime_spec.h"

/* The first number for the descriptors of operations in bwrap; 3 is init's socket, 4 and 5 are the start's own. */
#define BWRAP_ARGS_FD 4
#define BWRAP_INFO_FD 5
#define BWRAP_FIRST_FD 6

/* The words of the call itself, up to init's own; a NULL ends them. bwrap_orphan.h knows processes of ours by them. The two namespaces
 * that make bwrap's child the first process of its own are here, because a starter that is killed may never write the rest. */
extern const char *const bwrap_call[];

struct bwrap_args;

/* `root` is where the host's files are found: "" but in tests. The spec is checked already and borrowed for this call. Makes
 * the filter, and reads nothing of the host but small files of /etc. */
int bwrap_args_new(const struct runtime_spec *spec, const struct bwrap_probe *probe, const char *root, struct bwrap_args **ret,
                   struct err *err);
void bwrap_args_free(struct bwrap_args *args);
DEFINE_AUTOPTR(bwrap_args, bwrap_args_free);

/* The options, each ended by a NUL, as --args wants them. */
void bwrap_args_render(const struct bwrap_args *args, struct buf *out);

/* The descriptors that the options name, lent until the list is freed. */
const struct proc_fd *bwrap_args_fds(const struct bwrap_args *args, size_t *ret_count);
