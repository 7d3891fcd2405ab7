/*
 * A container as the engine is asked for it: everything in a sandbox's spec, as JSON.
 *
 * What is not said by the spec is the same for all: no capability, no new privileges, our filter of system calls, init as all that is
 * started whatever the image would start, no health check of the image's (it would run before init is ready), nothing kept by the
 * engine's logs, and the engine itself takes it away when init has ended.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "container/engine_caps.h"
#include "runtime/docker_order.h"

#define CREATE_BODY_LABEL_SANDBOX "agentfense.sandbox"
#define CREATE_BODY_LABEL_HOME "agentfense.home"

/* A directory of the sandbox's own, with what is bound into the container beside the workspace. */
#define CREATE_BODY_DIR "container"

/* The files of CREATE_BODY_DIR that stand for files of the image's /etc; ended by NULL. */
extern const char *const create_body_etc[];

/* New; NULL when a path or name is no UTF-8. `caps` is that of the engine. */
json_t *create_body_new(const struct docker_order *order, const struct engine_caps *caps);

/* What it is called: beginning with "agentfense-", so that people know whose it is. */
void create_body_name(const struct docker_order *order, struct buf *out);
