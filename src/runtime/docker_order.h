/*
 * What agentfense-container is told when it starts: the spec of a sandbox that is to be a container, as text.
 *
 * It goes through a file in memory, not through arguments, which anybody on the host can read. The environment of commands is not
 * in it: they get it from init, so no engine and none of its logs ever sees it.
 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/runtime_spec.h"

/* Descriptors of agentfense-container. */
#define DOCKER_INIT_FD 3   /* init's end of its socket, to be handed to it */
#define DOCKER_ORDER_FD 4  /* this */
#define DOCKER_REPORT_FD 5 /* see docker_report.h */

#define DOCKER_ORDER_MAX (1u << 20)

struct docker_order {
    struct runtime_spec spec; /* points into this */
    struct runtime_container container;
    struct runtime_mount mounts[RUNTIME_MOUNTS_MAX];
    char *text;     /* owned */
    char *own_init; /* owned: where init was copied to; NULL: it is where it was */
};

void docker_order_encode(const struct runtime_spec *spec, struct buf *out);

/* -EBADMSG for what encode() has not written. */
int docker_order_decode(const void *bytes, size_t len, struct docker_order **ret, struct err *err);
void docker_order_free(struct docker_order *order);
DEFINE_AUTOPTR(docker_order, docker_order_free);
