/* Routes that are no methods, for the test server. */
#pragma once

#include "call/web.h"

extern const struct web_table web_routes;
