/*
 * Where the Docker engine of this host listens.
 *
 * Only a socket of this host will do: the fence is mounted here, and an engine elsewhere could not show it to a container.
 */
#pragma once

#include "base/err.h"

#define ENGINE_PATH_USUAL "/var/run/docker.sock"
#define ENGINE_IMAGE_USUAL "ubuntu:22.04" /* of a sandbox for which nobody chose one */

/* `host` is a path or "unix://PATH"; "": $DOCKER_HOST, if that is such, else the usual place. The path is absolute; free it. */
int engine_path_parse(const char *host, char **ret_path, struct err *err);
