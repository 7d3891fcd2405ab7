/*
 * Refusals as events. A worker drops them into a ring and goes on; a thread of its own takes them out and calls whoever wants to
 * know. Repeats of one kind on one path are counted and told once a second. When the ring is full, events are dropped and that
 * is counted: nobody who is refused ever waits for us to say so.
 */
#pragma once

#include "fence/fence_int.h"

struct audit;

struct audit *audit_new(struct fence *f);
int audit_start(struct audit *audit);
void audit_stop(struct audit *audit); /* what is in the ring is told first */
void audit_free(struct audit *audit);

/* `name` in `dir`; or, with `name` NULL, the inode itself. `error` is positive. */
void audit_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                  const struct op_caller *who);

/* A GETATTR came in. Before the kernel refuses an open by mode bits it asks once more for the attributes, with the caller still
 * in its system call: so this may be the only sign of a refusal. */
void audit_getattr(struct fence *f, struct inode *inode, const struct op_caller *who);

uint64_t audit_dropped(struct audit *audit);
