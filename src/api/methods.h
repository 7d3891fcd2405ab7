/*
 * The API: every method with its name, its routes and its handler.
 */
#pragma once

#include "call/method.h"

struct api;

/* Returns the table of methods, which lives as long as the program. Its cookie is to be a struct api. */
const struct method *api_methods(size_t *ret_count);
