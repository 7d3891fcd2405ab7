/* Converts a configuration to the options of the service, for the server and for command-line programs without one. */
#pragma once

#include "server/config.h"
#include "service/service.h"

/* The strings are borrowed from the configuration. */
struct service_options config_service(const struct config *config);
