/*
 * The image of a container: found, or fetched.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "container/engine.h"
#include "container/pull.h"

/* The path of the API that fetches one. A name without tag and digest means ":latest": asked without, an engine would fetch every
 * tag there is. */
void image_pull_path(const char *name, struct buf *out);

/* The name is a valid one (wire/sandbox_spec.h). `fn` hears how far it is. */
int image_require(struct engine *engine, const char *name, bool may_pull, pull_fn fn, void *cookie, struct err *err);
