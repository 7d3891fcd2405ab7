/*
 * Reports refusals as events. A worker puts an event into a ring and goes on; a thread of the audit takes it out and calls
 * fence_config.on_denial. Repeats of one kind on one path are counted and reported once a second. When the ring is full, events
 * are dropped and counted: no refused caller ever waits for the report.
 */
#pragma once

#include "fence/fence_int.h"

struct audit;

struct audit *audit_new(struct fence *f);
int audit_start(struct audit *audit);
void audit_stop(struct audit *audit); /* reports first what is in the ring */
void audit_free(struct audit *audit);

/* `name` in `dir`; with `name` NULL the inode `dir` itself. `error` is positive. */
void audit_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                  const struct op_caller *who);

/* Handles a GETATTR. Before the kernel refuses an open by mode bits it asks once more for the attributes, while the caller is
 * still in its system call. So this may be the only sign of a refusal. */
void audit_getattr(struct fence *f, struct inode *inode, const struct op_caller *who);

uint64_t audit_dropped(struct audit *audit);
