/*
 * A workspace that nothing checks: an overlayfs of the kernel's, or a copy of the base. For sandboxes whose rules forbid nothing, where
 * the fence cannot be mounted or is not wanted. Quotas, refusals and handing over are the fence's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct sandbox;
struct plain;

/* Whether the spec asks for one. */
bool plain_is_wanted(const struct sandbox *sandbox);

int plain_start(struct sandbox *sandbox, struct plain **ret, struct err *err);
void plain_free(struct plain *plain);
DEFINE_AUTOPTR(plain, plain_free);

/* Nothing changes its files from here on: every process of the sandbox stands still, and what clients do to files waits. One at a time;
 * plain_release() from the same thread. -ENOTSUP where there is no cgroup to freeze. */
int plain_quiesce(struct plain *plain, uint32_t wait_ms, struct err *err);
void plain_release(struct plain *plain);

/* Around what a client does to a file. */
void plain_change_begin(struct plain *plain);
void plain_change_end(struct plain *plain);
