/*
 * Confinement by a container of a Docker engine. A program of its own, agentfense-container, talks to the engine. It is our
 * child, as bwrap would be: it runs as long as the container, reports about it (docker_report.h), and removes it when it is
 * told to or we are gone.
 *
 * Starting returns before the container exists, because fetching an image may take long. init's socket, or the end of the
 * program, tells the result.
 */
#pragma once

#include "base/err.h"
#include "runtime/runtime.h"

/* -ENOENT if the program is not installed. */
int docker_runtime_new(struct runtime **ret, struct err *err);
