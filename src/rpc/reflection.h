/* grpc.reflection: what is served and how its messages are made, told to tools that do not know it. For everybody. */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "call/method.h"

struct reflection;

/* `set` is a FileDescriptorSet with all that its files import; borrowed for the call. `tables` ends with NULL and is borrowed: the services
 * that are listed are those of the methods in it. -EINVAL. */
int reflection_new(const void *set, size_t len, const struct method_table *const *tables, struct reflection **ret,
                   struct err *err);
void reflection_free(struct reflection *reflection);
DEFINE_AUTOPTR(reflection, reflection_free);

/* Its methods, for the list that `tables` is. */
const struct method_table *reflection_table(const struct reflection *reflection);
