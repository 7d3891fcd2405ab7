/*
 * A workspace without checks: the kernel's overlayfs, or a copy of the base. For sandboxes whose rules forbid nothing, where
 * the fence cannot be mounted or is not wanted. Only the fence has quotas, refusals and syncing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct sandbox;
struct plain;

/* Tells whether the spec asks for one. */
bool plain_is_wanted(const struct sandbox *sandbox);

int plain_start(struct sandbox *sandbox, struct plain **ret, struct err *err);
void plain_free(struct plain *plain);
DEFINE_AUTOPTR(plain, plain_free);

/* Prevents changes to the files: freezes every process of the sandbox and blocks clients' file operations. One caller at a
 * time, which calls plain_release() from the same thread. -ENOTSUP without a cgroup to freeze. */
int plain_quiesce(struct plain *plain, uint32_t wait_ms, struct err *err);
void plain_release(struct plain *plain);

/* To call around a client's change to a file. */
void plain_change_begin(struct plain *plain);
void plain_change_end(struct plain *plain);
