/*
 * A workspace that nothing checks: an overlayfs of the kernel's, or a copy of the base. For sandboxes whose rules forbid nothing, where
 * the fence cannot be mounted or is not wanted. Quotas, refusals and handing over are the fence's.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"

struct sandbox;
struct plain;

/* Whether the spec asks for one. */
bool plain_is_wanted(const struct sandbox *sandbox);

int plain_start(struct sandbox *sandbox, struct plain **ret, struct err *err);
void plain_free(struct plain *plain);
DEFINE_AUTOPTR(plain, plain_free);
