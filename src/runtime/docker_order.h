/*
 * The order for agentfense-container: the spec of a container's sandbox.
 *
 * It is passed in a memory file, because any user of the host can read arguments. It does not contain the environment of
 * commands, which init gets from the supervisor, so neither the engine nor its logs ever see that.
 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/runtime_spec.h"

/* Descriptors of agentfense-container. */
#define DOCKER_INIT_FD 3   /* init's end of its socket, to be passed on */
#define DOCKER_ORDER_FD 4  /* the order */
#define DOCKER_REPORT_FD 5 /* see docker_report.h */

#define DOCKER_ORDER_MAX (1u << 20)

struct docker_order {
    struct runtime_spec spec; /* points into this struct */
    struct runtime_container container;
    struct runtime_mount mounts[RUNTIME_MOUNTS_MAX];
    uint8_t flags;
    void *bytes;    /* owned: the strings */
    char *own_init; /* owned: the copy of init; NULL: there is none */
};

void docker_order_encode(const struct runtime_spec *spec, struct buf *out);

/* -EBADMSG for anything that encode() does not produce. */
int docker_order_decode(const void *bytes, size_t len, struct docker_order **ret, struct err *err);
void docker_order_free(struct docker_order *order);
DEFINE_AUTOPTR(docker_order, docker_order_free);
