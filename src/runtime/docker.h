/*
 * Confinement by a container of a Docker engine. The engine is spoken to by a program of its own, agentfense-container, which is our
 * child as bwrap would be: it lives as long as the container does, tells of it (docker_report.h), and takes it away when it is told to
 * end or we are gone.
 *
 * Starting returns before there is a container: fetching an image may take long. What came of it is told by init's socket, or by
 * the program's end.
 */
#pragma once

#include "base/err.h"
#include "runtime/runtime.h"

/* -ENOENT when the program is not installed. */
int docker_runtime_new(struct runtime **ret, struct err *err);
