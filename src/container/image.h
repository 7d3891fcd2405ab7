/*
 * Finds or fetches a container's image.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "container/engine.h"
#include "container/pull.h"

/* Adds the API path that fetches an image. A name without tag and digest means ":latest"; otherwise an engine would fetch
 * every tag. */
void image_pull_path(const char *name, struct buf *out);

/* The name must be valid (wire/sandbox_spec.h). `fn` gets the progress. */
int image_require(struct engine *engine, const char *name, bool may_pull, pull_fn fn, void *cookie, struct err *err);
