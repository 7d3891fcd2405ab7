/* grpc.reflection: describes the services and their messages to generic clients. It needs no authentication. */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "call/method.h"

struct reflection;

/* `set` is a FileDescriptorSet with all imported files, borrowed for the call. `tables` is borrowed and ends with NULL: the
 * services of its methods are listed. -EINVAL. */
int reflection_new(const void *set, size_t len, const struct method_table *const *tables, struct reflection **ret,
                   struct err *err);
void reflection_free(struct reflection *reflection);
DEFINE_AUTOPTR(reflection, reflection_free);

/* Reflection's own methods, for the caller to add to `tables`. */
const struct method_table *reflection_table(const struct reflection *reflection);
