/* What a configuration means for the service: of a server, and of a command line that does without one. */
#pragma once

#include "server/config.h"
#include "service/service.h"

/* Its strings are the configuration's. */
struct service_options config_service(const struct config *config);
