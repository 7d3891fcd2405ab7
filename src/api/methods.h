/*
 * The API: every method with its name, its routes and its handler.
 */
#pragma once

#include "call/method.h"

struct api;

/* The table; `cookie` of it is the api. Lives as long as the program. */
const struct method *api_methods(size_t *ret_count);
