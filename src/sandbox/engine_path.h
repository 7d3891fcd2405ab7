/*
 * Where the Docker engine of this host listens.
 *
 * Only a socket of this host is accepted: the fence is mounted on this host, and an engine elsewhere could not show it to a container.
 */
#pragma once

#include "base/err.h"

#define ENGINE_PATH_USUAL "/var/run/docker.sock"
#define ENGINE_IMAGE_USUAL "ubuntu:22.04" /* the default image of sandboxes */

/* `host` is a path or "unix://PATH". "" means $DOCKER_HOST if it names a socket of this host, else ENGINE_PATH_USUAL. Returns an absolute
 * path; free it. */
int engine_path_parse(const char *host, char **ret_path, struct err *err);
