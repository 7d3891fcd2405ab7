/*
 * The engine's request body for a container: a sandbox's spec as JSON.
 *
 * What the spec does not say is the same for all: no capabilities, no new privileges, our system call filter, init as the only
 * program whatever the image would start, none of the image's health checks (which would run before init is ready), no logs in
 * the engine, and automatic removal once init has ended.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "container/engine_caps.h"
#include "runtime/docker_order.h"

#define CREATE_BODY_LABEL_SANDBOX "agentfense.sandbox"
#define CREATE_BODY_LABEL_HOME "agentfense.home"

/* A directory of the sandbox, with the files that are bound into the container besides the workspace. */
#define CREATE_BODY_DIR "container"

/* The files of CREATE_BODY_DIR that replace files of the image's /etc; NULL-terminated. */
extern const char *const create_body_etc[];

/* Returns a new object; NULL if a path or name is not UTF-8. `caps` are the engine's. */
json_t *create_body_new(const struct docker_order *order, const struct engine_caps *caps);

/* Adds the container's name. It begins with "agentfense-", so that people recognise it. */
void create_body_name(const struct docker_order *order, struct buf *out);
